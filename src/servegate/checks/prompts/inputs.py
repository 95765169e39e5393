r"""Reading the prompt file: JSON Lines, one prompt a line.

    {"id": "sum-01", "category": "math", "prompt": "What is 20 + 22?", "expect": {"number": 42}, "max_tokens": 16}
    {"id": "tone-01", "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]}
    {"id": "tool-01", "prompt": "Weather in Paris?", "tools": [{"type": "function", "function": {"name": "weather"}}],
     "expect": {"tool_call": {"name": "weather"}}}

Lines end at \n, never at the Unicode line separators that a prompt may hold. A byte order mark, CRLF and blank lines
are accepted, since editors write them; everything else that could be misread is an error that names the line.
"""

from __future__ import annotations

import difflib
import re
from typing import NoReturn

from servegate.checks.contract import ReadFile
from servegate.checks.prompts.records import Prompt, PromptsInputs
from servegate.checks.prompts.settings import PromptsSettings
from servegate.checks.prompts.tools import asked_more
from servegate.domain.plan import sha256_of
from servegate.domain.records import Json
from servegate.errors import UsageError
from servegate.text import strict_json
from servegate.text.contracts import problem_with
from servegate.text.rulings import one_line

KEYS = ("id", "category", "prompt", "messages", "expect", "max_tokens", "tools", "tool_choice", "chat_template_kwargs")
PLANNED_KEYS = ("response_format", "temperature", "stop")
ROLES = ("system", "user", "assistant")
MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_LINE = 16 * 1024 * 1024
MAX_ID = 100
MAX_TOKENS = 131_072
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
EXAMPLE = 'A line looks like {"id": "sum-01", "category": "math", "prompt": "What is 20 + 22?"}.'


def load(settings: PromptsSettings, read_file: ReadFile) -> PromptsInputs:
    """Return the prompts of the file, not rendered yet. Raises UsageError with file, line and what is allowed."""
    name = settings.file
    content = read_file(name)
    if len(content) > MAX_FILE_BYTES:
        raise UsageError(f"{name}: {len(content)} bytes of prompts, allowed are {MAX_FILE_BYTES}")
    prompts: list[Prompt] = []
    first_line: dict[str, int] = {}
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not raw.strip():
            continue
        line = _Line(name, number)
        prompt = line.prompt(line.parsed(raw), settings.max_tokens)
        if prompt.id in first_line:
            line.refuse(
                f"the id {prompt.id!r} is used on line {first_line[prompt.id]} already", "Give every prompt its own id."
            )
        first_line[prompt.id] = number
        prompts.append(prompt)
    if not prompts:
        raise UsageError(f"{name}: the file holds no prompts", advice=EXAMPLE)
    return PromptsInputs(prompts=tuple(prompts))


