"""The spread between starts: a worked example, scipy's chi-square as an oracle, and recovery by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chi2

from servegate.stats.spread import start_spread


def test_a_worked_example() -> None:
    # means 1, 3, 5: variance 4; each start's two windows have variance 2, which explains 2 / 2 = 1 of it
    found = start_spread([[0.0, 2.0], [2.0, 4.0], [4.0, 6.0]])
    assert found is not None
    assert found.sd == pytest.approx(math.sqrt(4 - 1))
    assert found.upper == pytest.approx(math.sqrt(4 * 2 / chi2.ppf(0.05, 2)))
    assert found.starts == 3


def test_windows_alone_are_no_restart_spread() -> None:
    found = start_spread([[0.0, 1.0], [0.0, 1.0]])
    assert found is not None
    assert (found.sd, found.upper) == (0.0, 0.0)


@pytest.mark.parametrize("starts", [[], [[1.0]], [[1.0], []]])
def test_fewer_than_two_starts_have_no_spread(starts: list[list[float]]) -> None:
    assert start_spread(starts) is None


def test_the_spread_is_found_and_its_limit_holds() -> None:
    rng = np.random.default_rng(3)
    found = [
        start_spread([(rng.normal(0.0, 0.01) + rng.normal(0.0, 0.005, 3)).tolist() for _ in range(12)]) for _ in range(400)
    ]
    assert math.sqrt(np.mean([one.sd**2 for one in found if one])) == pytest.approx(0.01, rel=0.06)
    assert np.mean([one.upper >= 0.01 for one in found if one]) >= 0.95  # the windows' part is left in: never too narrow
