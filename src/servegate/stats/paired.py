"""Two arms, the same questions, right or wrong: what a 2 x 2 table of pairs says.

Only the questions on which the arms disagree carry information about a difference: b were right and became wrong,
c were wrong and became right, n is the number of pairs. Equal accuracy may hide many of both, and an unpaired test of
two accuracies throws the pairing (most of the power) away.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import bdtr

from servegate.stats.intervals import normal_quantile


def mcnemar_one_sided(b: int, c: int) -> float:
    """Return P(at least b of b + c discordant pairs go right-to-wrong) when both directions are equally likely.

    The exact (binomial) form of McNemar's test (Psychometrika 12, 1947) against "the candidate is worse"; 1 when no
    pair is discordant. It is also the exact sign test of any paired differences with b positive and c negative ones.
    """
    _counts(b, c)
    return float(bdtr(c, b + c, 0.5))


def mcnemar_two_sided(b: int, c: int) -> float:
    """Return the exact two-sided p: twice the smaller tail, at most 1."""
    _counts(b, c)
    return min(1.0, 2 * float(bdtr(min(b, c), b + c, 0.5)))


def tango_z(b: int, c: int, n: int, drop: float) -> float:
    """Return Tango's score statistic for "the true drop (b - c) / n is `drop`"; it falls as `drop` grows.

    Tango, Statistics in Medicine 17 (1998) 891-908, equations for the restricted estimate of the discordant cell.
    Very negative: evidence that the drop is smaller than `drop` (non-inferiority at that margin).
    """
    _table(b, c, n)
    first = 2 * n
    second = -b - c + (2 * n - b + c) * drop
    third = -c * drop * (1 - drop)
    cell = (math.sqrt(max(second * second - 4 * first * third, 0.0)) - second) / (2 * first)
    variance = n * (2 * cell + drop * (1 - drop))
    distance = b - c - n * drop
    if variance <= 0:
        return 0.0 if distance == 0 else math.copysign(math.inf, distance)
    return distance / math.sqrt(variance)


def tango_bounds(b: int, c: int, n: int, alpha: float) -> tuple[float, float]:
    """Return the one-sided lower and upper bounds of the drop (b - c) / n, each at level 1 - alpha."""
    _table(b, c, n)
    estimate, z = (b - c) / n, normal_quantile(1 - alpha)
    low = _falling_to(lambda drop: tango_z(b, c, n, drop), -1.0, estimate, z)
    high = _falling_to(lambda drop: tango_z(b, c, n, drop), estimate, 1.0, -z)
    return low, high


def _falling_to(function: Callable[[float], float], low: float, high: float, target: float) -> float:
    """Return where a falling function reaches `target`, by bisection to the last bit; the nearer end when it never does."""
    for _ in range(100):
        middle = (low + high) / 2
        if function(middle) > target:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _counts(b: int, c: int) -> None:
    if b < 0 or c < 0:
        raise ValueError(f"counts are never negative: b={b}, c={c}")


def _table(b: int, c: int, n: int) -> None:
    _counts(b, c)
    if n < 1 or b + c > n:
        raise ValueError(f"needs n >= 1 and b + c <= n: b={b}, c={c}, n={n}")
