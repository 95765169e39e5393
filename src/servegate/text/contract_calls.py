"""The contract about tool calls: which function is called, and with which arguments. Nothing is ever called.

    {"tool_call": true}                                       at least one call, its arguments one strict JSON object
    {"tool_call": false}                                      no call at all
    {"tool_call": {"name": "get_weather"}}                    exactly one call, of this function
    {"tool_call": {"name": "get_weather", "arguments": {}}}   and its arguments satisfy this JSON Schema

Arguments are judged as the text that the model wrote: a server that mends them on the way is not asked to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from servegate.domain.records import Json
from servegate.text import contract_formats as formats
from servegate.text.rulings import KEPT, Ruling, State, broken, one_line, undecided

KEYS = ("name", "arguments")


def problem_with_call(value: Json) -> str | None:
    """`true`, `false`, or an object with a name and, if anything is said of them, a schema of the arguments."""
    if isinstance(value, bool):
        return None
    if not isinstance(value, dict):
        return f'must be true, false or an object such as {{"name": "get_weather"}}, not {one_line(repr(value))}'
    unknown = [key for key in value if key not in KEYS]
    if unknown:
        return f"unknown key {one_line(repr(unknown[0]))}; allowed are {', '.join(KEYS)}"
    if not isinstance(value.get("name"), str) or not value["name"]:
        return "the name of the function is missing"
    return formats.problem_with_schema(value["arguments"]) if "arguments" in value else None


def call_rule(expected: Json, calls: Sequence[Mapping[str, Json]], cut: bool) -> Ruling:
    """`calls` are {"name", "arguments"}, arguments as text. A call that is not there yet may come after the cut."""
    if expected is False:
        if calls:
            return broken(f"{named(calls)} was called, and nothing should be")
        return undecided("cut before its end") if cut else KEPT
    if not calls:
        return undecided("cut before its end") if cut else broken("no tool was called")
    if expected is True:
        rulings = [formats.json_object_rule(_text(call), cut) for call in calls]
        return next((ruling for ruling in rulings if ruling.state is not State.KEPT), KEPT)
    wrong = [call for call in calls if call.get("name") != expected["name"]]
    if wrong or len(calls) > 1:
        return broken(f"{named(wrong or calls)} was called, expected one call of {expected['name']}")
    ruling = formats.json_object_rule(_text(calls[0]), cut)
    if ruling.state is State.KEPT and "arguments" in expected:
        ruling = formats.json_schema_rule(expected["arguments"], _text(calls[0]), cut)
    return ruling if ruling.state is State.KEPT else Ruling(ruling.state, one_line(f"arguments: {ruling.why}"))


def named(calls: Sequence[Mapping[str, Json]]) -> str:
    """Return the names of the functions that were called, the first few."""
    names = [str(call.get("name")) for call in calls]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _text(call: Mapping[str, Json]) -> str:
    arguments = call.get("arguments")
    return arguments if isinstance(arguments, str) else ""
