"""Code fences in an answer, found line by line as CommonMark does.

A fence is a line of three or more backticks or tildes, indented by at most three spaces; it is closed by a line of the
same character, at least as long, and nothing else. Backticks inside a line, or inside a JSON string, open nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPENING = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)")
_CLOSING = re.compile(r" {0,3}(?P<fence>`{3,}|~{3,})\s*")

_NAME = re.compile(r"[{.]*(?:lang(?:uage)?-)?(?P<name>[^\s,:{}]*)", re.IGNORECASE)


@dataclass(frozen=True)
class Block:
    """One fenced block: its language (the name after the fence, lower case), its text, and whether it was closed."""

    language: str
    body: str
    closed: bool


def fenced_blocks(text: str) -> tuple[Block, ...]:
    """Return the fenced blocks of a text in order; the last one may be unclosed."""
    return _split(text)[0]


def without_blocks(text: str) -> str:
    """Return the lines of a text that stand outside its fenced blocks."""
    return "\n".join(_split(text)[1])


def _split(text: str) -> tuple[tuple[Block, ...], list[str]]:
    """Return the blocks, and the lines outside them."""
    blocks: list[Block] = []
    outside: list[str] = []
    opening: re.Match[str] | None = None
    body: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        if opening is None:
            opening, body = _OPENING.fullmatch(line), []
            if opening is None:
                outside.append(line)
            continue
        closing = _CLOSING.fullmatch(line)
        if closing and closing["fence"][0] == opening["fence"][0] and len(closing["fence"]) >= len(opening["fence"]):
            blocks.append(Block(_language(opening), "\n".join(body), closed=True))
            opening = None
        else:
            body.append(line)
    if opening is not None:
        blocks.append(Block(_language(opening), "\n".join(body), closed=False))
    return tuple(blocks), outside


def _language(opening: re.Match[str]) -> str:
    """`rust,ignore`, `js:app.js`, `python{1,3}`, `{.python}` and `language-js` name a language too."""
    named = _NAME.match(opening["info"].strip())
    return named["name"].lower() if named else ""
