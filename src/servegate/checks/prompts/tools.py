"""What a prompt asks beside its messages: `tools`, `tool_choice`, `chat_template_kwargs`; each read strictly.

"tools": [{"type": "function", "function": {"name": "weather", "description": "...", "parameters": {JSON Schema}}}]
"tool_choice": "auto" | "none" | "required" | {"type": "function", "function": {"name": "weather"}}
"chat_template_kwargs": {"enable_thinking": false}      a text such as "false" is refused: templates take it for true
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from servegate.domain.records import Json
from servegate.text.contracts import problem_with
from servegate.text.rulings import one_line

CHOICES = ("auto", "none", "required")
MOST_TOOLS = 128
"""As many as OpenAI's interface allows."""
EXAMPLE = 'A tool looks like {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}.'

Refuse = Callable[[str, str], NoReturn]


def asked_more(value: dict[str, Json], expect: dict[str, Json] | None, refuse: Refuse) -> dict[str, Json]:
    """Return the fields of a prompt that are not its messages, only those that are set."""
    more: dict[str, Json] = {}
    names = _tools(value["tools"], refuse) if "tools" in value else ()
    if names:
        more["tools"] = tuple(value["tools"])
    if "tool_choice" in value:
        more["tool_choice"] = _choice(value["tool_choice"], names, refuse)
    if "chat_template_kwargs" in value:
        more["chat_template_kwargs"] = _arguments(value["chat_template_kwargs"], refuse)
    wanted = (expect or {}).get("tool_call")
    if wanted is not None and not names:
        refuse("'expect': tool_call: the prompt has no 'tools' that could be called", EXAMPLE)
    if isinstance(wanted, dict) and wanted["name"] not in names:
        refuse(f"'expect': tool_call: {one_line(repr(wanted['name']))} is none of its tools", f"They are {', '.join(names)}.")
    return more


def _tools(stated: Json, refuse: Refuse) -> tuple[str, ...]:
    if not isinstance(stated, list) or not 1 <= len(stated) <= MOST_TOOLS:
        refuse(f"'tools' must be a list of 1 to {MOST_TOOLS} tools", EXAMPLE)
    names: list[str] = []
    for number, tool in enumerate(stated):
        function = tool.get("function") if isinstance(tool, dict) and tool.get("type") == "function" else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(function, dict) or not isinstance(name, str) or not name:
            refuse(f"tools[{number}] is no function with a name", EXAMPLE)
        if name in names:
            refuse(f"tools[{number}]: the name {one_line(repr(name))} is used before", "Give every tool its own name.")
        if "parameters" in function and (problem := problem_with({"json_schema": function["parameters"]})) is not None:
            refuse(f"tools[{number}].function.parameters: {problem}", EXAMPLE)
        names.append(name)
    return tuple(names)


def _choice(stated: Json, names: tuple[str, ...], refuse: Refuse) -> Json:
    if not names:
        refuse("'tool_choice' needs 'tools'", EXAMPLE)
    if stated in CHOICES:
        return stated
    function = stated.get("function") if isinstance(stated, dict) and stated.get("type") == "function" else None
    if not isinstance(function, dict) or function.get("name") not in names:
        example = '{"type": "function", "function": {"name": "weather"}}'
        advice = f"Allowed are {', '.join(CHOICES)}, or {example} with one of its tools."
        refuse(f"'tool_choice' is {one_line(repr(stated))}", advice)
    return stated


def _arguments(stated: Json, refuse: Refuse) -> dict[str, Json]:
    if not isinstance(stated, dict) or not stated:
        refuse("'chat_template_kwargs' must be an object with at least one argument", "")
    for name, value in stated.items():
        if isinstance(value, str) and value.strip().casefold() in ("true", "false", "yes", "no", "on", "off"):
            what = f"chat_template_kwargs.{one_line(name)} is the text {value!r}, which a template takes for true"
            refuse(what, "Write true or false without quotes.")
    return dict(stated)
