"""Holm's procedure against statsmodels and a published example."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from servegate.stats.multiple import holm


def test_the_usual_textbook_example() -> None:
    """p = .01, .04, .03, .005: adjusted .03, .06, .06, .02, so at 5 % the first and the last stand."""
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": 0.005})
    assert adjusted == pytest.approx({"a": 0.03, "b": 0.06, "c": 0.06, "d": 0.02})


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_adjusted_values_are_those_of_statsmodels(values: list[float]) -> None:
    mine = holm({str(index): p for index, p in enumerate(values)})
    assert list(dict(sorted(mine.items(), key=lambda item: int(item[0]))).values()) == pytest.approx(
        list(multipletests(values, method="holm")[1]), abs=1e-12
    )


def test_of_nothing_nothing_is_claimed() -> None:
    assert holm({}) == {}


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(p: float) -> None:
    with pytest.raises(ValueError, match="outside 0 to 1"):
        holm({"a": p})
