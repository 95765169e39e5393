"""The one table of what a person has to decide on: every row is measured, or says why it is not; nothing is a guess."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from servegate.checks import discovered
from servegate.checks.contract import NO_MEASUREMENT, AnyCheck, ArmEvidence, Evidence, finding
from servegate.checks.deciding import complete
from servegate.domain.deciding import QUANTITIES, ArmValue, Figures
from servegate.domain.evidence import Diagnosis, EngineFacts, EngineStatus
from servegate.domain.judgement import Comparison, Severity
from servegate.domain.plan import Plan
from tests.unit.checks import accuracy_samples, prompts_evidence, throughput_samples
from tests.unit.checks.capacity_samples import H200, on_h200, qwen3_plan, recorded_facts
from tests.unit.samples import engine_facts, manifest

BF16 = recorded_facts("baseline", "capacity/h200-0.25.1-qwen3-8b-bf16.log")
FP8 = recorded_facts("candidate", "capacity/h200-0.25.1-qwen3-8b-fp8.log")
FP8_PLAN = qwen3_plan(quantization="fp8_per_channel")
STEADY = (1000.0, 1010.0, 990.0, 1000.0, 1000.0)


def rows_of(check: str, evidence: Evidence[Any], **settings: Any) -> dict[str, Figures]:
    found: AnyCheck = discovered()[check]
    chosen = found.settings(**settings)
    comparison = found.compare(evidence, chosen)
    assert isinstance(comparison, Comparison)
    return {row.key: row for row in found.figures(comparison, evidence, chosen)}


def arms(baseline: EngineFacts | None, candidate: EngineFacts | None) -> dict[str, ArmEvidence[Any]]:
    sides = {"baseline": baseline, "candidate": candidate}
    return {name: ArmEvidence(facts, manifest(), NO_MEASUREMENT) for name, facts in sides.items()}


# -- every row, always -----------------------------------------------------------------------------------------


def test_a_row_that_nobody_measured_says_which_check_the_gate_lacks() -> None:
    rows = complete(arms(None, None), (), {}, ())
    assert [row.key for row in rows] == [quantity.key for quantity in QUANTITIES]
    for row in rows:
        assert row.baseline.value is None
        assert row.candidate.value is None
    reasons = {row.key: row.candidate.reason for row in rows}
    assert reasons["accuracy"] == "the gate has no accuracy check"
    assert reasons["weights"] == "no start was attempted"


def test_a_check_that_could_not_measure_gives_its_own_reason() -> None:
    rows = {row.key: row for row in complete(arms(None, None), (), {"accuracy": "candidate: it died"}, ("accuracy", "prompts"))}
    assert rows["accuracy"].baseline.reason == "candidate: it died"
    assert rows["changed"].baseline.reason == "the prompts check has no value for it"


def test_memory_is_read_from_the_engines_in_a_gate_without_capacity() -> None:
    dead = engine_facts("candidate", status=EngineStatus.FAILED, diagnosis=Diagnosis(code="x", exception="boom", line=1))
    served = engine_facts(weights_gib=15.27, kv_cache_tokens=20_480)
    rows = {row.key: row for row in complete(arms(served, dead), (), {}, ())}
    assert rows["weights"].baseline.value == 15.27
    assert rows["requests"].baseline.value == 10.0
    assert rows["weights"].candidate.reason == rows["requests"].candidate.reason == "the engine did not start"


@pytest.mark.parametrize(("check", "marked"), [("accuracy", {"accuracy"}), ("arms", {quantity.key for quantity in QUANTITIES})])
def test_arms_that_are_not_comparable_have_no_difference(check: str, marked: set[str]) -> None:
    found = finding(check, "differs", Severity.NOT_COMPARABLE, "another card")
    rows = complete(arms(None, None), (), {}, (), (found, finding("prompts", "x", Severity.FAIL, "worse")))
    assert {row.key for row in rows if row.difference == "not comparable"} == marked


def test_every_quantity_belongs_to_a_check_and_every_row_of_a_check_is_a_quantity() -> None:
    assert {quantity.check for quantity in QUANTITIES} <= set(discovered())
    rows = [*rows_of("capacity", on_h200(FP8_PLAN, BF16, FP8)), *rows_of("throughput", loaded())]
    assert set(rows) <= {quantity.key for quantity in QUANTITIES}


@pytest.mark.parametrize("wrong", [{"value": None}, {"value": 1.0}, {"value": 1.0, "noise": "n", "reason": "r"}])
def test_a_value_has_its_noise_and_no_value_has_its_reason(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ArmValue(**wrong)


# -- capacity --------------------------------------------------------------------------------------------------


def test_weights_and_cache_stand_beside_what_was_predicted() -> None:
    rows = rows_of("capacity", on_h200(FP8_PLAN, BF16, FP8))
    assert (rows["weights"].baseline.value, rows["weights"].candidate.value) == (15.27, 8.8)
    assert rows["weights"].bound == "predicted: 15.26 GiB -> 8.79 GiB"
    assert (rows["kv_tokens"].baseline.value, rows["kv_tokens"].candidate.value) == (814_368, 861_216)
    assert rows["requests"].about == "each of 4,096 tokens"
    assert rows["requests"].baseline.value == pytest.approx(814_368 / 4096)


def test_declared_max_num_seqs_cuts_the_requests() -> None:
    rows = rows_of("capacity", on_h200(qwen3_plan(quantization="fp8_per_channel", max_num_seqs=64), BF16, FP8))
    assert rows["requests"].candidate.value == 64
    assert "room for 210.3" in rows["requests"].candidate.noise
    assert rows["requests"].baseline.value == pytest.approx(198.8, abs=0.05)


def test_an_engine_that_never_started_has_no_capacity_and_is_still_predicted() -> None:
    rows = rows_of("capacity", on_h200(FP8_PLAN, BF16, None))
    assert rows["requests"].candidate.reason == "the engine was not started"
    assert rows["kv_tokens"].candidate.value is None
    assert rows["kv_tokens"].bound.startswith("predicted, at most: ")


# -- speed, energy, money --------------------------------------------------------------------------------------


def loaded(plan: Plan = FP8_PLAN, *, price: float | None = None, device: str = "cuda", **changes: Any) -> Evidence[Any]:
    """32 in flight at 1,000 and 1,250 tokens a second on an H200, 100 joules a window of 16,384 tokens."""
    if price is not None:
        plan = plan.model_copy(update={"checks": {"capacity": {"price_per_gpu_hour_usd": price}}})
    there = manifest(gpus=(H200,), gpus_reason=None)
    sides = [
        ArmEvidence(
            engine_facts(role, device=device, **{key: value for key, value in changes.items() if key == "status"}),
            there,
            throughput_samples.arm(
                {32: tuple(factor * speed for speed in STEADY)},
                energy_joules=100.0,
                **{key: value for key, value in changes.items() if key != "status"},
            ),
        )
        for role, factor in (("baseline", 1.0), ("candidate", 1.25))
    ]
    return Evidence(sides[0], sides[1], None, plan)


def test_speed_latency_and_energy_come_with_their_noise() -> None:
    rows = rows_of("throughput", loaded())
    assert rows["throughput"].about == "32 in flight"
    assert rows["throughput"].candidate.value == pytest.approx(1250)
    assert rows["throughput"].candidate.noise == "CV 0.71 % of 5 windows"
    assert rows["throughput"].difference.startswith("1.250x (95 % 1.2")
    assert rows["ttft"].baseline.value == 9.0
    assert rows["energy"].baseline.value == pytest.approx(1000 * 100 / 16_384)
    assert rows["throughput_one"].baseline.reason == "no window of this load was measured in both arms"


def test_windows_that_prove_nothing_give_no_value() -> None:
    rows = rows_of("throughput", loaded(prefix_cache_hit_rate=0.9))
    for key in ("throughput", "ttft", "tpot", "energy"):
        assert rows[key].candidate.value is None
        assert str(rows[key].candidate.reason).startswith("INVALID: ")
    assert rows["throughput"].difference == ""


def test_energy_that_no_card_told_is_not_measured() -> None:
    evidence = loaded()
    blind = throughput_samples.arm({32: STEADY}, energy_joules=None, energy_joules_reason="no counter")
    half = Evidence(
        evidence.baseline, ArmEvidence(evidence.candidate.engine, evidence.candidate.manifest, blind), None, FP8_PLAN
    )
    energy = rows_of("throughput", half)["energy"]
    assert energy.baseline.value is not None
    assert (energy.candidate.value, energy.candidate.reason) == (None, "no counter")


def test_on_a_cpu_values_are_shown_and_no_difference_is_claimed() -> None:
    rows = rows_of("throughput", loaded(device="cpu"), judged_at=32)
    assert rows["tpot"].difference == "not judged: a CPU's speed"
    assert rows["throughput"].difference.endswith("; not judged: a CPU's speed")


def test_a_price_gives_the_cost_at_the_measured_speed() -> None:
    cost = rows_of("throughput", loaded(price=3.6))["cost"]
    # 3.60 USD for 3.6 million tokens.
    assert cost.baseline.value == pytest.approx(1.0)
    assert cost.candidate.value == pytest.approx(0.8)
    assert cost.about == "32 in flight, 3.6 USD per GPU hour"
    spread = rows_of("throughput", loaded(qwen3_plan(tensor_parallel_size=2), price=3.6))["cost"]
    assert spread.candidate.value == pytest.approx(1.6)
    assert spread.candidate.noise.startswith("2 cards; ")


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (loaded(), "no price was given"),
        (loaded(price=3.6, device="cpu"), "served on a CPU"),
        (loaded(price=3.6, status=EngineStatus.ATTACHED), "how many cards served it is not known"),
        (loaded(price=3.6, prefix_cache_hit_rate=0.9), "INVALID"),
    ],
)
def test_a_cost_without_its_parts_is_not_guessed(evidence: Evidence[Any], reason: str) -> None:
    cost = rows_of("throughput", evidence)["cost"]
    assert cost.candidate.value is None
    assert reason in str(cost.candidate.reason)


def test_ceilings_stand_beside_the_speed_and_are_above_what_was_measured() -> None:
    rows = rows_of("throughput", loaded())
    words, _, numbers = rows["throughput"].bound.partition(": ")
    before, after = (float(each.replace(",", "")) for each in numbers.split(" -> "))
    assert words == "ceiling of decoding"
    assert 1000 < before < after
    alone = float(rows["throughput_one"].bound.partition(": ")[2].split(" -> ")[0].replace(",", ""))
    assert alone < before < 32 * alone
    assert rows["ttft"].bound.startswith("floor of the prompt alone: ")
    # In the time of one step each of 32 requests gets its token.
    floor = float(rows["tpot"].bound.partition(": ")[2].split(" ms")[0])
    assert floor == pytest.approx(1000 * 32 / before, abs=0.006)


def test_a_speed_beyond_the_ceiling_is_read_by_a_person() -> None:
    evidence, check = loaded(), discovered()["throughput"]
    quick = throughput_samples.arm({32: tuple(10 * speed for speed in STEADY)})
    told = []
    for side in (evidence.baseline, replace(evidence.baseline, measurement=quick)):
        comparison = check.compare(replace(evidence, baseline=side), check.settings())
        assert isinstance(comparison, Comparison)
        told.append([item for item in check.judge(comparison, check.settings()) if item.code.endswith("above-ceiling")])
    assert told[0] == []
    (only,) = told[1]
    assert only.severity is Severity.REVIEW
    assert "at 32 in flight the baseline made 10,000.0 output tokens/s" in only.message
    assert only.limit is not None
    assert 8_000 < only.limit < 10_000


def test_a_load_that_the_gate_does_not_send_says_so() -> None:
    rows = rows_of("throughput", loaded(), single=None)
    assert rows["throughput_one"].candidate.reason == "the gate sends no such load (checks.throughput.single is null)"
    assert rows_of("throughput", loaded())["tpot_one"].candidate.reason == "no window of this load was measured in both arms"


def test_a_ceiling_that_speculation_may_pass_is_not_given() -> None:
    plan = qwen3_plan(speculative_config={"method": "ngram", "num_speculative_tokens": 4})
    rows = rows_of("throughput", loaded(plan))
    assert "not predicted" not in rows["throughput"].bound.split(" -> ")[0]
    assert "a speculative step" in rows["throughput"].bound
    cpu = rows_of("throughput", loaded(device="cpu"))
    assert cpu["throughput"].bound == "no ceiling: speed is not predicted on a CPU"
    assert cpu["throughput_one"].bound == ""


# -- answers ---------------------------------------------------------------------------------------------------


def test_accuracy_has_its_interval_and_the_drop_its_own() -> None:
    before = accuracy_samples.pattern(400)
    after = accuracy_samples.flipped(before, 8, 4)
    row = rows_of(
        "accuracy", accuracy_samples.evidence(accuracy_samples.arm(before, before), accuracy_samples.arm(after, after))
    )
    accuracy = row["accuracy"]
    assert accuracy.baseline.value == pytest.approx(60)
    assert accuracy.candidate.value == pytest.approx(59)
    assert "n = 400; 0.0 % of answers flip against itself" in accuracy.baseline.noise
    assert accuracy.difference.startswith("−1.00 points (90 % −")


def test_changed_answers_stand_beside_the_baselines_own() -> None:
    found = prompts_evidence.evidence(
        {"a": ["x", "x"], "b": ["y", "other"]}, {"a": ["changed", "changed"], "b": ["new", "new"]}, filler=0
    )
    row = rows_of("prompts", found)["changed"]
    assert (row.baseline.value, row.baseline.said) == (50.0, "1 of 2 from itself")
    assert (row.candidate.value, row.candidate.said) == (100.0, "2 of 2 from the baseline")
    assert row.candidate.noise == "from itself: 0 of 2"


def test_with_one_round_the_noise_is_unknown_and_not_zero() -> None:
    row = rows_of("prompts", prompts_evidence.evidence({"a": ["x"]}, {"a": ["changed"]}, filler=0))["changed"]
    assert row.baseline.value is None
    assert "one round" in str(row.baseline.reason)
    assert "not known" in row.candidate.noise
