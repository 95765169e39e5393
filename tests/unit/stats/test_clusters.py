"""The clustered interval: against a worked example, against statsmodels, and by simulation where the usual one fails."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm

from servegate.stats.clusters import clustered_mean, clustered_se, clustered_slope


def test_a_worked_example() -> None:
    # mean 3; residual sums of the clusters: -3, 0 and 3; sqrt(3/2 * 18) / 6
    values, clusters = np.array([1.0, 2.0, 2.0, 4.0, 4.0, 5.0]), np.array([0, 0, 1, 1, 2, 2])
    assert clustered_se(values, clusters) == pytest.approx(math.sqrt(27) / 6)
    mean = clustered_mean(values, clusters)
    assert (mean.value, mean.n, mean.clusters) == (3.0, 6, 3)
    low, high = mean.bounds(0.05) or (0.0, 0.0)
    assert high - 3.0 == pytest.approx(2.919986 * math.sqrt(27) / 6, rel=1e-5)  # t, 2 degrees of freedom
    assert 3.0 - low == pytest.approx(high - 3.0)


def test_it_is_the_cluster_robust_error_of_statsmodels() -> None:
    rng = np.random.default_rng(5)
    clusters = np.repeat(np.arange(40), rng.integers(1, 60, 40))
    values = rng.normal(size=len(clusters)) + rng.normal(size=40)[clusters]
    oracle = sm.OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    assert clustered_se(values, clusters) == pytest.approx(float(oracle.bse[0]), rel=1e-10)


def test_one_cluster_has_no_interval() -> None:
    mean = clustered_mean(np.array([1.0, 2.0, 3.0]), np.zeros(3, dtype=int))
    assert mean.se is None
    assert mean.bounds(0.05) is None
    with pytest.raises(ValueError, match="at least two clusters, got 1"):
        clustered_se(np.array([1.0, 2.0]), np.zeros(2, dtype=int))


def test_nothing_and_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        clustered_mean(np.zeros(0), np.zeros(0, dtype=int))
    with pytest.raises(ValueError, match="2 and 1"):
        clustered_mean(np.zeros(2), np.zeros(1, dtype=int))


def test_it_covers_where_independent_tokens_do_not() -> None:
    """Windows share a shift of their own, as texts do; both intervals are meant to hold the truth 90 times in 100."""
    rng = np.random.default_rng(11)
    windows, tokens, gates = 40, 200, 400
    clusters = np.repeat(np.arange(windows), tokens)
    clustered_hits = naive_hits = 0
    for _ in range(gates):
        values = rng.normal(0.0, 1.0, windows * tokens) + rng.normal(0.0, 0.3, windows)[clusters]
        low, high = clustered_mean(values, clusters).bounds(0.05) or (0.0, 0.0)
        clustered_hits += low <= 0.0 <= high
        reach = 1.645 * values.std(ddof=1) / math.sqrt(len(values))
        naive_hits += abs(values.mean()) <= reach
    assert 0.86 <= clustered_hits / gates <= 0.94
    assert naive_hits / gates < 0.5


def test_the_slope_is_the_cluster_robust_slope_of_statsmodels() -> None:
    rng = np.random.default_rng(6)
    clusters = np.repeat(np.arange(30), 50)
    x = np.tile(np.arange(50.0), 30)
    values = 0.3 * x + rng.normal(size=len(x)) + rng.normal(size=30)[clusters] * x / 10
    oracle = sm.OLS(values, sm.add_constant(x)).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    slope = clustered_slope(values, x, clusters)
    assert slope is not None
    assert slope.value == pytest.approx(float(oracle.params[1]), rel=1e-10)
    assert slope.se == pytest.approx(float(oracle.bse[1]), rel=1e-9)
    low, high = slope.bounds(0.05) or (0.0, 0.0)
    assert low < 0.3 < high


def test_a_slope_needs_two_positions_and_its_interval_two_clusters() -> None:
    assert clustered_slope(np.arange(4.0), np.ones(4), np.arange(4)) is None
    assert clustered_slope(np.arange(2.0), np.arange(2.0), np.arange(2)) is None
    alone = clustered_slope(np.arange(4.0), np.arange(4.0), np.zeros(4, dtype=int))
    assert alone is not None
    assert (alone.value, alone.se, alone.bounds(0.05)) == (pytest.approx(1.0), None, None)
    with pytest.raises(ValueError, match="3, 2, 3"):
        clustered_slope(np.zeros(3), np.zeros(2), np.zeros(3, dtype=int))
