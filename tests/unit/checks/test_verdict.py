"""Validity, then quality, then speed; and whatever is missing is never PASS."""

from __future__ import annotations

from typing import Any, cast

import pytest

from servegate.checks.contract import AnyCheck, ArmEvidence, Check, Evidence, finding
from servegate.checks.verdict import Judged, decide, judged, missing_section
from servegate.domain.evidence import (
    Diagnosis,
    EngineStatus,
    FallbackUsed,
    LogWarning,
    Measurement,
    NotMeasured,
    Quantization,
    Reason,
)
from servegate.domain.judgement import Comparison, Finding, Outcome, Severity, Verdict
from servegate.domain.manifest import Gpu, Manifest, ServedFiles
from servegate.domain.plan import Knob, Origin, Plan
from servegate.domain.records import Settings
from tests.unit.samples import engine_facts, manifest, plan


def a_check(name: str = "prompts", required: bool = True, measures: bool = True) -> AnyCheck:
    nothing = cast(Any, None)
    shape, measure = (Measurement, cast(Any, print)) if measures else (None, None)
    return Check(name, Settings, shape, measure, nothing, nothing, nothing, required=required)


def measured_evidence(**partial: Reason) -> Evidence[Measurement]:
    sides = {
        arm: ArmEvidence(engine_facts(arm), manifest(), Measurement(partial=partial.get(arm)))
        for arm in ("baseline", "candidate")
    }
    return Evidence(sides["baseline"], sides["candidate"])


def result(*found: Finding, check: AnyCheck | None = None, n: int = 9, **partial: Reason) -> Judged:
    return judged(check or a_check(), measured_evidence(**partial), Comparison(candidate={}, noise=None, n=n), found)


def verdict(
    *results: Judged,
    the_plan: Plan | None = None,
    manifests: tuple[Manifest, Manifest] | None = None,
    **candidate_facts: object,
) -> Verdict:
    nothing = NotMeasured(reason=Reason(code="no-check", message=""))
    first, second = manifests or (manifest(), manifest())
    arms: dict[str, ArmEvidence[Measurement]] = {
        "baseline": ArmEvidence(engine_facts("baseline"), first, nothing),
        "candidate": ArmEvidence(engine_facts("candidate", **candidate_facts), second, nothing),
    }
    return decide(the_plan or plan(), arms, {item.check.name: item for item in results})


def found(severity: Severity, check: str = "prompts", code: str = "x") -> Finding:
    return finding(check, code, severity, f"{check} {severity.value}")


def test_measured_in_full_with_nothing_noticed_is_pass() -> None:
    assert verdict(result()).outcome is Outcome.PASS


@pytest.mark.parametrize("severity", [item for item in Severity if item is not Severity.INFO])
def test_every_blocking_severity_is_its_outcome(severity: Severity) -> None:
    assert verdict(result(found(severity))).outcome.value == severity.value


def test_information_does_not_block() -> None:
    assert verdict(result(found(Severity.INFO))).outcome is Outcome.PASS


def test_precedence() -> None:
    order = [Severity.NOT_COMPARABLE, Severity.FAIL, Severity.ERROR, Severity.REVIEW]
    for position, severity in enumerate(order):
        outcome = verdict(result(*(found(item) for item in order[position:]))).outcome
        assert outcome.value == severity.value


@pytest.mark.parametrize(
    ("policy", "outcome"), [("quick", Outcome.PASS), ("standard", Outcome.REVIEW), ("release", Outcome.REVIEW)]
)
def test_without_accuracy_only_the_quick_policy_passes(policy: str, outcome: Outcome) -> None:
    assert verdict(result(), the_plan=plan(policy=policy)).outcome is outcome
    assert verdict(result(check=a_check("accuracy")), the_plan=plan(policy=policy)).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("policy", "outcome"), [("quick", Outcome.PASS), ("standard", Outcome.REVIEW), ("release", Outcome.REVIEW)]
)
def test_another_kv_cache_without_a_long_prompt_passes_only_under_the_quick_policy(policy: str, outcome: Outcome) -> None:
    knob = Knob(name="kv-cache-dtype", baseline=None, candidate="fp8", source="serving config")
    changed = plan(policy=policy, knobs=(knob,))
    accuracy = result(check=a_check("accuracy"))
    judged_so = verdict(accuracy, the_plan=changed)
    assert judged_so.outcome is outcome
    assert "arms/no-long-prompts" in {item.code for item in judged_so.findings}
    assert verdict(accuracy, result(check=a_check("retrieval")), the_plan=changed).outcome is Outcome.PASS


