"""What may be printed in a workflow's log, and how a value gets into the files that the runner reads back.

The runner reads every line of a step's output. A line that starts with `::name` (after leading blanks), and a line that
holds `##[name]` anywhere, is a command to it: it masks words, ends groups, writes annotations. So text that we did not
write ourselves goes through `inert` before it is printed, and into a command only with the runner's own escapes.
Source of both forms and of the escapes: `ActionCommand.cs`
(https://github.com/actions/runner/blob/079cdb1d05fe0ec50f8c51de5a4fa51d0eb189b0/src/Runner.Common/ActionCommand.cs).
Outputs are written in the heredoc form with a random delimiter, since a fixed one can be forged by a value that holds it.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections.abc import Mapping
from typing import Literal

Level = Literal["notice", "warning", "error"]

_LINE_BREAKS = re.compile("[\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029]+")
_COMMAND_START = re.compile(r"^(\s*):(?=:)")


def one_line(text: str, limit: int = 500) -> str:
    """Return text as one printable line of at most `limit` characters.

    Line breaks of every kind become a blank; control, format (bidi, zero-width), private and surrogate characters
    become U+FFFD, so that nothing invisible survives and the result always encodes.
    """
    flat = _LINE_BREAKS.sub(" ", text[: limit * 4]).replace("\t", " ")
    shown = "".join("\ufffd" if unicodedata.category(char) in {"Cc", "Cf", "Cs", "Co", "Cn"} else char for char in flat).strip()
    return shown if len(shown) <= limit and len(text) <= limit * 4 else shown[: limit - 1].rstrip() + "…"


def inert(text: str, limit: int = 500) -> str:
    """Return text as one line that the runner takes for a command in neither of its two forms."""
    line = one_line(text, limit).replace("##[", "## [")
    return _COMMAND_START.sub(r"\1: ", line)


def command(level: Level, message: str, *, title: str = "", file: str = "", line: int | None = None) -> str:
    """Return an annotation command. `message` may have several lines; no part of any argument can end the command early."""
    properties = {"title": title, "file": file, "line": "" if line is None else str(line)}
    given = ",".join(f"{name}={_escape_property(value)}" for name, value in properties.items() if value)
    return f"::{level}{' ' if given else ''}{given}::{_escape_data(message)}"


def output_lines(values: Mapping[str, str]) -> str:
    """Return what to append to GITHUB_OUTPUT. Values are flattened to one line each: no output of ours needs more.

    Raises ValueError when a name is not one of ours (lower-case words joined by hyphens).
    """
    lines = []
    for name, value in values.items():
        if not re.fullmatch(r"[a-z]+(-[a-z]+)*", name):
            raise ValueError(f"not the name of an output: {name!r}")
        delimiter = f"servegate_{secrets.token_hex(16)}"
        lines.append(f"{name}<<{delimiter}\n{one_line(value, 4096)}\n{delimiter}\n")
    return "".join(lines)


def _escape_data(text: str) -> str:
    encodable = text.encode("utf-8", "replace").decode()
    return encodable.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
