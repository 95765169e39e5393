"""What A/A runs add up to: what counts, what does not, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from servegate.checks import discovered
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.contract import ArmEvidence, Evidence
from servegate.checks.logprobs.settings import LogprobsSettings
from servegate.checks.throughput import comparing
from servegate.checks.throughput.ceilings import Allowance
from servegate.checks.throughput.presenting import present
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.domain.calibration import AaRun, Calibration, Rate, RestartSpread, Split, ValidFor, remark, valid_for
from servegate.domain.judgement import Comparison, Severity
from servegate.domain.manifest import Gpu
from servegate.domain.plan import Plan
from servegate.errors import MeasurementError, UsageError
from servegate.pipeline.calibrating import calibration, half
from servegate.pipeline.effects import effects, spreads
from servegate.stats.intervals import normal_quantile
from servegate.stats.proportions import upper_limit
from servegate.stats.spread import StartSpread
from tests.unit.checks import throughput_samples
from tests.unit.checks.examples import EXAMPLES
from tests.unit.checks.logprobs_samples import many
from tests.unit.samples import arm, engine_facts, manifest, plan

PLAN = plan(arms={"baseline": arm("baseline"), "candidate": arm("candidate")}, knobs=(), checks={"throughput": {}})
HERE = valid_for(PLAN, engine_facts(), manifest())


def row(number: int, **changes: Any) -> AaRun:
    values: dict[str, Any] = {
        "evidence": f"run-{number}", "starts": (f"b-{number}", f"c-{number}"), "measured_on": f"2026-11-{number + 1:02}",
        "outcome": "pass", "speeds": ((100.0, 101.0), (101.0 + number, 102.0 + number)),
    }  # fmt: skip
    return AaRun.model_validate({**values, **changes})


def read(*rows: AaRun, setting: ValidFor = HERE, of: Plan = PLAN) -> list[tuple[Plan, ValidFor, AaRun]]:
    return [(of, setting, one) for one in rows]


def test_none_of_twelve_is_at_most_22_percent() -> None:
    record = calibration(read(*(row(number) for number in range(12))))
    assert (record.false_alarms.alarms, record.false_alarms.runs) == (0, 12)
    assert record.false_alarms.upper == pytest.approx(1 - 0.05 ** (1 / 12))
    assert record.headline().startswith("0 of 12 A/A runs, at most 22 %; restart spread ")
    assert record.made_on == "2026-11-12"
    assert Calibration.model_validate(record.to_json()) == record


def test_alarms_are_counted_by_run_and_by_check() -> None:
    alarmed = row(1, alarms=("prompts/contract-broken", "prompts/degenerate-increase", "throughput/slower"), outcome="fail")
    rate = calibration(read(row(0), alarmed, row(2, held=("accuracy/smoke-test",), outcome="review"))).false_alarms
    assert (rate.alarms, rate.runs, rate.held) == (1, 3, 1)
    assert rate.by_check == {"prompts": 1, "throughput": 1}


def test_splits_are_conditional_and_have_no_limit() -> None:
    splits = (
        Split(arm="baseline", alarms=("accuracy/drop",)),
        Split(arm="candidate"),
        Split(arm="candidate", void="one round"),
    )
    record = calibration(read(row(0, splits=splits)))
    assert (record.conditional.alarms, record.conditional.runs, record.conditional.void) == (1, 2, 1)
    assert record.conditional.upper is None
    assert "not independent" in (record.conditional.reason or "")
    assert (record.false_alarms.alarms, record.false_alarms.runs) == (0, 1)


def test_void_runs_are_no_evidence_but_are_counted() -> None:
    unknown = HERE.model_copy(update={"engine": "unknown"})  # its engine never started
    record = calibration([*read(row(0)), *read(row(1, void="the candidate engine did not start"), setting=unknown)])
    assert (record.false_alarms.runs, record.false_alarms.void) == (1, 1)
    assert "1 void" in record.headline()
    with pytest.raises(MeasurementError, match="none of 1 runs could be judged: no GPU"):
        calibration(read(row(0, void="no GPU")))


def test_what_is_not_independent_is_refused() -> None:
    with pytest.raises(UsageError, match="given twice"):
        calibration(read(row(0), row(0)))
    with pytest.raises(UsageError, match="share a start"):
        calibration(read(row(0), row(1, starts=("b-0", "c-1"))))
    with pytest.raises(UsageError, match="no A/A run"):
        calibration([])


def test_runs_of_two_settings_are_refused_and_named() -> None:
    other = HERE.model_copy(update={"gpu": "NVIDIA H200", "workload": "9" * 64})
    with pytest.raises(UsageError, match=r"gpu no GPU \(cpu\), here NVIDIA H200; another workload"):
        calibration([*read(row(0)), *read(row(1), setting=other)])


def test_earlier_rows_are_added_once() -> None:
    record = calibration(read(row(2)), earlier=(row(0), row(1)))
    assert record.false_alarms.runs == 3
    assert calibration(read(row(1)), earlier=(row(0), row(1))).false_alarms.runs == 2  # the same run is no second run


def test_a_record_of_another_setting_is_ignored_with_a_remark() -> None:
    kept = calibration(read(row(0), row(1))).brief()
    assert kept.runs == ()
    text, holds = remark(kept.to_json(), HERE, date(2026, 11, 5), measured=True)
    assert holds
    assert text.startswith("this gate's own false-alarm record: 0 of 2 A/A runs, at most 78 %")
    assert "vLLM 0.32.0, 2026-11-02, 3 days old" in text
    assert "62 days old: calibrate anew" in remark(kept.to_json(), HERE, date(2027, 1, 3), measured=True)[0]
    gpu = Gpu(name="NVIDIA H200", uuid="u", compute_capability="9.0", memory_gib=139.0, mig=False)
    there = valid_for(PLAN, engine_facts(version="0.33.0"), manifest(gpus=(gpu,)))
    text, holds = remark(kept.to_json(), there, None, measured=True)
    assert not holds
    assert "at most" not in text
    assert "engine 0.32.0, here 0.33.0" in text
    # Before an engine has started, its version and the card are not known, and are not held against the record.
    assert remark(kept.to_json(), valid_for(PLAN), None, measured=False)[1]
    release = PLAN.model_copy(update={"policy": "release"})
    assert remark(kept.to_json(), valid_for(release), None, measured=False) == (
        "the calibration of 2026-11-02 is ignored: it was made under policy quick, here release", False,
    )  # fmt: skip
    assert remark({"made_on": "yesterday"}, HERE, None, measured=True)[1] is False


def test_limits_and_baseline_belong_to_the_setting_and_the_candidate_does_not() -> None:
    changed = PLAN.model_copy(update={"checks": {"throughput": {"limits": {"fail_ratio": 0.9}}}})
    assert HERE.differs(valid_for(changed, engine_facts(), manifest())) == ("another limits",)
    gated = PLAN.model_copy(update={"arms": {**PLAN.arms, "candidate": arm("candidate", quantization="fp8")}})
    assert HERE.differs(valid_for(gated, engine_facts(), manifest())) == ()


def test_halves_are_even_and_odd_rounds_numbered_anew() -> None:
    measurement = many(windows=3, tokens=10, rounds=5)
    even, odd = half(measurement, 0), half(measurement, 1)
    assert even is not None
    assert odd is not None
    assert sorted({one.round for one in even.windows}) == sorted({one.round for one in odd.windows}) == [0, 1]  # type: ignore[attr-defined]
    rows = {(one.window_id, one.round): one.first_row for one in measurement.windows}
    assert {(one.window_id, 2 * one.round + 1): one.first_row for one in odd.windows}.items() <= rows.items()  # type: ignore[attr-defined]
    assert half(many(windows=3, tokens=10, rounds=1), 0) is None


# -- smallest effects --------------------------------------------------------------------------------------------


def found(settings: dict[str, Any], *rows: AaRun, restart: StartSpread | None = None) -> dict[str, Any]:
    return {one.name: one for one in effects(rows, settings, restart)}


def test_the_accuracy_drop_that_fails_four_times_in_five() -> None:
    spreads = {"accuracy_sd": 22.4, "accuracy_n": 1319.0}
    one = found({"accuracy": AccuracySettings()}, row(0, spreads=spreads))
    step = 22.4 / 1319**0.5
    held = 2.5 - (normal_quantile(0.95) - normal_quantile(0.8)) * step
    assert one["drop that is not passed"].value == pytest.approx(held)
    assert one["drop that FAILs"].value == pytest.approx(max(0.5 + (normal_quantile(0.99) + normal_quantile(0.8)) * step, held))
    few = found({"accuracy": AccuracySettings()}, row(0, spreads={**spreads, "accuracy_n": 54.0}))["drop that is not passed"]
    assert (few.value, few.reason) == (None, "with 54 questions no drop is passed (smoke test)")
    nothing = found({"accuracy": AccuracySettings()}, row(0))["drop that FAILs"]
    assert (nothing.value, nothing.reason) == (None, "no run has a paired accuracy")


def test_a_wider_restart_spread_lowers_the_ratio_that_fails() -> None:
    settings = {"throughput": ThroughputSettings(concurrency=(4,), judged_at=4)}
    near = found(settings, row(0))["throughput ratio that FAILs"].value
    far = found(settings, row(0), restart=StartSpread(sd=0.05, upper=0.1, starts=4))["throughput ratio that FAILs"].value
    assert 0.9 < near < 0.95
    assert far < near
    silent = found(settings, row(0, spreads={"throughput_not_judged": 1.0}))["throughput ratio that FAILs"]
    assert silent.value is None
    assert "not judged on this machine" in (silent.reason or "")


FIRST, SECOND = (1604.7, 1632.6, 1845.0, 1674.9), (2264.0, 2234.7, 2323.1, 2319.9)
"""Two starts of one config on a host that sets the pace (135M model, eager, 32 in flight, one H200): see `pace`."""


def host_bound(monkeypatch: pytest.MonkeyPatch) -> Comparison:
    monkeypatch.setattr(comparing, "allowance", lambda *_: Allowance((221_420.0, 221_420.0), None))
    sides = [throughput_samples.arm({32: list(speeds)}) for speeds in (FIRST, SECOND)]
    comparison = comparing.compare(throughput_samples.evidence(*sides), ThroughputSettings())
    assert isinstance(comparison, Comparison)
    return comparison


def test_the_smallest_effect_rests_on_the_interval_that_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the host sets the pace the interval holds 20 %, and an effect from 1 % would promise what no gate there finds."""
    comparison = host_bound(monkeypatch)
    judged = comparison.estimates["judged_ratio"]
    assert judged.high is not None
    told = spreads({"throughput": comparison}, {})
    assert told["spreads"] == {"throughput_restart_sd": 0.2, "throughput_host_bound": 1.0}
    one = found({"throughput": ThroughputSettings()}, row(0, **told))["throughput ratio that FAILs"]
    # A ratio FAILs when its upper bound is below the limit, so no effect is larger than the limit over the bound's reach.
    assert one.value < ThroughputSettings().limits.fail_ratio * judged.value / judged.high
    record = calibration(read(row(0, **told)))
    assert record.restart is not None
    assert record.restart.setting == "host_restart_sd"
    assert calibration(read(row(0))).restart.setting == "restart_sd"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("sd", "upper", "assumed", "advised"),
    [
        (0.004, 0.008, 0.01, "restart_sd: 0.0080"),  # lowered no further than to the limit: too small a spread cries wolf
        (0.004, 0.02, 0.01, None),
        (0.01, 0.02, 0.01, None),
        (0.05, 0.10, 0.01, "restart_sd: 0.0500"),
        (0.0, 0.005, 0.01, "restart_sd: 0.0050"),
    ],
)
def test_a_spread_that_the_record_contradicts_is_told_with_the_setting_that_mends_it(
    sd: float, upper: float, assumed: float, advised: str | None
) -> None:
    said = RestartSpread(sd=sd, upper=upper, starts=24, unit="log ratio").against(assumed)
    assert (said is None) is (advised is None)
    if said is not None and advised is not None:
        assert f"`checks.throughput.limits.{advised}` in the gate config" in said
        assert "changes nothing by itself" in said


