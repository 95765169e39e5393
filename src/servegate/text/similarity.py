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

try:
    from cydifflib import SequenceMatcher as _Matcher
except ImportError:  # pragma: no cover - interpreters for which cydifflib has no build
    _Matcher = difflib.SequenceMatcher

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
    return float(matcher(left, right).ratio())
