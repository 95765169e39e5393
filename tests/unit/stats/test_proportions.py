"""Wilson's interval against published values, its symmetry, and its edges."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servegate.stats.proportions import wilson


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