class _Line:
    """One line, and how to speak about it."""

    def __init__(self, file: str, number: int) -> None:
        self.place = f"{file}:{number}"

    def refuse(self, what: str, advice: str = EXAMPLE) -> NoReturn:
        raise UsageError(f"{self.place}: {what}", advice=advice)

    def parsed(self, raw: bytes) -> dict[str, Json]:
        try:
            text = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            self.refuse(f"byte {error.start + 1} of the line is not UTF-8", "Save the file as UTF-8.")
        try:
            value = strict_json.parse(text.strip("\r \t"), limit=MAX_LINE)
        except strict_json.NotJsonError as error:
            self.refuse(f"not JSON: {str(error).replace('line 1 ', '')}", "Each line holds one whole JSON object.")
        if not isinstance(value, dict):
            self.refuse(f"expected a JSON object, found {_kind(value)}")
        return value

    def prompt(self, value: dict[str, Json], default_max_tokens: int) -> Prompt:
        for key in value:
            if key not in KEYS:
                self._unknown(key, KEYS)
        messages, expect = self._messages(value), self._expect(value)
        more = asked_more(value, expect, self.refuse)
        return Prompt(
            id=self._id(value),
            category=self._text(value.get("category", "general"), "category", limit=MAX_ID),
            messages=messages,
            max_tokens=self._max_tokens(value.get("max_tokens", default_max_tokens)),
            expect=expect,
            prompt_sha256=sha256_of({"messages": list(messages), **more} if more else list(messages)),
            **more,
        )

    def _unknown(self, key: str, known: tuple[str, ...]) -> NoReturn:
        if key in PLANNED_KEYS and known is KEYS:
            self.refuse(f"{key!r} is not supported yet", "Remove it: it would be ignored, and the prompt would mean less.")
        close = difflib.get_close_matches(key, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        self.refuse(f"unknown key {one_line(repr(key))}{hint}", f"Allowed are {', '.join(known)}.")

    def _id(self, value: dict[str, Json]) -> str:
        if "id" not in value:
            self.refuse("the key 'id' is missing")
        return self._text(value["id"], "id", limit=MAX_ID)

    def _text(self, value: Json, key: str, *, limit: int | None = None) -> str:
        if not isinstance(value, str):
            self.refuse(f"{key!r} must be a text, not {_kind(value)}")
        if not value.strip():
            self.refuse(f"{key!r} is empty")
        if (lone := LONE_SURROGATE.search(value)) is not None:
            advice = "Write the character itself, or both of its escapes."
            self.refuse(f"{key!r} holds half of a character (\\u{ord(lone[0]):04x} alone), which no request can carry", advice)
        if limit is not None and (len(value) > limit or not value.isprintable()):
            advice = f"It names the prompt in tables and messages: at most {limit} printable characters."
            self.refuse(f"{key!r} is too long or holds control characters: {one_line(repr(value))}", advice)
        return value

    def _max_tokens(self, value: Json) -> int:
        if type(value) is not int or not 1 <= value <= MAX_TOKENS:
            self.refuse(f"'max_tokens' must be a whole number from 1 to {MAX_TOKENS}, not {one_line(repr(value))}", "")
        return value

    def _expect(self, value: dict[str, Json]) -> dict[str, Json] | None:
        if "expect" not in value:
            return None
        expect: Json = value["expect"]
        if (problem := problem_with(expect)) is not None:
            self.refuse(f"'expect': {problem}", "An expectation that cannot be judged is refused, since nobody would notice.")
        return dict(expect)

    def _messages(self, value: dict[str, Json]) -> tuple[dict[str, Json], ...]:
        if ("prompt" in value) == ("messages" in value):
            both = "'prompt' and 'messages' exclude each other" if "prompt" in value else "'prompt' (or 'messages') is missing"
            self.refuse(both)
        if "prompt" in value:
            return ({"role": "user", "content": self._text(value["prompt"], "prompt")},)
        messages = value["messages"]
        if not isinstance(messages, list) or not messages:
            self.refuse(f"'messages' must be a list with at least one message, not {_kind(messages)}")
        checked = tuple(self._message(message, f"messages[{index}]") for index, message in enumerate(messages))
        if checked[-1]["role"] != "user":
            self.refuse(f"the last message is of the role {checked[-1]['role']!r}", "The last one must be the user's.")
        return checked

    def _message(self, message: Json, where: str) -> dict[str, Json]:
        if not isinstance(message, dict):
            self.refuse(f"{where} must be an object with role and content, not {_kind(message)}")
        for key in message:
            if key not in ("role", "content"):
                self._unknown(key, ("role", "content"))
        role = message.get("role")
        if role not in ROLES:
            self.refuse(f"{where}.role is {one_line(repr(role))}", f"Allowed are {', '.join(ROLES)}.")
        if isinstance(message.get("content"), list):
            self.refuse(f"{where}.content is a list of parts, which is not supported yet", "Write the content as one text.")
        return {"role": role, "content": self._text(message.get("content"), f"{where}.content")}


def _kind(value: Json) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
