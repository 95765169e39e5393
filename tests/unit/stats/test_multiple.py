"""Holm's procedure against statsmodels and a published example."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from servegate.stats.intervals import Mean
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


@pytest.mark.parametrize("drop", [0.0, 0.005])
def test_any_false_claim_over_five_tasks_stays_at_its_level(drop: float) -> None:
    """Five tasks of 600 questions, 10 % of them coins, two rounds; no drop (A/A), and a drop of just what FAIL must exceed.

    Uncorrected, five looks at the limit itself would raise a false claim in about 5 % of the gates instead of 1 %.
    """
    generator = np.random.default_rng(11)
    gates, tasks, n = 1_500, 5, 600
    coin = generator.random((gates, tasks, n)) < 0.1
    lost = ~coin & (generator.random((gates, tasks, n)) < drop / 0.9)
    chance = np.where(coin, 0.5, 1.0)
    means = generator.binomial(2, chance) / 2 - generator.binomial(2, np.where(lost, 0.0, chance)) / 2
    values, deviations = means.mean(axis=2), means.std(axis=2, ddof=1)
    claimed = plain = 0
    for gate in range(gates):
        p_values = {
            str(task): Mean(float(values[gate, task]), float(deviations[gate, task]), n).p_above(0.005) for task in range(tasks)
        }
        claimed += min(holm(p_values).values()) <= 0.01
        plain += min(p_values.values()) <= 0.01
    assert claimed / gates <= 0.01 + 3 * math.sqrt(0.01 * 0.99 / gates)
    assert claimed <= plain
    if drop:
        assert plain / gates > 0.02