def test_the_report_says_whether_the_gates_own_starts_agree_with_its_interval() -> None:
    """The record of a gate never changes its intervals; where they disagree the report gives the setting that does."""
    settings = ThroughputSettings(concurrency=(32,), judged_at=32)
    side = throughput_samples.arm({32: [100.0, 102.0]})
    plain = throughput_samples.evidence(side, side)
    comparison = comparing.compare(plain, settings)
    assert isinstance(comparison, Comparison)
    rows = [row(number, speeds=((100.0, 100.0), (102.0 + number, 102.0 + number))) for number in range(6)]
    setting = valid_for(PLAN, plain.baseline.engine, plain.baseline.manifest)
    record = calibration(read(*rows, setting=setting))
    assert record.restart is not None
    assert record.restart.sd > 0.01
    noted = replace(plain, plan=PLAN.model_copy(update={"calibration": record.brief().to_json()}))
    assert f"`checks.throughput.limits.restart_sd: {record.restart.sd:.4f}`" in present(comparison, noted, settings, ()).noise
    other = PLAN.model_copy(update={"calibration": record.brief().to_json(), "policy": "release"})
    assert "is assumed until it was calibrated here" in present(comparison, replace(plain, plan=other), settings, ()).noise
    agreeing = ThroughputSettings.model_validate(
        {"concurrency": (32,), "judged_at": 32, "limits": {"restart_sd": record.restart.sd}}
    )
    again = comparing.compare(noted, agreeing)
    assert isinstance(again, Comparison)
    assert "agrees with 12 starts of this gate" in present(again, noted, agreeing, ()).noise


