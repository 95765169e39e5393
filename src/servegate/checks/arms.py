"""What the arms themselves say against a verdict, whatever the checks found in their answers.

Were they equal, comparable, served as their configs say, by one engine version on one kind of card? Was everything asked
that a PASS rests on? A gate judges a *change*, so each of these findings is about the pair of arms or about the plan, and none
of them about a measurement.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from servegate.checks import discovered
from servegate.checks.contract import AnyCheck, ArmEvidence, finding
from servegate.checks.engagement.reading import scale_strategies
from servegate.checks.laxness import laxer
from servegate.checks.lengths import gave_way
from servegate.checks.served_models import ARMS, model_findings
from servegate.domain.arms import EXECUTABLE_KNOB, IMAGE_KNOB, Role
from servegate.domain.calibration import remark, valid_for
from servegate.domain.evidence import REHEARSAL, EngineFacts, EngineStatus, Measurement
from servegate.domain.judgement import Finding, Outcome, Severity
from servegate.domain.manifest import Manifest
from servegate.domain.plan import Plan

ENGAGEMENT = "engagement"
"""The check that reads what was served; what it says is not said twice."""
UNSEEN_KNOBS = frozenset(
    {
        "chat-template", "chat-template-content-format", "default-chat-template-kwargs", "enable-auto-tool-choice",
        "generation-config", "logits-processors", "override-generation-config", "reasoning-parser",
        "reasoning-parser-plugin", "response-role", "tokenizer", "tokenizer-mode", "tokenizer-revision", "tool-call-parser",
        "tool-parser-plugin",
    }
)  # fmt: skip
"""What decides how a conversation becomes tokens, is sampled, or is read back. The checks send the baseline's token ids with
every sampling parameter, so such a change has no part in what they measured."""
TOLD_BY_FILES = {
    "chat-template": ("chat-template-differs",),
    "generation-config": ("generation-config-differs", "stop-ids-differ"),
    "override-generation-config": ("generation-config-differs",),
    "tokenizer": ("tokenizer-differs", "vocabulary-differs"),
    "tokenizer-revision": ("tokenizer-differs", "vocabulary-differs"),
}
"""Knob -> findings of `served_models` that say what came of it; they block as much as `unseen-knob` does."""

NAMED = 4
"""So many limits are named in one sentence."""
MOST_OF_A_FALLBACK = 300
"""Characters of a fallback in a message; its options may hold whole mappings."""
Arms = Mapping[str, ArmEvidence[Measurement]]


def arm_findings(plan: Plan, arms: Arms, checks: Mapping[str, AnyCheck], measured_on: date | None) -> tuple[Finding, ...]:
    """Return the findings; `checks` are those that were on, by name, and `measured_on` dates the evidence."""
    found = _plan_findings(plan, checks)
    if any(warning.code == REHEARSAL for side in arms.values() if side.engine is not None for warning in side.engine.warnings):
        message = "a rehearsal by servegate's fake engine: no model was served, and this says nothing about one"
        found.append(finding(ARMS, REHEARSAL, Severity.INFO, message))
    for name, side in arms.items():
        found += _engine_findings(name, side.engine, read=ENGAGEMENT in checks)
        if side.engine is None or (side.manifest is None and side.engine.status is not EngineStatus.FAILED):
            message = f"nothing is recorded of what served the {name}: no PASS can be scoped"
            found.append(finding(ARMS, f"{name}-unknown", Severity.REVIEW, message))
    found += _version_findings(plan, arms)
    found += _fallback_findings(arms)
    baseline, candidate = arms[Role.BASELINE].manifest, arms[Role.CANDIDATE].manifest
    if baseline is not None and candidate is not None:
        found += _environment_findings(baseline, candidate)
        revisions = {"revision", "tokenizer-revision", "code-revision", "hf-config-path"}
        found += model_findings(baseline, candidate, same_revision=revisions.isdisjoint(knob.name for knob in plan.knobs))
    found += _unseen_knobs(plan, {item.code for item in found})
    return (*found, *_calibration(plan, arms, measured_on))


def foreseen(plan: Plan, checks: Mapping[str, AnyCheck]) -> tuple[Finding, ...]:
    """Return what a verdict will say whatever is measured. A knob that no check exercises is told in one way or another."""
    return (*_plan_findings(plan, checks), *_unseen_knobs(plan, set()))


def _plan_findings(plan: Plan, checks: Mapping[str, AnyCheck]) -> list[Finding]:
    found = []
    if not plan.knobs:
        found.append(finding(ARMS, "equal", Severity.REVIEW, "the two arms are equal: there is no change to judge"))
    if plan.origin is not None and plan.origin.changed:
        files = ", ".join(plan.origin.changed)
        by = "the base branch's" if plan.origin.judged_by == "base" else "its own, as was asked for,"
        message = f"the pull request changes the rules by which it is judged ({files}); {by} were used here"
        found.append(finding(ARMS, "policy-changed", Severity.REVIEW, message))
    tolerated = laxer(plan, checks)
    if tolerated:
        more = f" and {len(tolerated) - NAMED} more" if len(tolerated) > NAMED else ""
        message = f"limits laxer than policy {plan.policy}'s: {', '.join(tolerated[:NAMED])}{more}"
        found.append(finding(ARMS, "laxer-than-policy", Severity.INFO, message))
    shorter = gave_way(plan, checks)
    if shorter:
        message = (
            f"shorter than usual, since the shorter context of both arms has no room for more: {', '.join(shorter)} tokens"
        )
        found.append(finding(ARMS, "lengths-shortened", Severity.INFO, message))
    if not any(check.required and check.measure is not None for check in checks.values()):
        found.append(finding(ARMS, "no-required-check", Severity.REVIEW, "no check of answers or accuracy was on"))
    for name, check in discovered().items():
        if name not in checks:
            found += check.absent(plan)
    return [*found, *_image_findings(plan)]


def _unseen_knobs(plan: Plan, codes: set[str]) -> list[Finding]:
    """Name the knobs that no check exercises; one whose effect another finding has already told is not told again."""
    unseen = sorted(
        knob.name
        for knob in plan.knobs
        if knob.name in UNSEEN_KNOBS and codes.isdisjoint(f"{ARMS}/{told}" for told in TOLD_BY_FILES.get(knob.name, ()))
    )
    if not unseen:
        return []
    message = f"{', '.join(unseen)} changed along, which no check exercises: prompts are sent as the baseline's token ids"
    return [finding(ARMS, "unseen-knob", Severity.REVIEW, message)]


def _engine_findings(arm: str, facts: EngineFacts | None, *, read: bool) -> list[Finding]:
    if facts is None:
        return []
    if facts.status is EngineStatus.FAILED:
        why = facts.diagnosis.exception if facts.diagnosis else "no exception was logged"
        when = "stopped while it was measured" if facts.version is not None and facts.phases_s.get("ready") else "did not start"
        if facts.diagnosis is not None and facts.diagnosis.blame == "runner":
            message = f"a fault of the runner, not of the {arm}: its engine {when}: {why}"
            return [finding(ARMS, "runner-fault", Severity.ERROR, message)]
        return [finding(ARMS, f"{arm}-engine-failed", Severity.ERROR, f"the {arm} engine {when}: {why}")]
    found = []
    if facts.version is None:
        why = facts.version_reason or "it did not say"
        message = f"which version of the engine served the {arm} is not known ({why}): a PASS would hold for nothing by name"
        found.append(finding(ARMS, f"{arm}-version-unknown", Severity.REVIEW, message))
    if facts.contradictions:
        message = f"the {arm}'s log contradicts itself, so it is no word on what was served: {'; '.join(facts.contradictions)}"
        found.append(finding(ARMS, f"{arm}-log-contradicts", Severity.REVIEW, message))
    asked, got = facts.quantization.requested, facts.quantization.resolved
    if asked is not None and got in (None, "none") and not read:
        # `engagement` says this and much more; without that check it is still no PASS.
        message = f"the {arm} asks for quantization {asked!r}, but its log does not show that it was applied"
        found.append(finding(ARMS, "quantization-not-seen", Severity.REVIEW, message))
    return found


def _version_findings(plan: Plan, arms: Arms) -> list[Finding]:
    """Two versions behind one executable name were measured on two machines, or an upgrade came between."""
    versions = {side.engine.version for side in arms.values() if side.engine is not None and side.engine.version is not None}
    if len(versions) < 2 or any(knob.name in (EXECUTABLE_KNOB, IMAGE_KNOB) for knob in plan.knobs):
        return []
    message = f"the arms ran on different engine versions ({', '.join(sorted(versions))}), and no knob says so"
    return [finding(ARMS, "version-differs", Severity.NOT_COMPARABLE, message)]


def _image_findings(plan: Plan) -> list[Finding]:
    """In its own image each arm is loaded by that image's own `vllm bench serve`, whose changes look like the engine's."""
    if "throughput" not in plan.checks or not any(knob.name == IMAGE_KNOB for knob in plan.knobs):
        return []
    message = (
        "each arm was loaded by the `vllm bench serve` of its own image, so what changed in that tool is measured with the "
        "engine; leave `throughput` out, or serve both engines from one image (`arms.candidate.engine.executable`)"
    )
    return [finding(ARMS, "load-tool-differs", Severity.REVIEW, message)]


def _fallback_findings(arms: Arms) -> list[Finding]:
    """An arm that was served with a declared fallback is not the arm of its serving config, and PASS must not say so."""
    used = {name: side.engine.fallback for name, side in arms.items() if side.engine is not None and side.engine.fallback}
    known = {name: side.engine.fallback for name, side in arms.items() if side.engine is not None}
    changes = {name: None if each is None else (each.environment, each.options) for name, each in known.items()}
    differ = len({repr(each) for each in changes.values()}) > 1
    found = []
    for name, each in used.items():
        message = (
            f"the {name} does not start as its serving config says ({each.instead_of.exception[:200]}); it was served with "
            f"the fallback {each.named()[:MOST_OF_A_FALLBACK]}"
        )
        if differ:
            message += ", and the other arm was not: the arms differ in these knobs too"
        found.append(finding(ARMS, f"{name}-fallback", Severity.REVIEW if differ else Severity.INFO, message))
    return found


def _environment_findings(baseline: Manifest, candidate: Manifest) -> list[Finding]:
    """Answers and speed of different hardware or drivers can not be told from those of the change."""
    cards = [sorted((gpu.name, gpu.compute_capability, gpu.mig) for gpu in side.gpus) for side in (baseline, candidate)]
    pairs = [("GPUs", *map(_named, cards)), ("driver", baseline.driver, candidate.driver)]
    if not any(cards):
        pairs.append(("CPU", baseline.cpu, candidate.cpu))
    found = [
        finding(ARMS, "environment-differs", Severity.NOT_COMPARABLE, f"the arms ran on different {what}: {a} and {b}")
        for what, a, b in pairs
        if a != b
    ]
    ids = [sorted(gpu.uuid for gpu in side.gpus) for side in (baseline, candidate)]
    if not found and ids[0] != ids[1]:
        # Equal cards of two runners: answers can be compared; speed varies from card to card.
        message = "the arms ran on two cards of one kind, so a small difference in speed may be the card's: "
        found.append(finding(ARMS, "other-card", Severity.INFO, message + " and ".join(", ".join(each) for each in ids)))
    return found


def _named(cards: list[tuple[str, str, bool]]) -> str:
    return ", ".join(f"{name} (MIG)" if mig else name for name, _capability, mig in cards) or "none"


def _calibration(plan: Plan, arms: Arms, measured_on: date | None) -> tuple[Finding, ...]:
    """Say how often this gate is wrong about a config against itself; of another setting nothing is claimed."""
    if plan.calibration is None:
        return ()
    baseline = arms[Role.BASELINE]
    text, holds = remark(plan.calibration, valid_for(plan, baseline.engine, baseline.manifest), measured_on, measured=True)
    return (finding(ARMS, "calibration" if holds else "calibration-ignored", Severity.INFO, text),)


def suggestions(outcome: Outcome, arms: Arms) -> list[Finding]:
    """One scale for a whole tensor is the coarsest there is; after a failure the next finer one is worth a try."""
    facts = arms[Role.CANDIDATE].engine
    if outcome is not Outcome.FAIL or facts is None:
        return []
    if "tensor" not in scale_strategies(facts):
        return []
    message = (
        "the candidate's weights have one scale a tensor, the coarsest there is: try one a channel "
        "(`quantization: fp8_per_channel`, or a checkpoint made so) before giving the format up"
    )
    return [finding(ARMS, "try-per-channel", Severity.INFO, message)]