def test_no_required_check_is_review() -> None:
    assert verdict().outcome is Outcome.REVIEW
    assert verdict(result(check=a_check("throughput", required=False))).outcome is Outcome.REVIEW


def test_a_required_check_without_a_measurement_is_no_evidence_about_answers() -> None:
    facts_only = a_check("engagement", measures=False)
    assert verdict(result(check=facts_only)).outcome is Outcome.REVIEW
    assert verdict(result(check=facts_only), result()).outcome is Outcome.PASS
    assert verdict(result(check=facts_only, n=0), result()).outcome is Outcome.REVIEW


def test_nothing_compared_is_review() -> None:
    assert verdict(result(n=0)).outcome is Outcome.REVIEW


def test_a_partial_measurement_is_review_and_says_which_arm() -> None:
    outcome = verdict(result(candidate=Reason(code="engine_failed", message="died in round 2")))
    assert outcome.outcome is Outcome.REVIEW
    assert "candidate was measured in part: died in round 2" in outcome.headline


@pytest.mark.parametrize(
    ("code", "outcome"), [("absent", Outcome.REVIEW), ("engine_failed", Outcome.ERROR), ("measurement_failed", Outcome.ERROR)]
)
def test_a_required_check_that_was_not_measured_blocks(code: str, outcome: Outcome) -> None:
    missing = judged(a_check(), measured_evidence(), NotMeasured(reason=Reason(code=code, message="why")), ())
    assert verdict(missing).outcome is outcome
    assert "why" in missing_section(missing).summary


def test_speed_that_was_not_measured_does_not_block_but_a_clear_loss_fails() -> None:
    speed = a_check("throughput", required=False)
    missing = judged(speed, measured_evidence(), NotMeasured(reason=Reason(code="absent", message="why")), ())
    assert verdict(result(), missing).outcome is Outcome.PASS
    assert verdict(result(), missing).checks["throughput"].outcome is Outcome.REVIEW
    assert verdict(result(), result(check=speed, n=0)).checks["throughput"].outcome is Outcome.REVIEW
    slower = result(found(Severity.FAIL, "throughput"), check=speed)
    failed = verdict(result(), slower)
    assert failed.outcome is Outcome.FAIL
    assert failed.checks["throughput"].counts
    assert not verdict(result(), missing).checks["throughput"].counts


def test_speed_that_is_not_comparable_only_informs() -> None:
    speed = result(found(Severity.NOT_COMPARABLE, "throughput"), check=a_check("throughput", required=False))
    assert verdict(result(), speed).outcome is Outcome.PASS


def test_a_faster_candidate_never_outweighs_a_quality_failure() -> None:
    faster = result(found(Severity.INFO, "throughput"), check=a_check("throughput", required=False))
    assert verdict(result(found(Severity.FAIL)), faster).outcome is Outcome.FAIL


def test_equal_arms_are_review() -> None:
    assert verdict(result(), the_plan=plan(knobs=())).outcome is Outcome.REVIEW


