r"""Hostile text made visible: nothing that a reader cannot see, or that moves other text, survives.

Model output, logs and config values hold control characters, lone surrogates, invisible spaces and marks that
reverse the reading direction. Each is written as its escape (`\u202e`), so that what looks equal is equal, and so
that every string can be encoded as UTF-8. Huge texts are cut and say how much is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from servegate.domain.blocks import Mark

_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that are drawn as nothing: Hangul fillers, the empty Braille pattern."""
_MAX_COMBINING = 4
"""Combining marks in a row that are kept; more of them would paint over neighbouring lines."""
_TOWER = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u1ab0-\u1aff\u1dc0-\u1dff"
    f"\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f]{{{_MAX_COMBINING + 1},}}"
)
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


class _Escapes(dict[int, str]):
    """Maps each code point to what is shown for it, worked out when it is first met (`str.translate` keeps this fast)."""

    def __init__(self, keep: str) -> None:
        super().__init__({ord(character): character for character in keep})

    def __missing__(self, code: int) -> str:
        character = chr(code)
        # Not printable are the general categories Other and Separator, but for the space (Python, `str.isprintable`).
        self[code] = _escape(character) if not character.isprintable() or character in _BLANK else character
        return self[code]


_escapes = cache(_Escapes)


def visible(text: str, *, keep: str = "") -> str:
    r"""Return the text with every invisible character as its escape; characters in `keep` (`"\n\t"`) stay."""
    if text.isascii() and text.isprintable():
        return text
    return _TOWER.sub(_shortened, text).translate(_escapes(keep))


def _shortened(tower: re.Match[str]) -> str:
    marks = tower.group()
    return marks[:_MAX_COMBINING] + "".join(map(_escape, marks[_MAX_COMBINING:]))


def cut(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text, then how many more there are."""
    return text if len(text) <= limit else f"{text[:limit]}… {len(text) - limit:,} more characters"


@dataclass(frozen=True)
class Segment:
    """A run of text that is shown in one way: as it is, as an escape, or as a note of ours."""

    text: str
    kind: Literal["plain", "escape", "note"]
    marked: bool


def segments(text: str, marks: Sequence[Mark], limit: int) -> tuple[Segment, ...]:
    """Return a text in runs for display, keeping line ends and tabs, at most `limit` characters around the first mark.

    Marks may overlap, be unsorted or reach outside of the text: a character is marked when any of them covers it.
    """
    spans = sorted((max(mark.start, 0), max(0, min(mark.end, len(text)))) for mark in marks if mark.start < mark.end)
    first = next((start for start, end in spans if start < end), 0)
    begin = max(0, min(first - limit // 4, len(text) - limit)) if first > limit // 2 else 0
    end = min(len(text), begin + limit)
    runs: list[Segment] = []
    if begin:
        runs.append(Segment(f"{begin:,} earlier characters …", "note", False))
    position = begin
    for wanted, until in (*spans, (end, end)):
        start, stop = min(max(wanted, position), end), min(until, end)
        runs.extend(_runs(text[position:start], False))
        runs.extend(_runs(text[start:stop], True))
        position = max(position, start, stop)
    if end < len(text):
        runs.append(Segment(f"… {len(text) - end:,} more characters", "note", False))
    return tuple(runs)


def _runs(text: str, marked: bool) -> Iterator[Segment]:
    """Join neighbouring pieces of the same kind."""
    if text and visible(text, keep="\n\t") == text:
        yield Segment(text, "plain", marked)
        return
    plain: list[str] = []
    for piece, escaped in _pieces(text, "\n\t"):
        if not escaped:
            plain.append(piece)
            continue
        if plain:
            yield Segment("".join(plain), "plain", marked)
            plain = []
        yield Segment(piece, "escape", marked)
    if plain:
        yield Segment("".join(plain), "plain", marked)


def _pieces(text: str, keep: str) -> Iterator[tuple[str, bool]]:
    """Yield each character, or its escape and True; joined they are what `visible` returns."""
    escapes = _escapes(keep)
    too_many = {place for tower in _TOWER.finditer(text) for place in range(tower.start() + _MAX_COMBINING, tower.end())}
    for place, character in enumerate(text):
        shown = _escape(character) if place in too_many else escapes[ord(character)]
        yield shown, shown != character


def _escape(character: str) -> str:
    code = ord(character)
    if character in _SHORT:
        return _SHORT[character]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
