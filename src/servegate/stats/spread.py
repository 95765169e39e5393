"""How much one start of an unchanged server differs from the next.

Each start gives a few values (windows of load, on the log scale). The means of k starts spread for two reasons: starts
differ, and the windows within each start do. One-way analysis of variance takes them apart,

    restart^2 = variance of the start means - mean of (window variance / windows of that start)

(never below 0). The upper limit is that of the whole spread of the means, from the chi-square distribution with k - 1
degrees of freedom: it does not subtract what the windows explain, so it errs to the safe side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from scipy.special import chdtri


@dataclass(frozen=True)
class StartSpread:
    """Standard deviation of one start, in the values' unit, with its one-sided upper limit; `starts` gave it."""

    sd: float
    upper: float
    starts: int


def start_spread(starts: Sequence[Sequence[float]], alpha: float = 0.05) -> StartSpread | None:
    """Return the spread between starts of [starts][values]; None from fewer than two starts with a value."""
    known = [list(values) for values in starts if len(values)]
    if len(known) < 2:
        return None
    between = variance([fmean(values) for values in known])
    # A start with a single value says nothing about its own spread: the others' stands in for it, or none is subtracted.
    within = [variance(values) for values in known if len(values) > 1]
    explained = fmean([fmean(within) / len(values) for values in known]) if within else 0.0
    reach = (len(known) - 1) / float(chdtri(len(known) - 1, 1 - alpha))
    return StartSpread(sd=math.sqrt(max(between - explained, 0.0)), upper=math.sqrt(between * reach), starts=len(known))