def gpu(name: str = "H200", capability: str = "9.0") -> Gpu:
    return Gpu(name=name, uuid="GPU-1", compute_capability=capability, memory_gib=141, mig=False)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (manifest(gpus=(gpu(),)), manifest(gpus=(gpu("RTX 5090", "12.0"),))),
        (manifest(gpus=(gpu(),), driver="580"), manifest(gpus=(gpu(),), driver="590")),
        (manifest(cpu="a"), manifest(cpu="b")),
        (manifest(gpus=(gpu(),)), manifest()),
        (manifest(gpus=(gpu(),)), manifest(gpus=(gpu().model_copy(update={"mig": True}),))),
    ],
)
def test_different_hardware_or_driver_is_not_comparable(first: Manifest, second: Manifest) -> None:
    made = verdict(result(found(Severity.FAIL)), manifests=(first, second))
    assert made.outcome is Outcome.NOT_COMPARABLE


def test_two_cards_of_one_kind_are_told_and_block_nothing() -> None:
    other = gpu().model_copy(update={"uuid": "GPU-2"})
    made = verdict(result(), manifests=(manifest(gpus=(gpu(),)), manifest(gpus=(other,))))
    assert made.outcome is Outcome.PASS
    assert [(item.code, item.severity) for item in made.findings] == [("arms/other-card", Severity.INFO)]
    assert "GPU-1 and GPU-2" in made.findings[0].message


def test_an_engine_that_did_not_start_is_an_error_and_its_exception_is_the_headline() -> None:
    diagnosis = Diagnosis(code="x", exception="ValueError: bad scale", line=3)
    missing = judged(a_check(), measured_evidence(), NotMeasured(reason=Reason(code="engine_failed", message="m")), ())
    made = verdict(missing, status=EngineStatus.FAILED, diagnosis=diagnosis, version=None, phases_s={})
    assert made.outcome is Outcome.ERROR
    assert made.headline.startswith("the candidate engine did not start: ValueError: bad scale")


def test_quantization_that_the_log_does_not_show_is_review() -> None:
    made = verdict(result(), quantization=Quantization(requested="fp8", resolved=None))
    assert made.outcome is Outcome.REVIEW
    assert "'fp8'" in made.headline


def test_a_pass_names_what_is_left_to_read() -> None:
    made = verdict(result(finding("prompts", "unread", Severity.INFO, "3 answers differ and were not read")))
    assert (made.outcome, made.headline) == (
        Outcome.PASS,
        "no damage found under policy quick; 3 answers differ and were not read",
    )


@pytest.mark.parametrize("name", ["engine.executable", "engine.image"])
def test_an_engine_version_that_no_knob_explains_is_not_comparable(name: str) -> None:
    assert verdict(result(), version="0.33.0").outcome is Outcome.NOT_COMPARABLE
    knob = Knob(name=name, baseline="a/vllm", candidate="b/vllm", source="gate config")
    assert verdict(result(), the_plan=plan(knobs=(knob,)), version="0.33.0").outcome is Outcome.PASS


def test_a_load_tool_that_came_with_each_image_is_told_and_is_no_pass() -> None:
    knob = Knob(name="engine.image", baseline="a", candidate="b", source="gate config")
    loaded = verdict(result(), the_plan=plan(knobs=(knob,), checks={"throughput": {}}))
    assert loaded.outcome is Outcome.REVIEW
    assert "arms/load-tool-differs" in {item.code for item in loaded.findings}
    same = verdict(result(), the_plan=plan(checks={"throughput": {}}))
    assert "arms/load-tool-differs" not in {item.code for item in same.findings}


def test_an_engine_of_no_known_version_is_never_a_pass() -> None:
    judged_so = verdict(result(), version=None, version_reason="GET /version: 404")
    assert judged_so.outcome is Outcome.REVIEW
    assert [item.code for item in judged_so.findings] == ["arms/candidate-version-unknown"]
    assert "404" in judged_so.headline


def test_an_arm_of_which_nothing_is_recorded_is_never_a_pass() -> None:
    nothing = NotMeasured(reason=Reason(code="no-check", message=""))
    for unknown in (ArmEvidence(None, None, nothing), ArmEvidence(engine_facts(), None, nothing)):
        known = ArmEvidence(engine_facts(), manifest(), nothing)
        arms: dict[str, ArmEvidence[Measurement]] = {"baseline": known, "candidate": unknown}
        assert decide(plan(), arms, {"prompts": result()}).outcome is Outcome.REVIEW


