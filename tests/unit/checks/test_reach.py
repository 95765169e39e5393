"""What `plan` calls out of reach is what faultless evidence ends in, and nothing else: both sides of every border."""

from __future__ import annotations

from typing import Any

import pytest

from servegate.checks import discovered
from servegate.checks.accuracy.record import AccuracyInputs, TaskInput
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.contract import AnyCheck, ArmEvidence, Evidence, Inputs
from servegate.checks.logprobs.settings import LogprobsSettings
from servegate.checks.prompts.settings import PromptsSettings
from servegate.checks.reaching import out_of_reach
from servegate.checks.retrieval.settings import RetrievalSettings
from servegate.checks.settling import settled
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.checks.verdict import judged
from servegate.domain.judgement import Comparison, Severity
from servegate.domain.plan import ModelSource, Plan
from servegate.domain.records import Json, Settings
from servegate.stats.intervals import questions_needed
from tests.unit.checks import (
    accuracy_samples,
    logprobs_samples,
    prompts_evidence,
    retrieval_samples,
    throughput_samples,
)
from tests.unit.samples import arm, engine_facts, manifest, plan

CHECKS = discovered()


def served(tokens: int, config: Json = logprobs_samples.BIG) -> Plan:
    arms = {name: arm(name, **{"max-model-len": tokens}) for name in ("baseline", "candidate")}
    model = ModelSource(source="m", revision=None, revision_reason="local", config=config, config_reason="unknown")
    return plan(policy="standard", arms=arms, model=model)


def held_back(check: AnyCheck, evidence: Evidence[Any], settings: Settings) -> set[str]:
    """Codes of what withholds PASS from two equal arms."""
    comparison = check.compare(evidence, settings)
    assert isinstance(comparison, Comparison)
    found = check.judge(comparison, settings)
    assert not [item.code for item in found if item.severity not in (Severity.INFO, Severity.REVIEW)]
    return {item.code.removeprefix(f"{check.name}/") for item in found if item.severity is Severity.REVIEW}


def foretold(check: AnyCheck, settings: Settings, inputs: Inputs | None, of: Plan) -> set[str]:
    best = check.best(settings, inputs, of)
    assert all(short.message for short in best.short)
    return {short.code for short in best.short}


@pytest.mark.parametrize(
    ("count", "limits", "codes"),
    [
        (3, {}, {"few-prompts", "increase-not-ruled-out"}),
        (19, {"unseen_increase_points": 100}, {"few-prompts"}),
        (20, {"unseen_increase_points": 100}, set()),
        (298, {}, {"increase-not-ruled-out"}),
        (299, {}, set()),
        (18, {"unseen_increase_points": 15, "fewest_prompts": 1}, {"increase-not-ruled-out"}),
        (19, {"unseen_increase_points": 15, "fewest_prompts": 1}, set()),
    ],
)
def test_prompts(count: int, limits: dict[str, Any], codes: set[str]) -> None:
    settings = PromptsSettings.model_validate({"limits": limits})
    evidence = prompts_evidence.evidence({}, {}, filler=count)
    assert foretold(CHECKS["prompts"], settings, evidence.inputs, served(2048)) == codes
    assert held_back(CHECKS["prompts"], evidence, settings) == codes


def test_copies_of_a_prompt_are_one() -> None:
    inputs = prompts_evidence.evidence({}, {}, filler=20).inputs
    assert inputs is not None
    copied = inputs.model_copy(update={"prompts": (*inputs.prompts[:10], *inputs.prompts[:10])})  # type: ignore[attr-defined]
    settings = PromptsSettings.model_validate({"limits": {"unseen_increase_points": 100}})
    assert foretold(CHECKS["prompts"], settings, copied, served(2048)) == {"few-prompts"}


NEEDED = questions_needed(0.006, 0.0, 0.05) or 0
"""Questions that rule out a drop of 0.6 points where none was seen."""


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize(
    ("count", "limits", "codes"),
    [
        (20, {}, {"smoke-test", "drop-open"}),
        (499, {}, {"smoke-test"}),
        (500, {}, set()),
        (NEEDED - 1, {"pass_drop_points": 0.6, "smallest_n": 1}, {"drop-open"}),
        (NEEDED, {"pass_drop_points": 0.6, "smallest_n": 1}, set()),
    ],
)
def test_accuracy(count: int, limits: dict[str, Any], codes: set[str], local: bool) -> None:
    task = {"name": "gsm8k", "file": "t.json"} if local else {"name": "gsm8k", "questions": count}
    settings = AccuracySettings.model_validate({"tasks": (task,), "limits": limits})
    rows = tuple({"question": f"{number}?", "answer": "#### 1"} for number in range(count))
    inputs = AccuracyInputs(tasks=(TaskInput(task="gsm8k", fewshot=(), questions=rows),)) if local else AccuracyInputs()
    scores = accuracy_samples.pattern(count)
    measured = accuracy_samples.arm(scores, scores)
    assert foretold(CHECKS["accuracy"], settings, inputs, served(2048)) == codes
    assert held_back(CHECKS["accuracy"], accuracy_samples.evidence(measured, measured), settings) == codes


