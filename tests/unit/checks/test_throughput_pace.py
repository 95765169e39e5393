"""Where the host sets the pace, two starts of one config differ by a third: that is no change of the card's speed."""

from __future__ import annotations

import pytest

from servegate.checks.throughput import comparing
from servegate.checks.throughput.ceilings import Allowance
from servegate.checks.throughput.comparing import compare
from servegate.checks.throughput.judging import judge
from servegate.checks.throughput.presenting import present
from servegate.checks.throughput.record import ThroughputMeasurement
from servegate.checks.throughput.settings import Limits, ThroughputSettings
from servegate.checks.throughput.shape import SpeedContrast, SpeedPair
from servegate.domain.judgement import Comparison, Severity
from tests.unit.checks.throughput_samples import arm, evidence

FIRST, SECOND = [1604.7, 1632.6, 1845.0, 1674.9], [2264.0, 2234.7, 2323.1, 2319.9]
"""Output tokens per second of two starts of one config, four blocks in turn: 135M model, eager, 32 in flight, one H200."""
CEILING = 221_420.0
"""Of that model on that card at 32 in flight."""


def speed(
    monkeypatch: pytest.MonkeyPatch,
    first: ThroughputMeasurement,
    second: ThroughputMeasurement,
    ceilings: tuple[float | None, float | None],
    settings: ThroughputSettings,
) -> tuple[Comparison, SpeedPair]:
    monkeypatch.setattr(comparing, "allowance", lambda *_: Allowance(ceilings, None if all(ceilings) else "unknown card"))
    comparison = compare(evidence(first, second), settings)
    assert isinstance(comparison, Comparison)
    point = SpeedContrast.model_validate(comparison.candidate).at(32)
    assert point is not None
    return comparison, point


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("interleave", [False, True])
def test_two_starts_of_one_config_on_a_slow_host_are_no_change(
    monkeypatch: pytest.MonkeyPatch, swapped: bool, interleave: bool
) -> None:
    settings = ThroughputSettings(interleave=interleave)
    arms = [arm({32: FIRST}), arm({32: SECOND})]
    first, second = reversed(arms) if swapped else arms
    comparison, point = speed(monkeypatch, first, second, (CEILING, CEILING), settings)
    assert point.claim == "n.s."
    found = judge(comparison, settings)
    assert not [each for each in found if each.severity is Severity.FAIL]
    told = [each for each in found if each.code.endswith("host-bound")]
    assert [each.severity for each in told] == [Severity.INFO]
    assert "the host sets the pace" in told[0].message
    judged = comparison.estimates["judged_ratio"]
    assert judged.low is not None
    assert judged.high is not None
    assert judged.low < 1 < judged.high


@pytest.mark.parametrize(
    "ceilings", [(None, None), (CEILING, None), (5_000.0, 5_000.0), (CEILING, 5_000.0), (5_000.0, CEILING)]
)
def test_a_card_that_one_arm_keeps_busy_is_not_bound_by_its_host(
    monkeypatch: pytest.MonkeyPatch, ceilings: tuple[float | None, float | None]
) -> None:
    """Otherwise a fallback kernel, which is far below its ceiling too, would hide behind the host."""
    settings = ThroughputSettings()
    comparison, point = speed(monkeypatch, arm({32: SECOND}), arm({32: FIRST}), ceilings, settings)
    assert point.claim == "slower"
    assert "throughput/slower" in {each.code for each in judge(comparison, settings)}


@pytest.mark.parametrize(
    ("ceilings", "said"),
    [
        ((CEILING, CEILING), "20.0% between starts, since the host sets the pace"),
        ((None, None), "1.0% between starts is assumed until it was calibrated here"),
    ],
)
def test_the_report_names_the_spread_that_the_interval_holds(
    monkeypatch: pytest.MonkeyPatch, ceilings: tuple[float | None, float | None], said: str
) -> None:
    settings, arms = ThroughputSettings(), (arm({32: FIRST}), arm({32: SECOND}))
    comparison, _point = speed(monkeypatch, *arms, ceilings, settings)
    assert said in present(comparison, evidence(*arms), settings, ()).noise


def test_a_loss_that_no_restart_explains_fails_on_a_slow_host_too(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = ThroughputSettings()
    worse = arm({32: [each / 4 for each in FIRST]})
    comparison, point = speed(monkeypatch, arm({32: SECOND}), worse, (CEILING, CEILING), settings)
    assert point.claim == "slower"
    assert "throughput/slower" in {each.code for each in judge(comparison, settings)}


def test_a_gate_that_was_calibrated_wider_keeps_its_own_spread(monkeypatch: pytest.MonkeyPatch) -> None:
    spreads = []
    for own in (0.01, 0.4):
        settings = ThroughputSettings(limits=Limits(restart_sd=own))
        _comparison, point = speed(monkeypatch, arm({32: FIRST}), arm({32: SECOND}), (CEILING, CEILING), settings)
        assert point.low is not None
        spreads.append(point.low)
    assert spreads[1] < spreads[0]


def test_the_row_of_the_check_says_which_spread_it_used(monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for ceilings in ((CEILING, CEILING), (5_000.0, 5_000.0)):
        first, second = arm({32: FIRST}), arm({32: SECOND})
        comparison, _point = speed(monkeypatch, first, second, ceilings, ThroughputSettings())
        said.append(present(comparison, evidence(first, second), ThroughputSettings(), ()).noise)
    assert "20.0% between starts, since the host sets the pace" in str(said[0])
    assert "1.0% between starts is assumed" in str(said[1])
