"""Ratios of speeds, against scipy, and the coverage that the spread between starts is there for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from servegate.stats.ratios import coefficient_of_variation, log_ratio, paired_log_ratio, requests_for_percentile

LEFT, RIGHT = [100.0, 112.0, 96.0], [104.0, 109.0, 99.0]


def test_within_one_start_it_is_welchs_interval() -> None:
    ours = log_ratio(LEFT, RIGHT, 0.0)
    oracle = stats.ttest_ind(np.log(RIGHT), np.log(LEFT), equal_var=False)
    low, high = oracle.confidence_interval(0.95)
    bounds = ours.bounds(0.025)
    assert bounds == (pytest.approx(math.exp(low)), pytest.approx(math.exp(high)))
    assert ours.df == pytest.approx(oracle.df)
    assert bounds[0] < 1 < bounds[1]


def test_restart_spread_is_added_once_for_each_arm() -> None:
    within, joined = log_ratio(LEFT, RIGHT, 0.0), log_ratio(LEFT, RIGHT, 0.01)
    assert within.se is not None
    assert joined.se == pytest.approx(math.sqrt(within.se**2 + 2 * 0.01**2))
    assert joined.df > within.df


def test_equal_windows_still_have_the_restart_spread() -> None:
    ratio = log_ratio([100.0, 100.0], [100.0, 100.0], 0.01)
    assert ratio.ratio == 1.0
    assert ratio.bounds(0.025) == (
        pytest.approx(math.exp(-1.96 * 0.01 * math.sqrt(2)), abs=1e-5),
        pytest.approx(1.0281, abs=1e-4),
    )


def test_one_window_has_no_interval() -> None:
    ratio = log_ratio([188.1], [251.6], 0.01)
    assert ratio.ratio == pytest.approx(251.6 / 188.1)
    assert ratio.bounds(0.05) is None
    assert ratio.smallest_detectable() is None


@pytest.mark.parametrize(("left", "right"), [([], [1.0]), ([1.0], []), ([0.0], [1.0]), ([1.0], [-1.0])])
def test_no_speed_is_refused(left: list[float], right: list[float]) -> None:
    with pytest.raises(ValueError, match="positive"):
        log_ratio(left, right, 0.01)


def test_windows_alone_cover_44_percent_and_with_restarts_95() -> None:
    """Restart SD 1 %, five windows of CV 0.5 % in each arm, no true difference."""
    generator = np.random.default_rng(11)
    trials = 3000
    starts = generator.normal(0, 0.01, (trials, 2, 1))
    speeds = np.exp(starts + generator.normal(0, 0.005, (trials, 2, 5)))
    covered = {}
    for sd in (0.0, 0.01):
        bounds = [log_ratio(list(arms[0]), list(arms[1]), sd).bounds(0.025) for arms in speeds]
        covered[sd] = np.mean([bound is not None and bound[0] <= 1 <= bound[1] for bound in bounds])
    assert covered[0.0] < 0.5
    assert 0.93 < covered[0.01] < 0.975


def test_smallest_detectable_change_is_found_with_80_percent() -> None:
    ratio = log_ratio([100.0, 101.0, 99.0, 100.5, 99.5], [100.0, 101.0, 99.0, 100.5, 99.5], 0.01)
    change = ratio.smallest_detectable()
    assert change is not None
    assert ratio.se is not None
    assert math.log1p(change) == pytest.approx((stats.t.ppf(0.975, ratio.df) + 0.8416) * ratio.se, abs=1e-4)


def test_variation() -> None:
    assert coefficient_of_variation(LEFT) == pytest.approx(stats.variation(LEFT, ddof=1))
    assert coefficient_of_variation([1.0]) is None


@pytest.mark.parametrize(("share", "n"), [(0.5, 5), (0.95, 59), (0.99, 299)])
def test_requests_that_a_percentile_needs(share: float, n: int) -> None:
    assert requests_for_percentile(share) == n
    assert share**n <= 0.05 < share ** (n - 1)


def test_paired_blocks_cancel_what_drifts_and_keep_the_spread_between_starts() -> None:
    """A machine that slows by half over four blocks, and a candidate 10 % faster in each of them."""
    drift = [1000.0, 850.0, 700.0, 500.0]
    noise = [1.001, 0.999, 1.002, 0.998]
    pairs = [(speed, speed * 1.1 * each) for speed, each in zip(drift, noise, strict=True)]
    paired = paired_log_ratio(pairs, 0.01)
    apart = log_ratio([left for left, _ in pairs], [right for _, right in pairs], 0.01)
    assert paired.ratio == pytest.approx(1.1, rel=1e-3)
    bounds, wide = paired.bounds(0.025), apart.bounds(0.025)
    assert bounds is not None
    assert wide is not None
    assert bounds[0] > 1.05
    assert wide[0] < 1 < wide[1]
    assert paired.se is not None
    assert paired.se > math.sqrt(2) * 0.01, "one start an arm: no number of blocks averages that out"


def test_one_block_has_no_interval_and_none_is_an_error() -> None:
    assert paired_log_ratio([(1.0, 2.0)], 0.01).bounds(0.025) is None
    for pairs in ([], [(1.0, 0.0)]):
        with pytest.raises(ValueError, match="positive"):
            paired_log_ratio(pairs, 0.01)


def test_paired_blocks_of_unchanged_servers_get_few_claims() -> None:
    """Six blocks, windows 1 %, starts 1 %: the 95 % interval holds 1 about 95 times in 100."""
    generator = np.random.default_rng(5)
    missed = 0
    for _ in range(400):
        left, right = generator.normal(0, 0.01, 2)
        pairs = [
            (float(np.exp(left + generator.normal(0, 0.01))), float(np.exp(right + generator.normal(0, 0.01))))
            for _ in range(6)
        ]
        bounds = paired_log_ratio(pairs, 0.01).bounds(0.025)
        assert bounds is not None
        missed += not bounds[0] <= 1 <= bounds[1]
    assert 4 <= missed <= 36