def test_the_scope_names_card_driver_engine_and_kernels() -> None:
    both = manifest(gpus=(gpu(),), driver="580.1")
    scope = verdict(result(), manifests=(both, both), version="0.33.0").scope
    assert (scope.gpu, scope.driver, scope.engine) == ("H200", "580.1", "vLLM 0.32.0 -> 0.33.0")
    two = manifest(gpus=(gpu(), gpu()), driver="580.1")
    assert verdict(result(), manifests=(two, two)).scope.gpu == "2 x H200"


@pytest.mark.parametrize("acted", [("baseline",), ("candidate",), ("baseline", "candidate")])
def test_a_rehearsal_says_in_its_first_line_that_no_model_was_served(acted: tuple[str, ...]) -> None:
    nothing = NotMeasured(reason=Reason(code="no-check", message=""))
    said = (LogWarning(code="rehearsal", count=1, line=2),)
    arms: dict[str, ArmEvidence[Measurement]] = {
        name: ArmEvidence(engine_facts(name, warnings=said if name in acted else ()), manifest(), nothing)
        for name in ("baseline", "candidate")
    }
    judged_ = decide(plan(), arms, {"prompts": result()})
    assert judged_.outcome is Outcome.PASS
    assert "no model was served" in judged_.headline
    assert judged_.scope.engine == "servegate's fake engine (no model) in the place of vLLM 0.32.0"


FAILED = Diagnosis(code="no_kernel", exception="RuntimeError: no kernel", line=3)
WAY = FallbackUsed(name="other", environment={"VLLM_USE_DEEP_GEMM": "0"}, instead_of=FAILED, failed_log="server.failed-1.log")


def with_fallbacks(baseline: FallbackUsed | None, candidate: FallbackUsed | None) -> Verdict:
    nothing = NotMeasured(reason=Reason(code="no-check", message=""))
    sides = {"baseline": baseline, "candidate": candidate}
    arms: dict[str, ArmEvidence[Measurement]] = {
        name: ArmEvidence(engine_facts(name, fallback=used), manifest(), nothing) for name, used in sides.items()
    }
    item = result()
    return decide(plan(), arms, {item.check.name: item})


def test_a_fallback_of_one_arm_is_review_and_named_in_the_scope() -> None:
    judged_ = with_fallbacks(None, WAY)
    assert judged_.outcome is Outcome.REVIEW
    assert "does not start as its serving config says (RuntimeError: no kernel)" in judged_.headline
    assert "VLLM_USE_DEEP_GEMM=0" in judged_.headline
    assert judged_.scope.engine == "vLLM 0.32.0; candidate with fallback other (VLLM_USE_DEEP_GEMM=0)"


def test_the_same_fallback_of_both_arms_is_told_and_in_the_scope() -> None:
    judged_ = with_fallbacks(WAY, WAY)
    assert judged_.outcome is Outcome.PASS
    assert {item.code for item in judged_.findings} >= {"arms/baseline-fallback", "arms/candidate-fallback"}
    assert "baseline with fallback other" in judged_.scope.engine
    assert with_fallbacks(None, None).scope.engine == "vLLM 0.32.0"
    other = WAY.model_copy(update={"environment": {"VLLM_USE_DEEP_GEMM": "1"}})
    assert with_fallbacks(WAY, other).outcome is Outcome.REVIEW


def test_a_fault_of_the_runner_is_never_the_candidates() -> None:
    fault = Diagnosis(code="runner_fault", exception="the GPU of this runner failed: Xid 79", line=None, blame="runner")
    broken = verdict(result(), status=EngineStatus.FAILED, diagnosis=fault)
    assert broken.outcome is Outcome.ERROR
    assert "a fault of the runner, not of the candidate" in broken.headline
    assert [item.code for item in broken.findings if item.check == "arms"] == ["arms/runner-fault"]


