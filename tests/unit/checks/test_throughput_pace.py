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
from tests.unit.checks.throughput_samples import CARD, TELEMETRY, arm, evidence
from tests.unit.samples import engine_facts

FIRST, SECOND = [1604.7, 1632.6, 1845.0, 1674.9], [2264.0, 2234.7, 2323.1, 2319.9]
"""Output tokens per second of two starts of one config, four blocks in turn: 135M model, eager, 32 in flight, one H200."""
CEILING = 221_420.0
"""Of that model on that card at 32 in flight."""
COMPILED = [
    ([9290.7, 9656.1, 8112.1], [7299.8, 7050.2, 7581.1]),
    ([9380.1, 8647.9, 9848.4], [11233.7, 9460.3, 10090.1]),
    ([11847.3, 10985.8, 11122.6], [6807.0, 6525.3, 7414.1]),
]
"""Three A/A runs of the same model, compiled, each arm on a start of its own; the same load."""
LARGER = [
    ([4301.6, 4345.9, 4253.2], [4245.8, 4195.9, 4279.4]),
    ([4250.6, 4263.2, 4275.0], [4352.0, 4410.1, 4376.9]),
    ([4334.6, 4352.6, 4333.1], [4236.4, 4287.2, 4253.4]),
]
"""The same of an 8B shape in FP8, whose card allows 14,073 tokens per second."""
ON_CPU = [
    ([75.6, 76.2, 74.7, 77.2, 76.7], [77.5, 79.5, 79.4, 79.6, 79.8]),
    ([75.0, 72.4, 74.1, 73.9, 72.2], [75.0, 74.8, 77.6, 77.9, 76.0]),
]
"""Two A/A runs of the 135M model on two CPU cores, 4 in flight, on an idle machine: 1.040 and 1.037 times as fast."""


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


@pytest.mark.parametrize(
    ("runs", "ceiling"), [(COMPILED, CEILING), (LARGER, 14_073.0)], ids=["host sets the pace", "card sets the pace"]
)
@pytest.mark.parametrize("number", [0, 1, 2])
def test_no_recorded_run_of_a_config_against_itself_claims_a_change(
    monkeypatch: pytest.MonkeyPatch, runs: list[tuple[list[float], list[float]]], ceiling: float, number: int
) -> None:
    first, second = runs[number]
    _, point = speed(monkeypatch, arm({32: first}), arm({32: second}), (ceiling, ceiling), ThroughputSettings(windows=3))
    assert point.claim == "n.s."


def test_with_one_percent_between_starts_two_of_three_would_have_claimed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the wider interval is for: else this file's tests would hold without it."""
    settings = ThroughputSettings(windows=3, limits=Limits(host_restart_sd=0.01))
    claims = [
        speed(monkeypatch, arm({32: first}), arm({32: second}), (CEILING, CEILING), settings)[1].claim
        for first, second in COMPILED
    ]
    assert claims == ["slower", "n.s.", "slower"]


@pytest.mark.parametrize(("first", "second"), ON_CPU)
def test_an_engine_on_a_cpu_is_its_own_host(monkeypatch: pytest.MonkeyPatch, first: list[float], second: list[float]) -> None:
    arms = arm({4: first}), arm({4: second})
    settings = ThroughputSettings(judged_at=4, concurrency=(4,))
    monkeypatch.setattr(comparing, "allowance", lambda *_: Allowance((None, None), "no card"))
    claims = []
    for device in ("cpu", "cuda"):
        facts = engine_facts("baseline", device=device), engine_facts("candidate", device=device)
        comparison = compare(evidence(*arms, facts), settings)
        assert isinstance(comparison, Comparison)
        point = SpeedContrast.model_validate(comparison.candidate).at(4)
        assert point is not None
        claims.append(point.claim)
    assert claims == ["n.s.", "unclear"]


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
    "ceilings", [(None, 5_000.0), (5_000.0, None), (5_000.0, 5_000.0), (CEILING, 5_000.0), (5_000.0, CEILING)]
)
def test_a_card_that_one_arm_keeps_busy_is_not_bound_by_its_host(
    monkeypatch: pytest.MonkeyPatch, ceilings: tuple[float | None, float | None]
) -> None:
    """Otherwise a fallback kernel, which is far below its ceiling too, would hide behind the host."""
    settings = ThroughputSettings()
    comparison, point = speed(monkeypatch, arm({32: SECOND}), arm({32: FIRST}), ceilings, settings)
    assert point.claim == "slower"
    assert "throughput/slower" in {each.code for each in judge(comparison, settings)}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("ceilings", [(None, None), (CEILING, None), (None, CEILING)])