def test_a_small_model_has_no_perplexity_ratio_that_fails() -> None:
    settings = {"logprobs": LogprobsSettings()}
    spreads = {"logprobs_reach": 0.001, "logprobs_n": 200_000.0, "small_model": 0.0}
    large = found(settings, row(0, spreads=spreads))
    assert large["perplexity ratio that FAILs"].value == pytest.approx(
        1.05 * 2.718281828 ** (0.001 * (1 + 0.8416212 / 1.6448536))
    )
    assert 1.019 < large["perplexity ratio that is not passed"].value < 1.02
    small = found(settings, row(0, spreads={**spreads, "small_model": 1.0}))["perplexity ratio that FAILs"]
    assert (small.value, small.reason) == (None, "a model of this size only gets information from logprobs")


def test_the_share_of_contracts_that_shows() -> None:
    one = found({"prompts": None}, row(0, spreads={"contracts_kept": 20.0}), row(1, spreads={"contracts_kept": 24.0}))
    assert one["contract breaks"].value == pytest.approx(1 - 0.2 ** (1 / 20))
    assert found({"prompts": None}, row(0))["contract breaks"].value is None


@pytest.mark.parametrize("name", sorted(name for name, check in discovered().items() if check.measurement is not None))
def test_every_check_compares_the_halves_of_one_start(name: str) -> None:
    """A check whose rounds can not be halved would silently be left out of the splits."""
    check, example = discovered()[name], EXAMPLES[name]()
    assert example.measurement is not None
    sides = [half(example.measurement, rest) for rest in (0, 1)]
    assert all(side is not None for side in sides)
    baseline, other = (ArmEvidence(example.facts("baseline"), manifest(), side) for side in sides)
    comparison = check.compare(Evidence(baseline, other, example.inputs, example.plan), example.settings)
    assert isinstance(comparison, Comparison)
    if name == "throughput":  # each window loads other prompts, so none pairs with another: not split, and said so
        assert (comparison.n, comparison.unpaired.hash_differs) == (0, 4)
        return
    assert comparison.n > 0
    assert comparison.unpaired.total == 0
    assert [item.severity for item in check.judge(comparison, example.settings) if item.severity is Severity.FAIL] == []


