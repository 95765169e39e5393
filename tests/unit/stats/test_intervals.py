"""Bounds of a mean and planning figures, against scipy, statsmodels and the numbers the policy states."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from servegate.stats.intervals import (
    Mean,
    mean_of,
    never_seen_bound,
    normal_quantile,
    questions_needed,
    smallest_detectable,
)


def test_quantiles_are_one_sided() -> None:
    assert normal_quantile(0.95) == pytest.approx(1.645, abs=5e-4)
    assert normal_quantile(0.99) == pytest.approx(2.326, abs=5e-4)
    assert normal_quantile(0.8) == pytest.approx(stats.norm.ppf(0.8), abs=1e-12)


@pytest.mark.parametrize(("n", "bound"), [(20, 0.139), (50, 0.058), (299, 0.01), (598, 0.005), (1319, 0.0023)])
def test_never_seen_bound_is_the_stated_and_the_exact_one(n: int, bound: float) -> None:
    assert never_seen_bound(n, 0.05) == pytest.approx(bound, rel=0.02)
    assert never_seen_bound(n, 0.05) == pytest.approx(proportion_confint(0, n, alpha=0.1, method="beta")[1], rel=1e-9)


def test_bounds_are_mean_and_normal_quantile() -> None:
    values = [1.0] * 40 + [-1.0] * 20 + [0.5] * 30 + [0.0] * 910
    mean = mean_of(values)
    assert mean.value == pytest.approx(0.035)
    assert mean.sd == pytest.approx(np.std(values, ddof=1))
    low, high = stats.norm.interval(0.9, loc=mean.value, scale=stats.sem(values))
    assert (mean.lower(0.05), mean.upper(0.05)) == (pytest.approx(low), pytest.approx(high))


def test_no_difference_at_all_is_not_certainty() -> None:
    mean = mean_of([0.0] * 500)
    assert mean.upper(0.05) == pytest.approx(1 - 0.05 ** (1 / 500))
    assert mean.lower(0.01) == pytest.approx(-(1 - 0.01 ** (1 / 500)))
    assert mean_of([0.0] * 100).upper(0.05) > 0.025 > mean_of([0.0] * 119).upper(0.05)


def test_one_difference_never_gives_a_narrower_bound_than_none() -> None:
    assert mean_of([0.5] + [0.0] * 499).upper(0.05) >= mean_of([0.0] * 500).upper(0.05)


def test_a_single_value_has_the_widest_interval() -> None:
    assert mean_of([1.0]).lower(0.01) == pytest.approx(0.01)


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=2, max_size=80), st.sampled_from([0.0, 0.005, 0.02]))
def test_p_above_is_the_level_whose_lower_bound_reaches_the_limit(values: list[float], limit: float) -> None:
    mean = mean_of(values)
    p = mean.p_above(limit)
    if 1e-9 < p < 0.5:
        assert mean.lower(p * 1.001) > limit > mean.lower(p * 0.999)
    else:
        assert p <= 1e-9 or mean.value <= limit or mean.lower(0.5) <= limit + 1e-9


def test_p_above_is_a_z_test_where_the_spread_decides() -> None:
    values = [1.0] * 40 + [-1.0] * 20 + [0.0] * 940
    z = (np.mean(values) - 0.005) / stats.sem(values)
    assert mean_of(values).p_above(0.005) == pytest.approx(stats.norm.sf(z))
    assert mean_of([1.0, 1.0, 1.0]).p_above(0.005) == pytest.approx(0.005**3)
    assert mean_of([1.0, 1.0]).p_above(0.0) == 0.0
    assert mean_of([0.0] * 50).p_above(0.0) == 1.0


def test_of_nothing_there_is_no_mean() -> None:
    with pytest.raises(ValueError, match="at least one"):
        mean_of([])


@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=1, max_size=60))
def test_bounds_enclose_the_mean(values: list[float]) -> None:
    mean = mean_of(values)
    assert mean.lower(0.01) < mean.lower(0.05) < mean.value < mean.upper(0.05) < mean.upper(0.01)


@pytest.mark.parametrize(("rho", "points"), [(0.02, 1.0), (0.05, 1.6), (0.10, 2.2)])
def test_smallest_detectable_drop_on_gsm8k_is_the_stated_one(rho: float, points: float) -> None:
    assert 100 * smallest_detectable(math.sqrt(rho), 1319) == pytest.approx(points, abs=0.1)


def test_smallest_detectable_is_never_below_what_n_can_show() -> None:
    assert smallest_detectable(0.0, 60) == never_seen_bound(60, 0.05)


def test_questions_needed_put_the_bound_where_it_is_wanted() -> None:
    sd, distance = math.sqrt(0.05), 0.02
    n = questions_needed(distance, sd, 0.05, power=0.5)
    assert n is not None
    assert Mean(0.0, sd, n).upper(0.05) < distance <= Mean(0.0, sd, n - 2).upper(0.05)
    assert questions_needed(0.0, sd, 0.05) is None
    assert questions_needed(-0.01, sd, 0.05) is None
    assert questions_needed(0.025, 0.0, 0.05) == 119


@pytest.mark.parametrize(
    ("drop", "passes", "fails"), [(0.0, 0.99, 0.0), (0.005, 0.94, 0.01), (0.03, 0.01, 0.83), (0.04, 0.0, 0.98)]
)
def test_policy_error_rates_under_simulation(drop: float, passes: float, fails: float) -> None:
    """1,319 questions, two rounds; 15 % noisy with uniform success, 2.5 % changed for good, half of them each way.

    The expected rates are those stated for the `standard` policy, from another simulation.
    """
    generator = np.random.default_rng(7)
    gates, n, noisy_share, right_share = 300, 1319, 0.15, 0.6
    steady, wrong_share = 1 - noisy_share, 1 - right_share
    noisy = generator.random((gates, n)) < noisy_share
    right = generator.random((gates, n)) < right_share
    before = np.where(noisy, generator.random((gates, n)), right.astype(float))
    luck = generator.random((gates, n))
    lost = ~noisy & right & (luck < (0.0125 + drop) / (steady * right_share))
    won = ~noisy & ~right & (luck < 0.0125 / (steady * wrong_share))
    after = np.where(lost, 0.0, np.where(won, 1.0, before))
    scores = [(generator.random((2, gates, n)) < chance).mean(axis=0) for chance in (before, after)]
    means = [mean_of(list(row)) for row in scores[0] - scores[1]]
    passed = [mean.upper(0.05) < 0.025 for mean in means]
    failed = [mean.upper(0.05) >= 0.025 and mean.lower(0.01) > 0.005 for mean in means]
    assert np.mean(passed) == pytest.approx(passes, abs=0.04)
    assert np.mean(failed) == pytest.approx(fails, abs=0.04)
