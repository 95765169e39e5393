"""Predicted beside read: the recorded starts agree, and whatever does not agree is explained or said to be unexplained."""

from __future__ import annotations

from typing import Any

import pytest

from servegate.checks.capacity import CHECK
from servegate.checks.capacity.record import CapacityContrast
from servegate.checks.capacity.settings import CapacitySettings
from servegate.checks.contract import Evidence
from servegate.domain.blocks import Fold, Section, Table
from servegate.domain.evidence import EngineFacts
from servegate.domain.judgement import Comparison, Finding, Severity
from servegate.domain.plan import ModelSource
from tests.unit.checks.capacity_samples import H200, on_h200, qwen3_plan, recorded_facts
from tests.unit.sizing.configs import QWEN3_8B

BF16 = recorded_facts("baseline", "capacity/h200-0.25.1-qwen3-8b-bf16.log")
FP8 = recorded_facts("candidate", "capacity/h200-0.25.1-qwen3-8b-fp8.log")
FP8_KV = recorded_facts("candidate", "logs/h200-0.25.1-qwen3-8b-fp8-fp8-kv.log")
FP8_PLAN = qwen3_plan(quantization="fp8_per_channel")
SETTINGS = CapacitySettings()


def judged(evidence: Evidence[Any], settings: CapacitySettings = SETTINGS) -> tuple[CapacityContrast, tuple[Finding, ...]]:
    comparison = CHECK.compare(evidence, settings)
    assert isinstance(comparison, Comparison)
    return CapacityContrast.model_validate(comparison.candidate), CHECK.judge(comparison, settings)


def section(evidence: Evidence[Any], settings: CapacitySettings = SETTINGS) -> Section:
    comparison = CHECK.compare(evidence, settings)
    assert isinstance(comparison, Comparison)
    return CHECK.present(comparison, evidence, settings, CHECK.judge(comparison, settings))


def changed(facts: EngineFacts, **changes: object) -> EngineFacts:
    return facts.model_copy(update=changes)


@pytest.mark.parametrize(
    ("plan", "candidate"), [(FP8_PLAN, FP8), (qwen3_plan(quantization="fp8_per_channel", kv_cache_dtype="fp8"), FP8_KV)]
)
def test_recorded_starts_agree_with_their_predictions(plan: Any, candidate: EngineFacts) -> None:
    contrast, findings = judged(on_h200(plan, BF16, candidate))
    assert findings == ()
    states = [(reading.state, abs(reading.gap or 1) < 0.05) for _name, arm in contrast.arms for _what, reading in arm.readings]
    assert states == [("agrees", True)] * 6
    assert contrast.baseline.room == "NVIDIA H200, 139.8 GiB"


def test_quantization_that_was_not_applied_shows_in_the_weights() -> None:
    _contrast, findings = judged(on_h200(FP8_PLAN, BF16, changed(BF16, role="candidate")))
    assert [(item.code, item.severity) for item in findings] == [
        ("capacity/unexplained-gap", Severity.REVIEW),
        ("capacity/explained-gap", Severity.INFO),
    ]
    assert "as large as without quantization (15.26 GiB)" in findings[0].message
    assert "the weights take +6.48 GiB" in findings[1].message


def test_a_cache_of_another_type_than_was_asked_for_shows_in_bytes_and_tokens() -> None:
    _contrast, findings = judged(on_h200(FP8_PLAN, BF16, FP8_KV))
    assert [item.code for item in findings] == ["capacity/unexplained-gap"] * 2
    assert all("as if the cache kept half the bytes" in item.message for item in findings)
    assert all(item.severity is Severity.REVIEW for item in findings)


def small_card(kept_back_gib: float) -> Evidence[Any]:
    """A start on a card of 24 GiB that keeps memory back beside the weights."""
    left = 24 * 0.92 - 15.26 - kept_back_gib
    facts = changed(BF16, kv_cache_gib=left, kv_cache_tokens=int(left * 2**30 / 147_456))
    gpu = H200.model_copy(update={"name": "Some card", "memory_gib": 24.0})
    return on_h200(qwen3_plan(), facts, changed(facts, role="candidate"), gpus=(gpu,))


