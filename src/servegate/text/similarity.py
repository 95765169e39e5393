"""How alike two texts look, as one number that orders a reading queue and decides nothing.

`The transfer was approved` and `The transfer was not approved` are 93 % alike, so no threshold on this number may ever
wave an answer through.

The ratio is `difflib`'s own, 2 * matches / (length + length), with its junk heuristic off: that heuristic drops frequent
characters from texts of 200 characters or more and turns nearly equal texts into 0.0 (python/cpython#90825). `cydifflib`
computes the same values in C++ about fourteen times as fast; where it is not installed the standard library does.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from servegate.text.common import common_start

try:
    from cydifflib import SequenceMatcher as _Matcher
except ImportError:  # pragma: no cover - interpreters for which cydifflib has no build
    _Matcher = difflib.SequenceMatcher

LEAST, PROBE = 64, 8
"""Shorter texts are matched at once; half the length of the piece that must stand only once."""
MAX_CELLS = 25_000_000
"""Product of the two lengths. The matching is quadratic; this bounds one pair at about a third of a second."""


def matcher(left: Sequence[Any], right: Sequence[Any]) -> difflib.SequenceMatcher[Any]:
    """Return a matcher of two sequences with the junk heuristic off."""
    found: difflib.SequenceMatcher[Any] = _Matcher(None, left, right, autojunk=False)
    return found


def similarity(left: str, right: str) -> float | None:
    """Return difflib's ratio in [0, 1]; None when the texts are too long to compare.

    The ratio depends on the order of its arguments (`tide`, `diet`: 0.25 or 0.5), so the baseline comes first, always.
    """
    if left == right:
        return 1.0
    if len(left) * len(right) > MAX_CELLS:
        return None
    return 2 * _matches(left, right) / (len(left) + len(right))


def rouge_l(left: str, right: str) -> float:
    """Return ROUGE-L of two texts in [0, 1]: the F measure of their longest common subsequence of words, case folded.

    Lin, "ROUGE: A Package for Automatic Evaluation of Summaries" (2004), with beta = 1; words are what white space separates.
    """
    if left == right:
        return 1.0
    first, second = left.casefold().split(), right.casefold().split()
    return 2 * _common_words(first, second) / (len(first) + len(second)) if first or second else 1.0


def _common_words(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence.

    One bit for each word of `first`, a whole row of the table in one addition (Hyyro, "Bit-parallel LCS-length computation
    revisited", 2004).
    """
    places: dict[str, int] = {}
    for place, word in enumerate(first):
        places[word] = places.get(word, 0) | 1 << place
    every = (1 << len(first)) - 1
    row = every
    for word in second:
        matched = row & places.get(word, 0)
        row = (row + matched | row - matched) & every
    return len(first) - row.bit_count()


def _matches(left: str, right: str) -> int:
    """Return how many characters difflib's matching blocks hold.

    difflib takes the longest common part first and goes on at both of its sides. Answers that differ in a few words share
    one end that is longer than half of the shorter text; when it is surely the longest part (see `_is_longest`) it is cut
    off, and what is left is small. The values stay difflib's own.
    """
    found = 0
    while min(len(left), len(right)) >= LEAST and (end := _longest_end(left, right)):
        if end > 0:
            left, right = left[end:], right[end:]
        else:
            left, right = left[:end], right[:end]
        found += abs(end)
    return found + sum(block.size for block in matcher(left, right).get_matching_blocks())


def _longest_end(left: str, right: str) -> int:
    """Return the length of a common start, negative for a common end, that is the longest common part; else 0.

    Let m be the shorter length. A common part of at least m/2 + PROBE characters covers the 2 * PROBE characters in the
    middle of the shorter text wherever it lies. Where those stand only once in the longer text, all such parts lie on one
    diagonal, so there is one, and a common start or end of that length is it.
    """
    shorter, longer = sorted((left, right), key=len)
    needed, middle = len(shorter) // 2 + PROBE + 1, len(shorter) // 2
    end = 0
    if left[:needed] == right[:needed]:
        end = common_start(left, right)
    elif left[-needed:] == right[-needed:]:
        end = -common_start(left[::-1], right[::-1])
    if not end:
        return 0
    probe = shorter[middle - PROBE : middle + PROBE]
    first = longer.find(probe)
    return end if longer.find(probe, first + 1) < 0 else 0
