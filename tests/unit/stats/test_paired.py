"""Right and wrong pairs, against statsmodels, a brute-force likelihood, and published examples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binomtest
from statsmodels.stats.contingency_tables import mcnemar

from servegate.stats.paired import mcnemar_one_sided, mcnemar_two_sided, tango_bounds, tango_z


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_is_the_exact_binomial_test(b: int, c: int) -> None:
    if b + c:
        assert mcnemar_one_sided(b, c) == pytest.approx(binomtest(b, b + c, alternative="greater").pvalue, rel=1e-9)
    assert mcnemar_two_sided(b, c) == pytest.approx(mcnemar([[0, b], [c, 0]], exact=True).pvalue if b + c else 1.0, rel=1e-9)


@pytest.mark.parametrize(("b", "c", "p"), [(45, 15, 0.00013), (41, 38, 0.82), (9, 1, 0.0215), (3, 0, 0.25)])
def test_reported_flips_have_the_reported_p(b: int, c: int, p: float) -> None:
    assert mcnemar_two_sided(b, c) == pytest.approx(p, rel=0.05)


def test_five_in_one_direction_are_the_least_that_reject() -> None:
    assert mcnemar_one_sided(4, 0) > 0.05 > mcnemar_one_sided(5, 0)
    assert mcnemar_two_sided(5, 0) > 0.05 > mcnemar_two_sided(6, 0)


def test_no_discordant_pair_is_no_evidence() -> None:
    assert mcnemar_one_sided(0, 0) == 1.0


def test_tango_interval_of_the_published_example() -> None:
    """Airway hyper-responsiveness, n = 21, 1 and 7 discordant: -0.286 (-0.517 to -0.026); Fagerland et al., 2014."""
    low, high = tango_bounds(1, 7, 21, 0.025)
    assert (round(low, 3), round(high, 3)) == (-0.517, -0.026)


def score_by_maximum_likelihood(b: int, c: int, n: int, drop: float) -> float:
    """The same score from a numeric maximum of the multinomial likelihood under p_b = p_c + drop."""

    def loss(p_c: float) -> float:
        rest = 1 - 2 * p_c - drop
        return -(b * math.log(p_c + drop) + (c * math.log(p_c) if c else 0.0) + (n - b - c) * math.log(rest))

    low, high = max(0.0, -drop) + 1e-12, (1 - drop) / 2 - 1e-12
    p_c = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-12}).x
    return (b - c - n * drop) / math.sqrt(n * (2 * p_c + drop - drop**2))


@pytest.mark.parametrize(("b", "c", "n"), [(45, 15, 1319), (14, 4, 500), (3, 2, 54), (7, 1, 21), (5, 0, 60)])
@pytest.mark.parametrize("drop", [0.005, 0.02, 0.1])
def test_tango_z_is_the_score_at_the_restricted_maximum(b: int, c: int, n: int, drop: float) -> None:
    assert tango_z(b, c, n, drop) == pytest.approx(score_by_maximum_likelihood(b, c, n, drop), rel=1e-4, abs=1e-4)


@given(st.integers(1, 300), st.data())
def test_tango_bounds_hold_the_estimate_and_their_level(n: int, data: st.DataObject) -> None:
    b = data.draw(st.integers(0, n))
    c = data.draw(st.integers(0, n - b))
    low, high = tango_bounds(b, c, n, 0.05)
    assert -1 <= low <= (b - c) / n <= high <= 1
    if high < 0.999:
        assert tango_z(b, c, n, high) == pytest.approx(-1.645, abs=2e-3)


def test_tango_falls_with_the_assumed_drop() -> None:
    values = [tango_z(20, 12, 600, drop) for drop in np.linspace(-0.2, 0.2, 41)]
    assert all(values[index] > values[index + 1] for index in range(40))


def test_pass_and_fail_can_both_hold() -> None:
    """Fourteen lost, four won of 1,319: a real drop inside a margin of 2.5 points."""
    assert mcnemar_one_sided(14, 4) < 0.05
    assert tango_z(14, 4, 1319, 0.025) < -1.645


@pytest.mark.parametrize(("b", "c", "n"), [(-1, 0, 5), (3, 3, 5), (0, 0, 0)])
def test_impossible_tables_are_refused(b: int, c: int, n: int) -> None:
    with pytest.raises(ValueError, match="b="):
        tango_z(b, c, n, 0.01)
