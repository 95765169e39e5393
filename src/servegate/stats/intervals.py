"""Intervals for a mean over questions, the smallest drop a run can see, and how many more questions would settle it.

The gate judges accuracy by one number per question, d = mean(baseline rounds) - mean(candidate rounds), so d lies in
[-1, 1] and is positive where the candidate lost something. Questions are independent, rounds of one question are not;
averaging rounds first makes the question the unit, and the ordinary interval of a mean applies:

    mean(d) +/- z * sd(d) / sqrt(n)

with one-sided z: 1.645 for "at most", at 95 %, and 2.326 for "at least", at 99 %. Where hardly any question differs the
formula promises more than n questions can know (no difference at all would give a width of zero), so no bound is ever
closer to the mean than 1 - alpha**(1/n), the exact one-sided bound on a share that was never seen to occur in n draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

POWER = 0.8
"""Probability with which a planning figure (smallest detectable drop, questions needed) is meant to succeed."""


@dataclass(frozen=True)
class Mean:
    """A mean of n independent values and their sample standard deviation (0 for a single value), in the values' unit."""

    value: float
    sd: float
    n: int

    def lower(self, alpha: float) -> float:
        """Return the one-sided lower bound at level 1 - alpha."""
        return self.value - self._reach(alpha)

    def upper(self, alpha: float) -> float:
        """Return the one-sided upper bound at level 1 - alpha."""
        return self.value + self._reach(alpha)

    def p_above(self, limit: float) -> float:
        """Return the smallest alpha whose lower bound is above `limit`: a one-sided p against "the mean is at most that"."""
        distance = self.value - limit
        if distance <= 0:
            return 1.0
        normal = NormalDist().cdf(-distance * math.sqrt(self.n) / self.sd) if self.sd > 0 else 0.0
        never_seen = math.exp(self.n * math.log1p(-distance)) if distance < 1 else 0.0
        return max(normal, never_seen)

    def _reach(self, alpha: float) -> float:
        return max(normal_quantile(1 - alpha) * self.sd / math.sqrt(self.n), never_seen_bound(self.n, alpha))


def mean_of(values: Sequence[float]) -> Mean:
    """Return mean, standard deviation (n - 1) and n of independent values in [-1, 1]. Raises ValueError on none."""
    if len(values) == 0:
        raise ValueError("a mean needs at least one value")
    array = np.asarray(values, dtype=np.float64)
    return Mean(value=float(array.mean()), sd=float(array.std(ddof=1)) if len(array) > 1 else 0.0, n=len(array))


def normal_quantile(probability: float) -> float:
    """Return the standard normal quantile; `probability` is strictly between 0 and 1."""
    return NormalDist().inv_cdf(probability)


def never_seen_bound(n: int, alpha: float) -> float:
    """Return the exact one-sided upper bound on a share of which n independent draws showed none: 1 - alpha**(1/n).

    This is the Clopper-Pearson limit at zero successes; 20 draws give 13.9 %, 299 give 1 %, 1,319 give 0.23 %.
    """
    if n < 1 or not 0 < alpha < 1:
        raise ValueError(f"needs n >= 1 and 0 < alpha < 1, got n={n}, alpha={alpha}")
    return -math.expm1(math.log(alpha) / n)


def smallest_detectable(sd: float, n: int, alpha: float = 0.05, power: float = POWER) -> float:
    """Return the drop that a one-sided test at `alpha` finds with probability `power`: (z_alpha + z_power) sd / sqrt(n).

    With rho = share of discordant questions and no net change, sd is sqrt(rho). The normal approximation is slightly
    optimistic (power .76 to .78 instead of .8 with the exact test). Never below what n questions can show at all.
    """
    reach = (normal_quantile(1 - alpha) + normal_quantile(power)) * sd / math.sqrt(n)
    return max(reach, never_seen_bound(n, alpha))


def questions_needed(distance: float, sd: float, alpha: float, power: float = POWER) -> int | None:
    """Return how many questions in total put a bound at level 1 - alpha clear of a limit `distance` away from the mean.

    None when the mean lies on the limit or beyond it (`distance` <= 0): more questions cannot help there. The same mean
    and spread are assumed for the questions to come, so this is a planning figure.
    """
    if distance <= 0:
        return None
    if distance >= 1:
        return 1
    spread = ((normal_quantile(1 - alpha) + normal_quantile(power)) * sd / distance) ** 2
    exact = math.log(alpha) / math.log1p(-distance)
    return max(math.ceil(spread), math.ceil(exact), 1)
