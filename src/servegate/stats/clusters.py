"""A mean over tokens, with an interval that knows that tokens of one text are not independent.

A window of text on which the candidate does badly lowers hundreds of tokens at once. Counted as independent, they give
an interval up to ten times too narrow. So the window (or the document) is the unit: its residuals are summed first, and
the spread of those sums over C clusters gives the standard error of the mean of all N tokens,

    SE = sqrt( C / (C - 1) * sum_c ( sum_{t in c} (x_t - mean) )^2 ) / N

which is the cluster-robust (Liang and Zeger, Biometrika 73 (1986) 13-22) standard error of a mean, with Student's t at
C - 1 degrees of freedom. One cluster has no spread: then there is no interval, and that is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

Floats = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class Clustered:
    """A mean or a slope of n values in `clusters` clusters; `se` None when there are fewer than two clusters."""

    value: float
    se: float | None
    n: int
    clusters: int

    def bounds(self, alpha: float) -> tuple[float, float] | None:
        """Return one-sided lower and upper bounds, each at level 1 - alpha; None without an interval."""
        if self.se is None:
            return None
        reach = float(stdtrit(self.clusters - 1, 1 - alpha)) * self.se
        return self.value - reach, self.value + reach


def clustered_slope(values: Floats, x: Floats | Integers, clusters: Integers) -> Clustered | None:
    """Return the slope of `values` [N] over `x` [N], in their unit per unit of x; None for fewer than three, or equal x.

    The standard error is the same sandwich as above, for a line: scores (x - mean x) * residual are summed per cluster;
    with C clusters it carries the factors C / (C - 1) and (N - 1) / (N - 2), as in R and Stata.
    """
    if len(values) != len(x) or len(values) != len(clusters):
        raise ValueError(f"needs equally many values, x and cluster numbers: {len(values)}, {len(x)}, {len(clusters)}")
    if len(values) < 3:
        return None
    y, centred = np.asarray(values, dtype=np.float64), np.asarray(x, dtype=np.float64)
    centred = centred - centred.mean()
    square = float(centred @ centred)
    if square == 0:
        return None
    slope = float(centred @ y) / square
    residual = y - y.mean() - slope * centred
    _, places = np.unique(clusters, return_inverse=True)
    sums = np.bincount(places, weights=centred * residual)
    count, n = len(sums), len(y)
    correction = count / (count - 1) * (n - 1) / (n - 2) if count > 1 else 0.0
    se = float(np.sqrt(correction * np.square(sums).sum())) / square if count > 1 else None
    return Clustered(value=slope, se=se, n=n, clusters=count)


def clustered_se(values: Floats, clusters: Integers) -> float:
    """Return the standard error of the mean of `values` [N] whose cluster numbers are `clusters` [N].

    Raises:
        ValueError: no value, arrays of different length, or fewer than two clusters.
    """
    mean = clustered_mean(values, clusters)
    if mean.se is None:
        raise ValueError(f"a clustered standard error needs at least two clusters, got {mean.clusters}")
    return mean.se


def clustered_mean(values: Floats, clusters: Integers) -> Clustered:
    """Return the mean of `values` [N] with its clustered standard error. Raises ValueError on none, or unequal lengths."""
    if len(values) == 0 or len(values) != len(clusters):
        raise ValueError(f"needs as many cluster numbers as values, and at least one: {len(values)} and {len(clusters)}")
    array = np.asarray(values, dtype=np.float64)
    mean = float(array.mean())
    _, places = np.unique(clusters, return_inverse=True)
    sums = np.bincount(places, weights=array - mean)
    count = len(sums)
    se = float(np.sqrt(count / (count - 1) * np.square(sums).sum()) / len(array)) if count > 1 else None
    return Clustered(value=mean, se=se, n=len(array), clusters=count)
