"""Where two texts differ, word by word, for showing them side by side.

Spans count characters of the text that is shown. The work is bounded: equal ends are cut off first, and a middle that
is too long to align is marked as a whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from servegate.domain.blocks import Mark
from servegate.text.common import common_start
from servegate.text.similarity import matcher

WORD = re.compile(r"\d+(?:[.,]\d+)+|\w+|\s+|[^\w\s]")
"""A number with its decimals is one word: `0.5` against `5.0` is marked whole, not from its point on."""
MAX_CELLS = 4_000_000
"""Product of the numbers of words to align."""
MAX_MARKS = 200
CONTEXT = 200
"""Characters kept before the first difference when a long text is cut."""

Marks = tuple[Mark, ...]


@dataclass(frozen=True)
class Excerpt:
    """Two texts as shown, with their marks; `cut` says that something was left out."""

    left: str
    right: str
    left_marks: Marks
    right_marks: Marks
    cut: bool


def differences(left: str, right: str) -> tuple[Marks, Marks]:
    """Return the spans of each text that the other does not have; equal texts have none."""
    if left == right:
        return (), ()
    words = WORD.findall(left), WORD.findall(right)
    head, tail = _common_ends(*words)
    starts = _starts(words[0]), _starts(words[1])
    middle = words[0][head : len(words[0]) - tail], words[1][head : len(words[1]) - tail]
    if len(middle[0]) * len(middle[1]) > MAX_CELLS:
        edges = [((head, len(words[0]) - tail), (head, len(words[1]) - tail))]
    else:
        codes = matcher(*middle).get_opcodes()
        edges = [((i1 + head, i2 + head), (j1 + head, j2 + head)) for tag, i1, i2, j1, j2 in codes if tag != "equal"]
    return _spans([edge[0] for edge in edges], starts[0]), _spans([edge[1] for edge in edges], starts[1])


def excerpt(left: str, right: str, limit: int) -> Excerpt:
    """Return both texts, each at most `limit` characters (plus two ellipses), around their first difference, with marks."""
    if len(left) <= limit and len(right) <= limit:
        marks = differences(left, right)
        return Excerpt(left, right, *marks, cut=False)
    start = max(0, common_start(left, right) - CONTEXT)
    shown = _window(left, start, limit), _window(right, start, limit)
    return Excerpt(*shown, *differences(*shown), cut=True)


def _window(text: str, start: int, limit: int) -> str:
    part = text[start : start + limit]
    return ("… " if start else "") + part + (" …" if start + limit < len(text) else "")


def _common_ends(left: list[str], right: list[str]) -> tuple[int, int]:
    shorter = min(len(left), len(right))
    head = next((i for i in range(shorter) if left[i] != right[i]), shorter)
    tail = next((i for i in range(shorter - head) if left[-1 - i] != right[-1 - i]), shorter - head)
    return head, tail


def _starts(words: list[str]) -> list[int]:
    """Return where each word begins, and behind the last one where the text ends."""
    starts = [0]
    for word in words:
        starts.append(starts[-1] + len(word))
    return starts


def _spans(edges: list[tuple[int, int]], starts: list[int]) -> Marks:
    """Return the spans of word ranges; past MAX_MARKS the rest is one span."""
    spans: list[Mark] = []
    for first, last in edges:
        start, end = starts[first], starts[last]
        if start == end:
            continue
        if spans and (start - spans[-1].end <= 1 or len(spans) >= MAX_MARKS):  # one space between two marks reads as one
            spans[-1] = Mark(start=spans[-1].start, end=end)
        else:
            spans.append(Mark(start=start, end=end))
    return tuple(spans)