def test_a_task_that_guessing_nearly_solves_is_out_of_reach_of_any_baseline() -> None:
    scores = accuracy_samples.pattern(1000, 0.99)
    measured = accuracy_samples.arm(scores, scores)
    for chance, codes in ((0.9, {"weak-baseline"}), (0.5, set())):
        settings = AccuracySettings.model_validate({"tasks": ({"name": "gsm8k", "questions": 1000, "chance": chance},)})
        assert foretold(CHECKS["accuracy"], settings, AccuracyInputs(), served(2048)) == codes
        assert held_back(CHECKS["accuracy"], accuracy_samples.evidence(measured, measured), settings) == codes


def test_a_task_of_unknown_length_is_not_called_too_short() -> None:
    settings = AccuracySettings.model_validate({"tasks": ({"name": "gsm8k"},)})
    best = CHECKS["accuracy"].best(settings, AccuracyInputs(), served(2048))
    assert (best.short, best.leaves_points) == ((), 0.0)


@pytest.mark.parametrize(
    ("windows", "limits", "config", "codes"),
    [
        (30, {"smallest_tokens": 9000}, logprobs_samples.BIG, set()),
        (30, {"smallest_tokens": 9001}, logprobs_samples.BIG, {"smoke-test"}),
        (29, {"smallest_tokens": 100}, logprobs_samples.BIG, {"smoke-test"}),
        (30, {"smallest_tokens": 9000}, logprobs_samples.SMALL, {"small-model"}),
    ],
)
def test_logprobs(windows: int, limits: dict[str, Any], config: Json, codes: set[str]) -> None:
    settings = LogprobsSettings.model_validate({"corpus": {"windows": windows, "window_tokens": 301}, "limits": limits})
    measured = logprobs_samples.many(windows=windows, tokens=300)
    evidence = logprobs_samples.evidence(measured, measured, model=config)
    assert foretold(CHECKS["logprobs"], settings, None, served(2048, config)) == codes
    assert held_back(CHECKS["logprobs"], evidence, settings) == codes


def test_a_corpus_of_few_bytes_has_fewer_tokens() -> None:
    inputs = logprobs_samples.inputs().model_copy(update={"documents": ("word " * 100,)})
    (short,) = CHECKS["logprobs"].best(LogprobsSettings(), inputs, served(2048)).short
    assert "at most 500 tokens" in short.message


@pytest.mark.parametrize(
    ("count", "depths", "codes"),
    [(9, (25, 50, 90), {"few-prompts"}), (10, (25, 50, 90), set()), (10, (25, 50), {"context-not-filled"})],
)
def test_retrieval(count: int, depths: tuple[int, ...], codes: set[str]) -> None:
    settings = RetrievalSettings(prompts_per_depth=count, depths_percent=depths, max_tokens=8, context_tokens=100)
    asked = retrieval_samples.inputs(count)
    kept = tuple(prompt for prompt in asked.prompts if prompt.depth_percent in depths)
    # A prompt has at most its share of the context less the answer.
    kept = tuple(one.model_copy(update={"token_ids": one.token_ids[: one.depth_percent - 8]}) for one in kept)
    asked = asked.model_copy(update={"prompts": kept})
    said = retrieval_samples.measurement(count=count)
    ids = {prompt.id for prompt in kept}
    said = said.model_copy(update={"answers": tuple(one for one in said.answers if one.prompt_id in ids)})
    sides = [ArmEvidence(engine_facts(name, max_model_len=100), manifest(), said) for name in ("baseline", "candidate")]
    of = served(100)
    assert foretold(CHECKS["retrieval"], settings, None, of) == codes
    assert held_back(CHECKS["retrieval"], Evidence(sides[0], sides[1], asked, of), settings) == codes


def test_most_prompt_tokens_leave_fewer_prompts_than_were_asked_for() -> None:
    settings = RetrievalSettings(max_prompt_tokens=9 * (25 + 50 + 90 - 3 * 8), max_tokens=8)
    assert foretold(CHECKS["retrieval"], settings, None, served(100)) == {"few-prompts"}
    more = settings.model_copy(update={"max_prompt_tokens": 10 * (25 + 50 + 90 - 3 * 8)})
    assert foretold(CHECKS["retrieval"], more, None, served(100)) == set()


