"""Judging and showing: PASS is earned, FAIL is proven, and everything that is missing withholds PASS."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from servegate.checks.contract import ArmEvidence, Evidence
from servegate.checks.logprobs import CHECK
from servegate.checks.logprobs.record import LogprobsMeasurement
from servegate.checks.logprobs.settings import Limits, LogprobsSettings
from servegate.checks.verdict import judged
from servegate.domain.evidence import ItemStatus, NotMeasured, Reason
from servegate.domain.judgement import Comparison, Finding, Outcome, Severity
from servegate.domain.workload import PromptScore
from tests.unit.checks import logprobs_samples as samples
from tests.unit.checks.logprobs_samples import BIG, arm, evidence, many, score
from tests.unit.samples import engine_facts

SETTINGS = LogprobsSettings()


def findings(left: LogprobsMeasurement, right: LogprobsMeasurement, **more: Any) -> dict[str, Finding]:
    comparison = CHECK.compare(evidence(left, right, **more), SETTINGS)
    assert isinstance(comparison, Comparison)
    return {item.code.removeprefix("logprobs/"): item for item in CHECK.judge(comparison, SETTINGS)}


def severities(left: LogprobsMeasurement, right: LogprobsMeasurement, **more: Any) -> dict[str, str]:
    return {code: item.severity.value for code, item in findings(left, right, **more).items()}


def test_a_harmless_change_passes() -> None:
    assert severities(many(), many(shift=-0.001, spread=0.005)) == {}


def test_a_clear_loss_fails_and_names_the_rule_and_the_windows() -> None:
    found = findings(many(), many(shift=-0.08, spread=0.02))
    assert [(code, item.severity) for code, item in found.items()] == [("perplexity", Severity.FAIL)]
    rule = found["perplexity"]
    assert (rule.operator, rule.limit) == (">", 1.05)
    assert rule.value is not None
    assert 1.05 < rule.value < 1.09
    assert len(rule.evidence) == 20


@pytest.mark.parametrize(
    ("shift", "said"), [(-0.035, "the loss itself is above that"), (-0.015, "more windows would narrow it")]
)
def test_between_the_limits_it_is_open(shift: float, said: str) -> None:
    found = findings(many(), many(shift=shift, spread=0.03))
    assert list(found) == ["perplexity-open"]
    assert found["perplexity-open"].severity is Severity.REVIEW
    assert said in found["perplexity-open"].message


def test_an_improvement_passes() -> None:
    assert severities(many(), many(shift=0.05)) == {}


def test_an_improvement_that_no_serving_config_brings_is_for_a_person() -> None:
    assert severities(many(), many(shift=0.3)) == {"perplexity-lower": "review"}


def test_logprobs_that_nobody_computed_are_no_certainty() -> None:
    """A buffer of zeros says that every token was certain: the best perplexity there is."""
    zeros = arm([{f"w{number:05d}": score([0.0] * 300) for number in range(40)}] * 2)
    assert severities(many(), zeros) == {"zeros-candidate": "error"}
    assert severities(zeros, zeros) == {"zeros-baseline": "error", "zeros-candidate": "error"}


def test_windows_that_repeat_earlier_text_are_no_further_windows() -> None:
    found = evidence(many(), many())
    copied = replace(found, inputs=samples.inputs().model_copy(update={"copies": 39}))
    comparison = CHECK.compare(copied, SETTINGS)
    assert isinstance(comparison, Comparison)
    said = [(item.code, item.severity) for item in CHECK.judge(comparison, SETTINGS)]
    assert said == [("logprobs/smoke-test", Severity.REVIEW)] * 2


@pytest.mark.parametrize(
    ("windows", "tokens", "what"), [(29, 300, "29 windows"), (40, 200, "8,000 tokens")]
)  # fmt: skip
def test_smoke_sizes_cannot_pass(windows: int, tokens: int, what: str) -> None:
    found = findings(many(windows, tokens), many(windows, tokens))
    assert list(found) == ["smoke-test"]
    assert f"smoke test: {what}, cannot PASS" in found["smoke-test"].message


def test_few_windows_cannot_fail_either() -> None:
    found = severities(many(9), many(9, shift=-0.3))
    assert found == {"perplexity-open": "review", "smoke-test": "review"}
    assert severities(many(10), many(10, shift=-0.3))["perplexity"] == "fail"


def test_one_window_is_no_interval() -> None:
    assert severities(many(1, 9000), many(1, 9000))["no-interval"] == "review"


@pytest.mark.parametrize("shift", [0.0, -0.5])
def test_a_small_model_neither_passes_nor_fails(shift: float) -> None:
    found = findings(many(), many(shift=shift), model=samples.SMALL)
    assert {code: item.severity.value for code, item in found.items()} == {"small-model": "review"}
    assert "134 M parameters only informs" in found["small-model"].message


@pytest.mark.parametrize("shift", [0.0, -0.5])
def test_a_model_of_unknown_size_neither_passes_nor_fails(shift: float) -> None:
    """A hub name tells no size: a toy would be passed by limits that do not fit it."""
    assert severities(many(), many(shift=shift), model=None) == {"size-unknown": "review"}


@pytest.mark.parametrize(("gib", "expected"), [(15.27, {}), (0.25, {"size-unknown": "review"})])
def test_the_weights_that_were_loaded_tell_that_a_model_is_large(gib: float, expected: dict[str, str]) -> None:
    """15.27 GiB: what an H200 logged for the shape of Qwen3-8B in BF16; 0.25: SmolLM2-135M."""
    given = evidence(many(), many(), model=None)
    given = replace(given, baseline=replace(given.baseline, engine=engine_facts("baseline", weights_gib=gib)))
    comparison = CHECK.compare(given, SETTINGS)
    assert isinstance(comparison, Comparison)
    found = CHECK.judge(comparison, SETTINGS)
    assert {item.code.removeprefix("logprobs/"): item.severity.value for item in found} == expected


def test_a_model_below_a_billion_parameters_only_gets_information() -> None:
    half = {**BIG, "hidden_size": 1024, "num_hidden_layers": 24, "intermediate_size": 3072, "vocab_size": 100_000}
    assert severities(many(), many(shift=-0.5), model=half) == {"small-model": "review"}


def test_a_loss_that_grows_within_the_window_is_remarked_and_shown() -> None:
    rng = np.random.default_rng(4)
    base = {f"w{number:05d}": -rng.exponential(2.0, 1200) - 1 for number in range(40)}
    drift = np.arange(1, 1201) / 1000 * 0.01
    worse = arm([{name: score(values - drift) for name, values in base.items()} for _ in range(2)])
    item = findings(arm([{name: score(values) for name, values in base.items()}] * 2), worse)["grows-with-position"]
    assert item.severity is Severity.INFO
    assert "by 0.0100 nats for each 1,000 positions" in item.message


def test_d1_an_unsteady_arm_is_invalid_and_nothing_else_is_claimed() -> None:
    found = findings(many(noise=0.6), many(shift=-0.5))
    assert list(found) == ["unsteady-baseline"]
    assert found["unsteady-baseline"].severity is Severity.ERROR
    assert found["unsteady-baseline"].message.startswith("INVALID: the baseline does not agree with itself")


def test_d1_one_wrong_position_in_few_is_invalid() -> None:
    steady = {"a": score([-0.5, -0.9, -1.2]), "b": score([-1.0])}
    cached = {"a": score([-0.5, -0.9, 0.0]), "b": score([-1.0])}
    assert severities(arm([steady, cached]), arm([steady, steady])) == {"unsteady-baseline": "error"}
    assert severities(arm([steady, steady]), arm([cached, steady])) == {"unsteady-candidate": "error"}


def test_d2_lost_windows_withhold_pass() -> None:
    lost = PromptScore.nothing("w", ItemStatus.FAILED, "4 positions were scored of 5 tokens", 1)
    left = {f"w{n}": score([-1.0] * 300) for n in range(40)}
    assert severities(arm([left]), arm([{**left, "w3": lost}])) == {"failed-windows": "review"}
    assert severities(arm([left]), arm([{name: one for name, one in left.items() if name != "w3"}])) == {
        "missing-windows": "review"
    }


def test_d3_a_clamped_token_withholds_pass() -> None:
    left = {f"w{n}": score([-1.0] * 300) for n in range(40)}
    found = findings(arm([left]), arm([{**left, "w3": score([*[-1.0] * 299, None], clamped=1)}]))
    assert list(found) == ["missing-logprobs"]
    assert "1 of them the candidate alone" in found["missing-logprobs"].message
    assert "Minus infinity: baseline 0, candidate 1" in found["missing-logprobs"].message


def test_d6_arms_with_other_modes_are_not_comparable() -> None:
    processed = many().model_copy(update={"logprobs_mode": "processed_logprobs"})
    assert severities(many(), processed) == {"modes-differ": "not_comparable"}


def test_other_token_ids_are_not_comparable() -> None:
    left = {f"w{n}": score([-1.0] * 10) for n in range(40)}
    assert severities(arm([left]), arm([left], first_id=5)) == {"other-text": "not_comparable", "nothing-scored": "review"}


def test_equal_numbers_of_differently_served_arms_are_remarked() -> None:
    found = severities(many(), many(), options=["--quantization=fp8"])
    assert found == {"all-identical": "info"}


def test_d8_a_part_is_reported_as_a_part() -> None:
    part = many().model_copy(update={"partial": Reason(code="engine_failed", message="the engine died")})
    whole = evidence(many(), part)
    comparison = CHECK.compare(whole, SETTINGS)
    assert isinstance(comparison, Comparison)
    result = judged(CHECK, whole, comparison, CHECK.judge(comparison, SETTINGS))
    assert result.outcome is Outcome.REVIEW
    assert [item.message for item in result.findings] == ["candidate was measured in part: the engine died"]


def test_d11_unsupported_is_a_state_of_its_own() -> None:
    none = NotMeasured(reason=Reason(code="unsupported", message="the engine does not support prompt_logprobs=1: null"))
    side = ArmEvidence(None, None, none)
    whole: Evidence[LogprobsMeasurement] = Evidence(side, side)
    comparison = CHECK.compare(whole, SETTINGS)
    assert isinstance(comparison, NotMeasured)
    result = judged(CHECK, whole, comparison, ())
    assert result.outcome is Outcome.REVIEW  # and neither ERROR nor an agreement of 0 %


def test_limits_must_be_in_order() -> None:
    with pytest.raises(ValueError, match="must not be below ppl_ratio_pass"):
        Limits(ppl_ratio_pass=1.2)


def test_d12_no_exact_divergence_is_claimed() -> None:
    left, right = samples.recorded("bf16"), samples.recorded("fp8_per_channel")
    whole = evidence(left, right, model=samples.SMALL)
    comparison = CHECK.compare(whole, SETTINGS)
    assert isinstance(comparison, Comparison)
    section = CHECK.present(comparison, whole, SETTINGS, CHECK.judge(comparison, SETTINGS))
    shown = json.dumps(section.to_json(), ensure_ascii=False)
    assert "KL divergence" not in shown
    assert "KL = 0" not in shown
    assert "top-k lower bound" in shown
    assert section.summary == (
        "Perplexity ratio 1.0266, at most 1.0273 (PASS < 1.02); same top token 92.95%; RMS Δp 3.39%."
    )  # fmt: skip
    assert "Q8_0" in shown
    assert section.noise.startswith("Unknown: ")
    assert section.outcome is Outcome.REVIEW


def test_noise_stands_beside_the_difference() -> None:
    whole = evidence(many(), many(shift=-0.001, noise=0.01))
    comparison = CHECK.compare(whole, SETTINGS)
    assert isinstance(comparison, Comparison)
    section = CHECK.present(comparison, whole, SETTINGS, CHECK.judge(comparison, SETTINGS))
    assert "Baseline against itself: ratio 1.0000" in section.noise
    assert "candidate against itself: ratio" in section.noise
    figure = next(block for block in section.blocks if block.kind == "figure")
    assert [series.role for series in figure.series] == ["difference", "noise"]
    assert section.n == "12,000 tokens in 40 windows"