@pytest.mark.parametrize(
    ("resolved", "own", "suggested"),
    [
        ("fp8_per_tensor", None, True),
        ("fp8_per_channel", None, False),
        (None, {"config_groups": {"g": {"weights": {"strategy": "tensor"}}}}, True),
        (None, {"config_groups": {"g": {"weights": {"strategy": "channel"}}}}, False),
        (None, {"config_groups": {"g": None}}, False),
    ],
)
def test_a_failure_with_one_scale_a_tensor_suggests_a_finer_one(resolved: str | None, own: Any, suggested: bool) -> None:
    facts = {"quantization": Quantization(resolved=resolved), "checkpoint_quantization": own}
    failed = verdict(result(found(Severity.FAIL)), **facts)
    assert ("arms/try-per-channel" in {item.code for item in failed.findings}) is suggested
    assert failed.outcome is Outcome.FAIL
    passed = verdict(result(), **facts)
    assert "arms/try-per-channel" not in {item.code for item in passed.findings}


@pytest.mark.parametrize("name", ["chat-template", "generation-config", "logits-processors", "tokenizer", "tool-call-parser"])
def test_a_change_that_no_check_exercises_is_never_a_pass(name: str) -> None:
    """Prompts are sent as the baseline's token ids with every parameter, so such a change was not measured at all."""
    knob = Knob(name=name, baseline=None, candidate="x", source="serving config")
    said = verdict(result(), the_plan=plan(knobs=(knob,)))
    assert said.outcome is Outcome.REVIEW
    assert f"{name} changed along, which no check exercises" in said.headline


def test_rules_that_the_pull_request_changes_are_never_a_pass() -> None:
    origin = Origin(base="a" * 40, merge_base="b" * 40, head="c" * 40, baseline_path="s", candidate_path="s")
    assert verdict(result(), the_plan=plan(origin=origin)).outcome is Outcome.PASS
    said = verdict(result(), the_plan=plan(origin=origin.model_copy(update={"changed": ("servegate.yaml",)})))
    assert (said.outcome, said.policy.changed_in_head) == (Outcome.REVIEW, True)
    assert verdict(result(), the_plan=plan(origin=origin)).policy.changed_in_head is False
    assert verdict(result()).policy.changed_in_head is None


def test_another_template_is_told_once_and_weighs_as_much() -> None:
    files = {"source": "m", "chat_template_sha256": "c"}
    arms = tuple(manifest(model=ServedFiles(**{**files, "chat_template_sha256": template})) for template in ("c", "d"))
    changed = plan(knobs=(Knob(name="chat-template", baseline=None, candidate="b.jinja", source="serving/new.yaml"),))
    by_files = verdict(result(), the_plan=changed, manifests=arms)
    by_answers = verdict(
        result(finding("prompts", "template-differs", Severity.REVIEW, "3 of 24 prompts")), the_plan=changed, manifests=arms
    )
    told = {"arms/chat-template-differs", "prompts/template-differs", "arms/unseen-knob"}
    assert [item.code for item in by_files.findings if item.code in told] == ["arms/chat-template-differs"]
    assert [item.code for item in by_answers.findings if item.code in told] == ["prompts/template-differs"]
    assert by_files.outcome is by_answers.outcome is Outcome.REVIEW


def test_a_finding_that_another_one_says_better_still_weighs() -> None:
    """The better one may belong to a check that only informs."""
    arms = tuple(manifest(model=ServedFiles(source="m", chat_template_sha256=template)) for template in ("c", "d"))
    informs = result(finding("prompts", "template-differs", Severity.REVIEW, "3 of 24 prompts"), check=a_check(required=False))
    assert verdict(informs, result(check=a_check("accuracy")), manifests=arms).outcome is Outcome.REVIEW


def test_a_pass_that_tolerates_damage_does_not_say_that_none_was_found() -> None:
    told = finding("prompts", "contract-broken-tolerated", Severity.INFO, "2 contracts broken, and tolerated")
    made = verdict(result(told))
    assert made.outcome is Outcome.PASS
    assert made.headline == "no damage beyond what the gate tolerates under policy quick; 2 contracts broken, and tolerated"
