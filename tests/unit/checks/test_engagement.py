"""What was served, on real logs of an H200 and a CPU, and on the lines that the field has reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from servegate.checks.contract import NO_MEASUREMENT, ArmEvidence, Evidence
from servegate.checks.engagement import CHECK
from servegate.checks.engagement.reading import Reading
from servegate.checks.engagement.settings import EngagementSettings, Expect, Limits
from servegate.checks.engagement.variables import meant
from servegate.domain.evidence import EngineFacts, EngineStatus
from servegate.domain.judgement import Comparison, Finding, Outcome, outcome_of
from servegate.domain.plan import Knob
from servegate.engines.vllm_log import read_log
from tests.unit.samples import arm, manifest, plan

LOGS = Path(__file__).parents[2] / "recorded" / "logs"
CONFIG = (
    "Initializing a V1 LLM engine (v0.32.0) with config: model='m', dtype=torch.bfloat16, quantization={}, kv_cache_dtype={},"
)
NATIVE = "Selected CutlassFP8ScaledMMLinearKernel for Fp8LinearMethod"
MARLIN = (
    "Your GPU does not have native support for FP8 computation but FP8 quantization is being used. Weight-only FP8 "
    "compression will be used leveraging the Marlin kernel. This may degrade performance for compute-heavy workloads."
)


def facts(role: str, text: str, **known: Any) -> EngineFacts:
    base = EngineFacts(role=role, session=0, status=EngineStatus.READY, version=None)
    return read_log(text, base).model_copy(update=known)


def recorded(name: str) -> str:
    return (LOGS / f"{name}.log").read_text("utf-8")


def log(*lines: str, quantization: str = "None", kv: str = "auto") -> str:
    return "\n".join((CONFIG.format(quantization, kv), *lines))


def gate(
    before: str | None,
    after: str | None,
    *,
    settings: EngagementSettings | None = None,
    options: tuple[dict[str, object], dict[str, object]] = ({}, {}),
    knobs: tuple[str, ...] | None = None,
    environment: dict[str, str] | None = None,
    known: tuple[dict[str, Any], dict[str, Any]] = ({}, {}),
) -> tuple[Comparison, tuple[Finding, ...], Evidence[Any]]:
    arms = {"baseline": arm("baseline", **options[0]), "candidate": arm("candidate", **options[1])}
    arms["candidate"] = arms["candidate"].model_copy(update={"environment": environment or {}})
    names = [name for name in {**options[0], **options[1]} if options[0].get(name) != options[1].get(name)]
    made = tuple(Knob(name=name, baseline=None, candidate="x", source="test") for name in (names if knobs is None else knobs))
    sides = [
        ArmEvidence(None if text is None else facts(role, text, **extra), manifest(), NO_MEASUREMENT)
        for role, text, extra in zip(arms, (before, after), known, strict=True)
    ]
    evidence: Evidence[Any] = Evidence(sides[0], sides[1], None, plan(arms=arms, knobs=made))
    used = settings or EngagementSettings()
    comparison = CHECK.compare(evidence, used)
    assert isinstance(comparison, Comparison)
    return comparison, CHECK.judge(comparison, used), evidence


def codes(found: tuple[Finding, ...]) -> dict[str, str]:
    return {item.code.removeprefix("engagement/"): item.severity.value for item in found}


def judged(*sides: str | None, **more: Any) -> dict[str, str]:
    return codes(gate(*sides, **more)[1])


FP8 = {"quantization": "fp8_per_channel"}
FP8_KV = {"kv-cache-dtype": "fp8"}


# -- real logs ----------------------------------------------------------------------------------------------------


def test_fp8_weights_that_engaged_on_an_h200_raise_nothing() -> None:
    found = judged(recorded("h200-0.25.1-qwen3-8b-bf16"), recorded("h200-0.25.1-qwen3-8b-fp8"), options=({}, FP8))
    assert found == {}


def test_weights_and_kv_cache_changed_together_can_not_be_attributed() -> None:
    pair = recorded("h200-0.25.1-qwen3-8b-bf16"), recorded("h200-0.25.1-qwen3-8b-fp8-fp8-kv")
    comparison, found, _evidence = gate(*pair, options=({}, {**FP8, **FP8_KV}))
    assert codes(found) == {"several-knobs": "review", "cannot-attribute": "review"}
    assert "2 changed axes: weights none -> fp8_per_channel and KV cache auto -> fp8" in found[1].message
    assert comparison.n >= 6
    meant_so = EngagementSettings(limits=Limits(may_differ=("quantization", "kv_cache_dtype")))
    assert judged(*pair, options=({}, {**FP8, **FP8_KV}), settings=meant_so) == {"cannot-attribute": "info"}


def test_fp8_on_a_cpu_is_told_as_the_fallback_it_is() -> None:
    found = judged(recorded("cpu-0.32.0-bf16-eager"), recorded("cpu-0.32.0-fp8-compiled"), options=({}, FP8))
    assert found == {"torch-fallback": "info"}


def test_an_fp8_kv_cache_alone_raises_nothing() -> None:
    assert judged(recorded("cpu-0.32.0-bf16-eager"), recorded("cpu-0.32.0-fp8-kv-eager"), options=({}, FP8_KV)) == {}


@pytest.mark.parametrize(
    ("asked", "shown", "code"),
    [
        ("fp8", log(kv="auto"), "kv-cache-not-engaged"),
        ("fp8", "nothing is said of it", "kv-cache-not-seen"),
        ("fp8_e5m2", log(kv="fp8_e4m3"), "kv-cache-not-engaged"),
        ("int8_per_token", log(kv="bfloat16"), "kv-cache-not-engaged"),
        ("fp8_e4m3", log(kv="fp8"), None),
        ("bfloat16", log(kv="auto"), None),
        ("auto", "nothing is said of it", None),
    ],
)
def test_a_kv_cache_that_was_asked_for_and_not_seen_is_told(asked: str, shown: str, code: str | None) -> None:
    """Asked for and not engaged is no change at all, and would be called harmless."""
    assert judged(log(), shown, options=({}, {"kv-cache-dtype": asked})) == ({code: "review"} if code else {})


@pytest.mark.parametrize(
    ("asked", "got", "told"), [("fp8", "awq_marlin", True), ("awq", "awq_marlin", False), ("fp8", "fp8_per_tensor", False)]
)
def test_another_quantization_than_was_asked_for_is_told(asked: str, got: str, told: bool) -> None:
    found = judged(log(), log(NATIVE, quantization=got), options=({}, {"quantization": asked}))
    assert ("other-quantization" in found) is told


def test_equal_kv_caches_of_unequal_size_are_told() -> None:
    same = recorded("h200-0.25.1-qwen3-8b-bf16")
    less = same.replace("814,368 tokens", "281,000 tokens")
    assert judged(same, less, options=({}, {"seed": 1})) == {"kv-cache-size-differs": "review"}
    assert judged(same, less, options=({}, {"max-num-seqs": 512})) == {}


def test_an_arm_that_did_not_start_is_shown_and_never_passes() -> None:
    failed = {"status": EngineStatus.FAILED}
    comparison, found, evidence = gate(
        recorded("h200-0.25.1-qwen3-8b-bf16"), recorded("h200-0.25.1-gpu-memory-held"), options=({}, FP8), known=({}, failed)
    )
    assert codes(found) == {"not-served": "review"}
    section = CHECK.present(comparison, evidence, EngagementSettings(), found)
    assert "candidate was not served" in section.summary
    comparison, found, evidence = gate(recorded("h200-0.25.1-qwen3-8b-bf16"), None, options=({}, FP8))
    assert codes(found) == {"not-served": "review"}
    assert "unknown: no start was attempted" in str(CHECK.present(comparison, evidence, EngagementSettings(), found).blocks)


@pytest.mark.parametrize("name", sorted(path.stem for path in LOGS.glob("*.log")))
def test_every_recorded_log_against_itself_blocks_nothing_but_what_it_lacks(name: str) -> None:
    text = recorded(name)
    comparison, found, evidence = gate(text, text)
    section = CHECK.present(comparison, evidence, EngagementSettings(), found)
    expected = Outcome.REVIEW if name.endswith("gpu-memory-held") else Outcome.PASS
    if expected is Outcome.PASS:
        assert outcome_of(found) is expected, found
    lines = text.split("\n")
    table = next(block for block in section.blocks if getattr(block, "name", "") == "engagement-arms")
    row = next(row for row in table.rows if row[0] == "quantization, resolved")  # type: ignore[union-attr]
    assert f"quantization={str(row[1]).replace('none', 'None')}" in lines[int(row[4]) - 1]


# -- what the field reports ---------------------------------------------------------------------------------------


def test_asked_and_not_engaged() -> None:
    assert judged(log(), log(), options=({}, FP8)) == {"not-engaged": "review"}


def test_a_log_without_the_config_line_is_unknown_and_not_as_asked() -> None:
    comparison, found, evidence = gate(log(), "nothing of note", options=({}, FP8))
    assert codes(found) == {"quantization-not-seen": "review"}
    assert Reading.model_validate(comparison.candidate).candidate.quantization_resolved is None
    assert "unknown: the engine's log does not say" in str(
        CHECK.present(comparison, evidence, EngagementSettings(), found).blocks
    )


def test_a_checkpoint_that_is_quantized_asks_without_an_option() -> None:
    own = {"checkpoint_quantization": {"quant_method": "fp8", "activation_scheme": "static"}}
    found = judged(log(), log(), options=({}, {"model": "m-fp8"}), known=({}, own))
    assert found == {"not-engaged": "review", "static-activation-scales": "info"}
    groups = {"group_0": {"input_activations": {"dynamic": False}}}
    own = {"checkpoint_quantization": {"quant_method": "compressed-tensors", "config_groups": groups}}
    assert "static-activation-scales" in judged(log(), log(), known=({}, own))
    groups["group_0"]["input_activations"]["dynamic"] = True
    assert "static-activation-scales" not in judged(log(), log(), known=({}, own))


def test_the_recipe_of_static_scales_is_shown_or_unknown() -> None:
    own = {"checkpoint_quantization": {"quant_method": "fp8", "activation_scheme": "static"}}
    for recipe, said in (
        ("default_stage:\n  dataset: ultrachat\n", "dataset: ultrachat"),
        (None, "unknown: it holds no recipe"),
    ):
        known = {**own, "checkpoint_recipe": recipe, "checkpoint_recipe_reason": None if recipe else "it holds no recipe.yaml"}
        comparison, found, evidence = gate(log(), log(), options=({}, {"model": "m-fp8"}), known=({}, known))
        told = next(item.message for item in found if item.code == "engagement/static-activation-scales")
        assert said in told
        shown = str(CHECK.present(comparison, evidence, EngagementSettings(), found).blocks)
        assert ("dataset: ultrachat" if recipe else "unknown: it holds no recipe.yaml") in shown


def test_weights_only_arithmetic_is_named_and_is_no_pass() -> None:
    candidate = log(MARLIN, quantization="fp8")
    comparison, found, _evidence = gate(log(), candidate, options=({}, {"quantization": "fp8"}))
    assert codes(found) == {"weights-only": "review"}
    assert "W8A16 (Marlin, weights only)" in found[0].message
    assert Reading.model_validate(comparison.candidate).candidate.effective_precision == "W8A16 (Marlin, weights only)"
    both = judged(candidate, candidate, options=({"quantization": "fp8"}, {"quantization": "fp8"}))
    assert both == {"weights-only": "info"}


def test_four_bit_weights_are_meant_to_be_multiplied_in_16_bits() -> None:
    awq = log("Using MarlinLinearKernel for AutoAWQMarlinLinearMethod", quantization="awq_marlin")
    assert judged(log(), awq, options=({}, {"quantization": "awq_marlin"})) == {}


def test_the_torch_fallback_on_a_gpu_is_a_review() -> None:
    torch = log("Selected ChannelWiseTorchFP8ScaledMMLinearKernel for Fp8LinearMethod", quantization="fp8")
    assert judged(log(), torch, options=({}, {"quantization": "fp8"})) == {"torch-fallback": "review"}


def test_a_quantized_arm_without_a_kernel_line_is_unknown() -> None:
    assert judged(log(), log(quantization="fp8"), options=({}, {"quantization": "fp8"})) == {"precision-unknown": "review"}


def test_one_word_of_two_versions_is_not_comparable_unless_both_logs_name_the_method() -> None:
    fp8 = {"quantization": "fp8"}, {"quantization": "fp8"}
    old, new = log(quantization="fp8").replace("v0.32.0", "v0.29.0"), log(quantization="fp8").replace("v0.32.0", "v0.31.0")
    found = judged(old, new, options=fp8, knobs=("engine.executable",))
    assert found["fp8-across-versions"] == "not_comparable"
    found = judged(f"{old}\n{NATIVE}", f"{new}\n{NATIVE}", options=fp8, knobs=("engine.executable",))
    assert found == {"fp8-across-versions": "info"}
    assert judged(old, new, options=fp8)["engine-exchanged"] == "not_comparable"


def test_a_kv_cache_that_changes_without_being_asked_is_told() -> None:
    assert judged(log(), log(kv="fp8"), options=({}, {"seed": 1})) == {"kv-cache-changed-along": "review"}
    found = judged(log(), log(NATIVE, quantization="fp8", kv="fp8"), options=({}, {"quantization": "fp8"}))
    assert found == {"cannot-attribute": "review"}


def test_knobs_beyond_those_under_test_are_not_comparable() -> None:
    limits = EngagementSettings(limits=Limits(may_differ=("quantization",)))
    candidate = log(NATIVE, quantization="fp8_per_channel")
    _comparison, found, _evidence = gate(log(), candidate, options=({}, {**FP8, "max-num-seqs": 64}), settings=limits)
    assert codes(found) == {"beyond-may-differ": "not_comparable"}
    assert "max-num-seqs" in found[0].message
    _comparison, found, _evidence = gate(log(), candidate, options=({}, {**FP8, "max-num-seqs": 64}))
    assert codes(found) == {"several-knobs": "review"}
    assert found[0].message.startswith("2 differences between the arms: quantization, max-num-seqs")
    assert judged(log(), candidate, options=({}, FP8), settings=limits) == {}


def test_skipped_scales_count_where_only_one_arm_has_them() -> None:
    line = "Parameter layers.{}.self_attn.qkv_proj.k_scale not found in params_dict, skip loading"
    two = log(line.format(3), line.format(4))
    _comparison, found, _evidence = gate(log(), two)
    assert codes(found) == {"scales-skipped": "review"}
    assert "0 log lines in the baseline, 2 in the candidate" in found[0].message
    assert judged(two, two) == {"scales-skipped": "info"}


def test_a_kv_scale_of_one_is_told() -> None:
    line = "Using KV cache scaling factor 1.0 for fp8_e4m3. If this is unintended, verify that k/v_scale are properly set."
    assert judged(log(kv="fp8"), log(line, kv="fp8")) == {"kv-scale-one": "info"}


def test_quantized_weights_that_are_no_smaller_are_told() -> None:
    loaded = "Model loading took 14.96 GiB and 2.5 seconds"
    found = judged(log(loaded), log(loaded, NATIVE, quantization="fp8_per_channel"), options=({}, FP8))
    assert found == {"weights-not-smaller": "review"}
    smaller = log(loaded.replace("14.96", "8.8"), NATIVE, quantization="fp8_per_channel")
    assert judged(log(loaded), smaller, options=({}, FP8)) == {}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Expect(quantization="fp8_per_channel", kv_cache_dtype="auto"), {}),
        (Expect(quantization="fp8_per_tensor"), {"not-as-expected": "not_comparable"}),
        (Expect(kv_cache_dtype="fp8"), {"not-as-expected": "not_comparable"}),
    ],
)
def test_expectations_are_held_against_the_log(wanted: Expect, expected: dict[str, str]) -> None:
    candidate = log(NATIVE, quantization="fp8_per_channel")
    assert judged(log(), candidate, options=({}, FP8), settings=EngagementSettings(expect=wanted)) == expected


def test_an_expectation_that_the_log_does_not_answer_is_a_review() -> None:
    wanted = EngagementSettings(expect=Expect(kv_cache_dtype="fp8"))
    assert judged(log(), "silence", settings=wanted) == {"expectation-unknown": "review"}


def test_variables_that_steer_nothing() -> None:
    assert meant("LLM_DISABLED_KERNELS") == "VLLM_DISABLED_KERNELS"
    assert [meant(name) for name in ("VLLM_DISABLED_KERNELS", "FAKE_VLLM_FAULT", "HF_HOME", "LLM_")] == [None] * 4
    _comparison, found, _evidence = gate(log(), log(), environment={"LLM_DISABLED_KERNELS": "X"})
    assert codes(found) == {"unknown-variable": "review"}
    assert "did you mean VLLM_DISABLED_KERNELS?" in found[0].message
    line = "WARNING 11-29 18:15:10 [envs.py:1] Unknown vLLM environment variable detected: VLLM_SPED"
    assert judged(log(), log(line), environment={"VLLM_SPED": "1"}) == {"unknown-variable": "review"}
    assert judged(log(), log(line)) == {}, "the host's own variables reach both arms"


def test_shape_of_the_engine() -> None:
    backend = "Using {} attention backend out of potential backends: ['A', 'B']."
    pair = log(backend.format("FLASH_ATTN")), log(backend.format("FLASHINFER"))
    assert judged(*pair) == {"attention-backend-differs": "review"}
    assert judged(*pair, options=({}, {"attention-backend": "FLASHINFER"})) == {}
    kv = log(backend.format("FLASHINFER"), kv="fp8")
    assert judged(pair[0], kv, options=({}, FP8_KV)) == {"attention-backend-differs": "info"}
    lengths = "Using max model len {}"
    assert judged(log(lengths.format(4096)), log(lengths.format(2048))) == {"max-model-len-differs": "review"}
    mode = {"logprobs-mode": "processed_logprobs"}
    assert judged(log(), log(), options=({}, mode)) == {"logprobs-mode-differs": "review"}
