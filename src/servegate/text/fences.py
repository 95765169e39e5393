"""Code fences in an answer, found line by line as CommonMark does.

A fence is a line of three or more backticks or tildes; it is closed by a line of the same character, at least as long, and
nothing else. Backticks inside a line, or inside a JSON string, open nothing. A fence may be indented by three spaces, after
an item of a list by any white space; as much of it is taken from every line of the block.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPENING = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)")
_CLOSING = re.compile(r"(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})\s*")
_DEEPER = re.compile(r" {0,3}")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,9}[.)])\s")

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
    listed = False
    for line in text.replace("\r\n", "\n").split("\n"):
        if opening is None:
            opening, body = _opening(line, listed=listed), []
            if opening is None:
                outside.append(line)
                listed = listed or _ITEM.match(line) is not None
            continue
        inner = line[len(opening["indent"]) :] if line.startswith(opening["indent"]) else line.lstrip(" \t")
        closing = _CLOSING.fullmatch(inner)
        if (
            closing
            and _DEEPER.fullmatch(closing["indent"])
            and closing["fence"][0] == opening["fence"][0]
            and len(closing["fence"]) >= len(opening["fence"])
        ):
            blocks.append(Block(_language(opening), "\n".join(body), closed=True))
            opening = None
        else:
            body.append(inner)
    if opening is not None:
        blocks.append(Block(_language(opening), "\n".join(body), closed=False))
    return tuple(blocks), outside


def _opening(line: str, *, listed: bool) -> re.Match[str] | None:
    found = _OPENING.fullmatch(line)
    return found if found and (listed or _DEEPER.fullmatch(found["indent"])) else None


def _language(opening: re.Match[str]) -> str:
    """`rust,ignore`, `js:app.js`, `python{1,3}`, `{.python}` and `language-js` name a language too."""
    named = _NAME.match(opening["info"].strip())
    return named["name"].lower() if named else ""