def test_without_a_ceiling_two_starts_of_one_config_are_no_claim_and_for_a_person(
    monkeypatch: pytest.MonkeyPatch, ceilings: tuple[float | None, float | None], swapped: bool
) -> None:
    """These are two starts of one config: on an unknown card they were 1.355 times as fast, or a FAIL the other way round."""
    first, second = (SECOND, FIRST) if swapped else (FIRST, SECOND)
    comparison, point = speed(monkeypatch, arm({32: first}), arm({32: second}), ceilings, ThroughputSettings())
    assert point.claim == "unclear"
    found = {each.code: each.severity for each in judge(comparison, ThroughputSettings())}
    assert found["throughput/pace-unknown"] is Severity.REVIEW
    assert Severity.FAIL not in found.values()


def test_without_a_ceiling_a_card_at_its_power_limit_sets_the_pace_and_a_large_loss_is_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card = {**TELEMETRY, "cards": [{**CARD, "throttled": {"SW power cap": 0.9}}]}
    for arms in (
        (arm({32: SECOND}, telemetry=card), arm({32: FIRST}, telemetry=card)),
        (arm({32: SECOND}), arm({32: [each / 4 for each in FIRST]})),
    ):
        comparison, point = speed(monkeypatch, *arms, (None, None), ThroughputSettings())
        assert point.claim == "slower"
        assert "throughput/slower" in {each.code for each in judge(comparison, ThroughputSettings())}


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


def test_a_record_of_an_older_servegate_tells_by_its_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = arm({32: FIRST}), arm({32: SECOND})
    for ceiling, told in ((CEILING, True), (5_000.0, None)):
        comparison, point = speed(monkeypatch, first, second, (ceiling, ceiling), ThroughputSettings())
        assert point.host_bound is bool(told)
        old = [{key: value for key, value in each.items() if key != "host_bound"} for each in comparison.candidate["points"]]
        read = SpeedContrast.model_validate({**comparison.candidate, "points": old}).at(32)
        assert read is not None
        assert read.host_bound is told
        kept = comparison.model_copy(update={"candidate": {**comparison.candidate, "points": old}})
        assert present(kept, evidence(first, second), ThroughputSettings(), ()) == present(
            comparison, evidence(first, second), ThroughputSettings(), ()
        )


def test_on_a_cpu_the_spread_is_said_to_be_the_hosts() -> None:
    facts = (engine_facts("baseline", device="cpu"), engine_facts("candidate", device="cpu"))
    seen = evidence(arm({32: FIRST}), arm({32: FIRST}), facts)
    comparison = compare(seen, ThroughputSettings())
    assert isinstance(comparison, Comparison)
    assert "20.0% between starts, since the host sets the pace" in present(comparison, seen, ThroughputSettings(), ()).noise


def test_the_setting_that_an_unknown_pace_names_settles_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else no candidate that is 1.2 times as fast could ever PASS on a card or model without a known ceiling."""
    steady = [4_300.0, 4_310.0, 4_290.0, 4_305.0]
    arms = arm({32: steady}), arm({32: [1.2 * each for each in steady]})
    comparison, point = speed(monkeypatch, *arms, (None, None), ThroughputSettings())
    assert point.claim == "unclear"
    (doubt,) = judge(comparison, ThroughputSettings())
    assert "checks.throughput.limits.host_restart_sd" in doubt.message
    calibrated = ThroughputSettings.model_validate({"limits": {"host_restart_sd": 0.0118}})
    comparison, point = speed(monkeypatch, *arms, (None, None), calibrated)
    assert point.claim == "faster"
    assert {each.severity for each in judge(comparison, calibrated)} <= {Severity.INFO}
