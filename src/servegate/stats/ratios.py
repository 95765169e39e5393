"""The ratio of two speeds, with an interval that is as wide as it has to be.

Speeds are compared on the log scale, y = ln(candidate) - ln(baseline), where +x % and -x % cost the same. Windows of
load within one start of a server agree with each other better than two starts of the same server do, so an interval
from windows alone is too narrow: it covers 44 % of the time when it says 95 % and starts differ by 1 %. The spread
between starts is therefore added, once for each arm:

    SE^2 = s_baseline^2 / m_baseline + s_candidate^2 / m_candidate + 2 * restart_sd^2
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from scipy.special import stdtrit

from servegate.stats.intervals import POWER, normal_quantile


@dataclass(frozen=True)
class LogRatio:
    """ln(right / left), its standard error and degrees of freedom; `se` None when an arm has fewer than two windows."""

    value: float
    se: float | None
    df: float

    @property
    def ratio(self) -> float:
        """Right over left (1.0: no difference)."""
        return math.exp(self.value)

    def bounds(self, alpha: float) -> tuple[float, float] | None:
        """Return one-sided lower and upper bounds of the ratio, each at level 1 - alpha; None without an interval."""
        if self.se is None:
            return None
        reach = self._quantile(1 - alpha) * self.se
        return math.exp(self.value - reach), math.exp(self.value + reach)

    def smallest_detectable(self, alpha: float = 0.05, power: float = POWER) -> float | None:
        """Return the relative change (0.03: 3 %) that a two-sided test at `alpha` finds with probability `power`."""
        if self.se is None:
            return None
        return math.expm1((self._quantile(1 - alpha / 2) + normal_quantile(power)) * self.se)

    def _quantile(self, probability: float) -> float:
        return normal_quantile(probability) if math.isinf(self.df) else float(stdtrit(self.df, probability))


def log_ratio(left: Sequence[float], right: Sequence[float], restart_sd: float) -> LogRatio:
    """Compare positive speeds of two arms' windows.

    `restart_sd` is the standard deviation of one start's log speed, taken as known; 0 compares windows of one start. The
    degrees of freedom are Welch and Satterthwaite's, to which a known variance adds none (so they grow with its share).

    Raises:
        ValueError: an arm has no window, or a speed is not positive.
    """
    if not left or not right or min(*left, *right) <= 0:
        raise ValueError("speeds must be positive, and each arm needs at least one window")
    baseline, candidate = [math.log(value) for value in left], [math.log(value) for value in right]
    value = fmean(candidate) - fmean(baseline)
    if min(len(left), len(right)) < 2:
        return LogRatio(value=value, se=None, df=0.0)
    within = [(stdev(logs) ** 2 / len(logs), len(logs) - 1) for logs in (baseline, candidate)]
    variance = sum(part for part, _ in within) + 2 * restart_sd**2
    weight = sum(part**2 / df for part, df in within)
    return LogRatio(value=value, se=math.sqrt(variance), df=variance**2 / weight if weight > 0 else math.inf)


def paired_log_ratio(pairs: Sequence[tuple[float, float]], restart_sd: float) -> LogRatio:
    """Compare two arms by blocks that were measured beside each other: (left, right) positive speeds of one block each.

    The unit is the block, d = ln(right) - ln(left): what drifts slowly cancels within a block. Each arm has a single start
    all the same, so the spread between starts is added as for windows: SE^2 = s_d^2 / n + 2 * restart_sd^2.

    Raises:
        ValueError: there is no pair, or a speed is not positive.
    """
    if not pairs or min(min(pair) for pair in pairs) <= 0:
        raise ValueError("speeds must be positive, and at least one block is needed")
    differences = [math.log(right) - math.log(left) for left, right in pairs]
    if len(differences) < 2:
        return LogRatio(value=differences[0], se=None, df=0.0)
    within = stdev(differences) ** 2 / len(differences)
    variance = within + 2 * restart_sd**2
    df = variance**2 / (within**2 / (len(differences) - 1)) if within > 0 else math.inf
    return LogRatio(value=fmean(differences), se=math.sqrt(variance), df=df)


def coefficient_of_variation(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation over the mean (0.02: 2 %); None for fewer than two values."""
    return stdev(values) / fmean(values) if len(values) > 1 and fmean(values) > 0 else None


def requests_for_percentile(share: float, alpha: float = 0.05) -> int:
    """Return the fewest samples whose largest bounds a percentile from above at level 1 - alpha, distribution-free.

    The largest of n lies above the `share` quantile with probability 1 - share**n: 59 for p95, 299 for p99.
    """
    if not 0 < share < 1:
        raise ValueError(f"needs 0 < share < 1, got {share}")
    return math.ceil(math.log(alpha) / math.log(share))
