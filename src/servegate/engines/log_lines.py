"""vLLM's log, line by line: who wrote it, at which level, what it says.

    (EngineCore pid=5547) ERROR 11-29 18:02:11 [core.py:1231] ValueError: Free memory on device ...
    `- writer             `- level                            `- text

Several processes write into one file, so a traceback's lines may lie between another's; `writer` tells them apart. Lines
are numbered from 1 as a text editor numbers them: only a line feed ends a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
"""Colours and movements of the cursor; titles and links of a terminal."""
_SOMETHING = re.compile(r"[^\n]+")
_WRITER = re.compile(r"^\(([^()]{1,80})\) ?")
_RAY_WORKER = re.compile(r"^\((RayWorker[^()]{1,80})\) ?")
"""Ray passes its workers' lines on through the engine's process, which writes its own name before theirs."""
_LEVEL = re.compile(r"^(DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d \[[^\]]{1,120}\] ?")
MAX_LINE = 20_000
MOST_LINES = 200_000
"""More are not read, and empty ones are not kept: an engine that prints line ends alone would take its reader's memory."""
MOST_SPEAKERS = 64
MOST_DIGITS = 15
"""Longer numbers are no sizes, times or token counts, whatever wrote them there."""


@dataclass(frozen=True)
class Line:
    """One line of a log without its decoration; `level` is empty for lines that were not logged but printed."""

    number: int
    writer: str
    level: str
    text: str

    @property
    def kind(self) -> str:
        """Which kind of process wrote it: its name without rank and pid."""
        return re.split(r"[_ ]", self.writer, maxsplit=1)[0]

    @property
    def is_worker(self) -> bool:
        """Whether a process below the API server wrote it: that is where the first cause of a failed start stands."""
        return self.writer.startswith(("Worker", "VllmWorker", "RayWorker", "EngineCore"))


def lines_of(text: str) -> list[Line]:
    """Return the first MOST_LINES lines of a log that hold anything; each is cut at MAX_LINE characters."""
    found: list[Line] = []
    number, seen = 1, 0
    for raw in _SOMETHING.finditer(text):
        number, seen = number + text.count("\n", seen, raw.start()), raw.start()
        if len(found) == MOST_LINES:
            break
        rest = _ANSI.sub("", raw[0][:MAX_LINE]).rstrip("\r")
        writer = level = ""
        if match := _WRITER.match(rest):
            writer, rest = match[1], rest[match.end() :]
            if inner := _RAY_WORKER.match(rest):
                writer, rest = inner[1], rest[inner.end() :]
        if match := _LEVEL.match(rest):
            level, rest = match[1], rest[match.end() :]
        found.append(Line(number, writer, level, rest))
    return found


def first(lines: Iterable[Line], pattern: str) -> str | None:
    """Return the first group of the first line that matches."""
    compiled = re.compile(pattern)
    return next((match[1] for line in lines if (match := compiled.search(line.text))), None)


def contradiction(lines: Iterable[Line], pattern: str) -> str | None:
    """Return in words two lines whose first groups differ although one thing was to be said; None where they agree.

    Several processes of one kind may each speak of their own part (`Worker_TP0` and `Worker_TP1`, `EngineCore_DP0` and
    `EngineCore_DP1`). A process that says two things, or a process of another kind, quotes something: the name of a model, a
    template, a prompt. Nothing in the log tells which of the two is the engine's own word.
    """
    compiled = re.compile(pattern)
    seen: list[tuple[Line, str]] = []
    for line in lines:
        if (match := compiled.search(line.text)) is None:
            continue
        for earlier, said in seen:
            if said != match[1] and (earlier.writer == line.writer or earlier.kind != line.kind):
                return f"{said} (line {earlier.number}) and {match[1]} (line {line.number})"
        if len(seen) < MOST_SPEAKERS:
            seen.append((line, match[1]))
    return None


def integer(text: str | None) -> int | None:
    """Return a whole number with or without thousands separators; None for what is none."""
    digits = (text or "").replace(",", "")
    return int(digits) if digits.isdecimal() and len(digits) <= MOST_DIGITS else None


def number(text: str | None) -> float | None:
    """Return a number; None for what is none."""
    try:
        return float(text) if text and len(text) <= MOST_DIGITS else None
    except ValueError:
        return None
