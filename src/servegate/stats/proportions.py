"""Intervals for a share: so many of so many, counted once each."""

from __future__ import annotations

import math

from scipy.special import bdtrc, betaincinv

from servegate.stats.intervals import normal_quantile


def wilson(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return Wilson's two-sided score interval for a share in [0, 1].

    Wilson, JASA 22 (1927) 209-212: (p + z^2/2n -+ z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n). Unlike p -+ z se it stays
    inside [0, 1] and keeps a width where none or all of the n succeed.

    Raises:
        ValueError: n < 1, or successes outside 0 to n.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"needs n >= 1 and 0 <= successes <= n, got {successes} of {n}")
    z = normal_quantile((1 + level) / 2)
    p, weight = successes / n, z * z / n
    centre = p + weight / 2
    reach = z * math.sqrt(p * (1 - p) / n + weight / (4 * n))
    low = 0.0 if successes == 0 else (centre - reach) / (1 + weight)
    high = 1.0 if successes == n else (centre + reach) / (1 + weight)
    return low, high


def upper_limit(successes: int, n: int, alpha: float = 0.05) -> float:
    """Return the exact one-sided upper limit of a share in [0, 1] at level 1 - alpha (Clopper and Pearson).

    Biometrika 26 (1934) 404-413: the share p at which so few successes come with probability alpha. None of n gives
    1 - alpha**(1/n), of which 3/n (the rule of three) is the approximation for large n.

    Raises:
        ValueError: n < 1, successes outside 0 to n, or alpha outside (0, 1).
    """
    if n < 1 or not 0 <= successes <= n or not 0 < alpha < 1:
        raise ValueError(f"needs n >= 1, 0 <= successes <= n and 0 < alpha < 1, got {successes} of {n}, alpha={alpha}")
    return 1.0 if successes == n else float(betaincinv(successes + 1, n - successes, 1 - alpha))


def more_often_one_sided(after: int, exposure_after: int, before: int, exposure_before: int) -> float:
    """Return P(at least `after` of all events fall on that side) when both sides have one rate; 1 without events.

    Two counts of rare events, each with the chances it had. Given their sum, `after` is binomial with the side's share of the
    exposure (Przyborowski and Wilenski, Biometrika 31 (1940) 313-323); with equal exposure it is the exact sign test.

    Raises:
        ValueError: a count is negative, or a side had no chance of an event.
    """
    if min(after, before) < 0 or min(exposure_after, exposure_before) < 1:
        raise ValueError(f"needs counts >= 0 and exposures >= 1, got {after}/{exposure_after} and {before}/{exposure_before}")
    share = exposure_after / (exposure_after + exposure_before)
    return 1.0 if after == 0 else float(bdtrc(after - 1, after + before, share))