@pytest.mark.parametrize(("windows", "device", "codes"), [(1, "cuda", ["no-interval"]), (2, "cuda", []), (2, "cpu", ["cpu"])])
def test_speed_withholds_no_pass_and_says_when_it_will_not_be_judged(windows: int, device: str, codes: list[str]) -> None:
    settings = ThroughputSettings(windows=windows)
    arms = {
        name: arm(name).model_copy(update={"environment": {"VLLM_CPU_KVCACHE_SPACE": "2"} if device == "cpu" else {}})
        for name in ("baseline", "candidate")
    }
    best = CHECKS["throughput"].best(settings, None, plan(arms=arms))
    assert best.short == ()
    assert len(best.remarks) == len(codes)
    measured = throughput_samples.arm({32: [100.0, 101.0][:windows]})
    facts = (engine_facts("baseline", device=device), engine_facts("candidate", device=device))
    comparison = CHECKS["throughput"].compare(throughput_samples.evidence(measured, measured, facts), settings)
    assert isinstance(comparison, Comparison)
    found = CHECKS["throughput"].judge(comparison, settings)
    assert [item.code.rpartition("not-judged-")[2] for item in found if "not-judged" in item.code] == codes


def test_every_check_that_a_pass_needs_says_what_it_would_hold_back() -> None:
    """A new check that forgets it would be promised a PASS that it never gives."""
    silent = [
        name for name, check in CHECKS.items() if check.required and check.measure and "lambda" in check.best.__qualname__
    ]
    assert silent == []


@pytest.mark.parametrize(("questions", "reached"), [(298, False), (299, True)])
def test_answers_of_one_check_bring_what_few_prompts_leave_open_into_reach(questions: int, reached: bool) -> None:
    evidence = prompts_evidence.evidence({}, {}, filler=24)
    limits = {"smallest_n": 1}
    accuracy = AccuracySettings.model_validate({"tasks": ({"name": "gsm8k", "questions": questions},), "limits": limits})
    settings: dict[str, Settings] = {"prompts": PromptsSettings(), "accuracy": accuracy}
    assert evidence.inputs is not None
    reasons, _ = out_of_reach(served(2048), settings, {"prompts": evidence.inputs, "accuracy": AccuracyInputs()})
    assert bool(reasons) is not reached

    scores = accuracy_samples.pattern(questions)
    measured = accuracy_samples.arm(scores, scores, texts=", " + "with a reason that goes on for a while, step by step" * 2)
    results = {}
    for name, each in (("prompts", evidence), ("accuracy", accuracy_samples.evidence(measured, measured))):
        check = CHECKS[name]
        comparison = check.compare(each, settings[name])
        assert isinstance(comparison, Comparison)
        results[name] = judged(check, each, comparison, check.judge(comparison, settings[name]))
    open_ = [item for result in settled(results).values() for item in result.findings if item.severity is Severity.REVIEW]
    assert bool(open_) is not reached


def test_what_the_plan_itself_says_is_among_the_reasons() -> None:
    inputs = prompts_evidence.evidence({}, {}, filler=299).inputs
    assert inputs is not None
    checks: dict[str, Settings] = {"prompts": PromptsSettings()}
    reasons, _ = out_of_reach(served(2048), checks, {"prompts": inputs})
    assert [reason for reason in reasons if "accuracy was not checked, and policy standard" in reason]
    assert out_of_reach(plan(policy="quick"), checks, {"prompts": inputs}) == ((), ())
    reasons, _ = out_of_reach(plan(policy="quick", knobs=()), checks, {"prompts": inputs})
    assert reasons == ("the two arms are equal: there is no change to judge",)


def test_a_step_of_speed_is_one_load_and_its_tokens_are_counted() -> None:
    settings = ThroughputSettings(windows=2, concurrency=(8, 32), single=None)
    amounts = [CHECKS["throughput"].amount(settings, None, step) for step in range(settings.steps)]
    assert [(each.requests, each.read, each.written) for each in amounts] == [
        (64, 64 * 512, 64 * 128),
        (256, 256 * 512, 256 * 128),
    ]
    in_turn = CHECKS["throughput"].amount(settings.model_copy(update={"interleave": True}), None, 1)
    assert (in_turn.requests, in_turn.written) == (160, 160 * 128)


def test_what_is_asked_is_what_the_progress_display_waits_for() -> None:
    inputs = prompts_evidence.evidence({}, {}, {"filler-000": {"number": 1}}, filler=24).inputs
    check, settings = CHECKS["prompts"], PromptsSettings(samples=3)
    steps = check.steps(settings, inputs, 2)
    parts = [check.part(settings, inputs, step, 2) for step in range(steps)]  # type: ignore[arg-type]
    amounts = [check.amount(settings, part, step) for step, part in enumerate(parts)]
    assert [each.requests for each in amounts] == [check.items(settings, part) for part in parts] == [24, 24, 1, 1, 3, 24]
    assert [each.written for each in amounts] == [768, 768, 32, 32, 96, 768]
    task = {"name": "gsm8k", "questions": 500, "max_tokens": 100}
    asked = CHECKS["accuracy"].amount(AccuracySettings.model_validate({"tasks": (task,)}), AccuracyInputs(), 0)
    assert (asked.requests, asked.written) == (500, 50_000)
    assert CHECKS["accuracy"].amount(AccuracySettings(), AccuracyInputs(), 0).requests is None