def test_a_gap_that_a_known_reservation_covers_is_explained() -> None:
    _contrast, findings = judged(small_card(1.2))
    assert [(item.code, item.severity) for item in findings] == [("capacity/explained-gap", Severity.INFO)] * 2
    assert "GiB of activations" in findings[0].message


def test_a_gap_that_no_reservation_covers_is_unexplained() -> None:
    _contrast, findings = judged(small_card(3.0))
    assert {(item.code, item.severity) for item in findings} == {("capacity/unexplained-gap", Severity.REVIEW)}
    assert "3.00 GiB are kept back" in findings[0].message


def test_more_tokens_than_there_is_room_for_are_unexplained() -> None:
    _contrast, findings = judged(small_card(-1.0))
    assert {item.code for item in findings} == {"capacity/unexplained-gap"}
    assert "more than the weights leave" in findings[0].message


def test_an_engine_that_never_started_is_not_measured_and_still_predicted() -> None:
    evidence = on_h200(FP8_PLAN, BF16, None)
    contrast, findings = judged(evidence)
    assert findings == ()
    assert contrast.candidate.prediction is not None
    assert contrast.candidate.tokens.engine_reason == "the engine was not started"
    cells = [cell for block in section(evidence).blocks if isinstance(block, Table) for row in block.rows for cell in row]
    assert "not measured: the engine was not started" in cells
    assert None not in cells


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"gpus": (), "gpus_reason": "no driver"}, "no card is known: no driver"),
        ({"gpus": (H200.model_copy(update={"mig": True}),)}, "divided (MIG)"),
        ({"gpus": (H200, H200.model_copy(update={"name": "NVIDIA L4"}))}, "the cards differ"),
    ],
)
def test_a_card_that_is_not_known_gives_its_reason_and_no_guess(changes: dict[str, Any], said: str) -> None:
    contrast, findings = judged(on_h200(FP8_PLAN, BF16, FP8, **changes))
    assert said in str(contrast.candidate.tokens.predicted_reason)
    assert contrast.candidate.tokens.predicted is None
    assert contrast.candidate.weights_gib.state == "agrees"
    assert findings == ()


def test_a_model_that_is_not_here_is_not_predicted_and_compares_nothing() -> None:
    plan = FP8_PLAN.model_copy(update={"model": ModelSource(source="org/m", revision=None)})
    comparison = CHECK.compare(on_h200(plan, BF16, FP8), SETTINGS)
    assert isinstance(comparison, Comparison)
    assert comparison.n == 0
    shown = section(on_h200(plan, BF16, FP8))
    assert shown.summary == "Weights 15.27 -> 8.80 GiB (not predicted). KV cache 814,368 -> 861,216 tokens (not predicted)."
    assert shown.outcome.value == "review"


def test_a_candidate_with_a_checkpoint_of_its_own_is_predicted_from_it() -> None:
    config = QWEN3_8B | {"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    other = {"candidate": ModelSource(source="org/m-FP8", revision=None, config=config)}
    contrast, findings = judged(on_h200(qwen3_plan().model_copy(update={"other_models": other}), BF16, FP8))
    assert contrast.candidate.prediction is not None
    assert contrast.candidate.prediction.scheme == "fp8 checkpoint, per block"
    assert findings == ()


def test_a_price_gives_the_least_cost_and_none_without_it() -> None:
    def titles(settings: CapacitySettings) -> dict[str, str]:
        shown = section(on_h200(FP8_PLAN, BF16, FP8), settings)
        tables = [inner for block in shown.blocks if isinstance(block, Fold) for inner in block.blocks]
        assert isinstance(tables[0], Table)
        return {str(row[0]): str(row[1]) for row in tables[0].rows}

    assert "a million output tokens" not in titles(SETTINGS)
    # 3 USD for an hour of 7,066 tokens a second.
    priced = titles(CapacitySettings(price_per_gpu_hour_usd=3.0))
    assert priced["a million output tokens"] == "at least 0.1179 USD, at the decode ceiling"
