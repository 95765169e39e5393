"""Tokens to the first divergence, as a curve: which share of the answers is still equal after so many tokens.

The estimator of Kaplan and Meier (J. Am. Stat. Assoc. 53, 1958): a pair that is equal to its end leaves the count there
and says nothing about longer answers. A pair whose tokens were not recorded is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from servegate.checks.prompts.pairing import Pair

MOST_POINTS = 64


def still_equal(pairs: Iterable[Pair]) -> tuple[tuple[int, float], ...]:
    """Return (token, share of answers equal up to and with it), from (0, 1.0) on; empty without recorded tokens."""
    known = [pair for pair in pairs if pair.left.answer.rows and pair.right.answer.rows]
    if not known:
        return ()
    parted: Counter[int] = Counter()
    ended: Counter[int] = Counter()
    for pair in known:
        if pair.divergence is None:
            ended[min(pair.left.answer.rows, pair.right.answer.rows)] += 1
        else:
            parted[pair.divergence.token + 1] += 1
    share, at_risk = 1.0, len(known)
    points = [(0, 1.0)]
    for token in sorted({*parted, *ended}):
        if parted[token]:
            share *= 1 - parted[token] / at_risk
            points.append((token, share))
        at_risk -= parted[token] + ended[token]
    last = max({*parted, *ended})
    if points[-1][0] != last:
        points.append((last, share))
    return _thinned(points)


def _thinned(points: list[tuple[int, float]]) -> tuple[tuple[int, float], ...]:
    """Keep both ends and evenly many between, so that a large set makes no large figure."""
    if len(points) <= MOST_POINTS:
        return tuple(points)
    step = (len(points) - 1) / (MOST_POINTS - 1)
    return tuple(points[round(index * step)] for index in range(MOST_POINTS))
