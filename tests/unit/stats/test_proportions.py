"""Wilson's interval against published values, its symmetry, and its edges."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from servegate.stats.paired import mcnemar_one_sided
from servegate.stats.proportions import more_often_one_sided, upper_limit, wilson


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_the_worked_examples_of_newcombe_1998_table_1(successes: int, n: int, low: float, high: float) -> None:
    """Newcombe, Statistics in Medicine 17 (1998) 857-872, method 3."""
    assert wilson(successes, n) == pytest.approx((low, high), abs=6e-5)


@settings(deadline=None)  # the machine may be busy
@given(st.integers(1, 2_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_contains_the_share_stays_in_range_and_is_symmetric(case: tuple[int, int]) -> None:
    successes, n = case
    low, high = wilson(successes, n)
    assert 0 <= low <= successes / n <= high <= 1
    other_low, other_high = wilson(n - successes, n)
    assert (1 - other_high, 1 - other_low) == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (-1, 5), (6, 5)])
def test_impossible_counts_are_refused(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="needs"):
        wilson(successes, n)


@pytest.mark.parametrize(("successes", "n"), [(0, 12), (0, 59), (1, 20), (3, 7), (7, 7)])
def test_the_exact_upper_limit_is_clopper_and_pearsons(successes: int, n: int) -> None:
    """Against statsmodels, whose two-sided 90 % interval has the one-sided 95 % limit as its upper end."""
    oracle = proportion_confint(successes, n, alpha=0.1, method="beta")[1]
    assert upper_limit(successes, n) == pytest.approx(1.0 if successes == n else oracle, rel=1e-9)


def test_none_of_many_is_the_rule_of_three() -> None:
    assert upper_limit(0, 12) == pytest.approx(1 - 0.05 ** (1 / 12))
    assert upper_limit(0, 3000) == pytest.approx(3 / 3000, rel=2e-3)
    with pytest.raises(ValueError, match="0 <= successes <= n"):
        upper_limit(3, 2)


def test_two_rates_with_equal_exposure_are_the_sign_test_and_others_weigh_by_it() -> None:
    assert more_often_one_sided(9, 100, 2, 100) == pytest.approx(mcnemar_one_sided(9, 2))
    # P(at least 8 of 10 | 3/4), by hand: 45 .75^8 .25^2 + 10 .75^9 .25 + .75^10
    assert more_often_one_sided(8, 300, 2, 100) == pytest.approx(45 * 0.75**8 * 0.25**2 + 10 * 0.75**9 * 0.25 + 0.75**10)
    assert more_often_one_sided(0, 10, 0, 10) == 1.0
    for wrong in ((-1, 1, 0, 1), (0, 0, 0, 1)):
        with pytest.raises(ValueError, match="exposures"):
            more_often_one_sided(*wrong)