def test_only_the_judged_load_gives_speeds() -> None:
    """Windows of decode alone, at the same concurrency, are another quantity: mixed in, they would look like restart spread."""
    comparison = discovered()["throughput"].compare(
        Evidence(*(ArmEvidence(throughput_samples.on_gpu(role), manifest(), throughput_samples.arm({32: [100.0, 102.0]}))
                   for role in ("baseline", "candidate"))),
        ThroughputSettings(concurrency=(32,), judged_at=32),
    )  # fmt: skip
    assert isinstance(comparison, Comparison)
    assert spreads({"throughput": comparison}, {})["speeds"] == ((100.0, 102.0), (100.0, 102.0))
    other = {**comparison.items[0], "id": "decode/0", "load": "decode", "baseline_output_tokens_per_second": 9000.0}
    mixed = comparison.model_copy(update={"items": (*comparison.items, other)})
    assert spreads({"throughput": mixed}, {})["speeds"] == ((100.0, 102.0), (100.0, 102.0))


@pytest.mark.parametrize(
    ("alarms", "runs", "upper"),
    [(30, 12, 0.9), (-1, 12, 0.3), (0, 0, 0.0), (0, 12, 0.1), (6, 12, 0.01), (0, 10**9, 1e-9), (12, 12, 0.99)],
)
def test_a_record_that_claims_more_than_its_runs_prove_is_no_record(alarms: int, runs: int, upper: float) -> None:
    """calibration.json is a file that anybody may write, and its headline stands in the report."""
    with pytest.raises(ValueError, match=r"no count|do not prove"):
        Rate(alarms=alarms, runs=runs, upper=upper)
    if 0 < runs < 100 and 0 <= alarms <= runs:
        assert Rate(alarms=alarms, runs=runs, upper=upper_limit(alarms, runs)).runs == runs
