"""From findings to a verdict: validity first, then quality, then speed.

A check never says PASS. It is PASS when it was measured in full on both arms and noticed nothing that blocks; the
gate is PASS when every required check is, and the arms themselves raise no doubt. Whatever is missing is a finding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from servegate.checks.contract import AnyCheck, ArmEvidence, Evidence, finding
from servegate.checks.retrieval.choosing import causes_of
from servegate.checks.served_models import model_findings
from servegate.domain.arms import Role
from servegate.domain.blocks import Section, Text
from servegate.domain.calibration import remark, valid_for
from servegate.domain.evidence import EngineFacts, EngineStatus, FallbackUsed, Manifest, Measurement, NotMeasured
from servegate.domain.judgement import (
    PRECEDENCE,
    CheckOutcome,
    Comparison,
    Finding,
    Outcome,
    PolicyRef,
    Scope,
    Severity,
    Verdict,
    outcome_of,
    worst,
)
from servegate.domain.plan import Plan
from servegate.domain.records import Json

ARMS = "arms"
"""Pseudo-check that findings about the arms themselves belong to."""
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


@dataclass(frozen=True)
class Judged:
    """One check's comparison and what it noticed."""

    check: AnyCheck
    comparison: Comparison | NotMeasured
    findings: tuple[Finding, ...]
    scope: str = ""

    @property
    def outcome(self) -> Outcome:
        """Outcome of this check alone, required or not."""
        return outcome_of(self.findings, 0 if isinstance(self.comparison, NotMeasured) else self.comparison.n)


def judged(
    check: AnyCheck, evidence: Evidence[Measurement], comparison: Comparison | NotMeasured, own: tuple[Finding, ...]
) -> Judged:
    """Return the check with the findings that hold for every check: not measured, measured in part, nothing compared."""
    weight = Severity.REVIEW if check.required else Severity.INFO
    if isinstance(comparison, NotMeasured):
        broken = comparison.reason.code in {"engine_failed", "measurement_failed"}
        severity = Severity.ERROR if broken and check.required else weight
        return Judged(check, comparison, (finding(check.name, "not-measured", severity, comparison.reason.message),))
    general = []
    for arm, side in _sides(evidence):
        if isinstance(side.measurement, Measurement) and side.measurement.partial is not None:
            message = f"{arm} was measured in part: {side.measurement.partial.message}"
            general.append(finding(check.name, "partial", weight, message))
        elif isinstance(side.measurement, Measurement) and (gaps := _gaps(check, evidence, arm, side.measurement)):
            message = f"{arm}: of what was planned, {'; '.join(gaps)}"
            general.append(finding(check.name, "planned-missing", weight, message))
    explained = any(item.severity is not Severity.INFO or not check.required for item in own)
    if comparison.n == 0 and not explained:
        general.append(finding(check.name, "nothing-compared", weight, "no sample could be compared"))
    return Judged(check, comparison, (*own, *general))


def decide(
    plan: Plan,
    arms: Mapping[str, ArmEvidence[Measurement]],
    results: Mapping[str, Judged],
    accepted: tuple[Json, ...] = (),
    run_status: str = "complete",
    measured_on: date | None = None,
) -> Verdict:
    """Return the verdict over everything that was judged. `run_status`: of run.json; `measured_on` dates the evidence."""
    about_arms = (*_arm_findings(plan, arms, results), *_calibration(plan, arms, measured_on))
    if run_status != "complete":
        about_arms = (*about_arms, finding(ARMS, "run-incomplete", Severity.REVIEW, f"the run was {run_status}, not completed"))
    counted = [outcome_of(about_arms)]
    checks = {name: CheckOutcome(outcome=each.outcome, required=each.check.required) for name, each in results.items()}
    counted += [check.outcome for check in checks.values() if check.counts]
    outcome = worst(tuple(counted))
    about_arms = (*about_arms, *_suggestions(outcome, arms))
    findings = tuple(sorted((*about_arms, *(f for r in results.values() for f in r.findings)), key=_weight))
    return Verdict(
        outcome=outcome,
        headline=_headline(outcome, findings),
        scope=_scope(arms, results),
        checks=checks,
        findings=findings,
        policy=PolicyRef(
            ref=plan.policy,
            sha256=plan.fingerprints.policy,
            changed_in_head=None if plan.origin is None else bool(plan.origin.changed),
        ),
        accepted=accepted,
        inputs=plan.inputs,
    )


def missing_section(result: Judged) -> Section:
    """Return the section of a check that did not measure: its reason, and nothing that looks like a result."""
    assert isinstance(result.comparison, NotMeasured)
    message = result.comparison.reason.message
    return Section(
        check=result.check.name,
        title=result.check.name.capitalize(),
        outcome=result.outcome,
        question="Not measured",
        summary=f"not measured: {message}",
        noise="not measured",
        n="0",
        blocks=(Text(text=f"Not measured: {message}", tone="caution"),),
    )


def _calibration(plan: Plan, arms: Mapping[str, ArmEvidence[Measurement]], measured_on: date | None) -> tuple[Finding, ...]:
    """Say how often this gate is wrong about a config against itself; of another setting nothing is claimed."""
    if plan.calibration is None:
        return ()
    baseline = arms[Role.BASELINE]
    text, holds = remark(plan.calibration, valid_for(plan, baseline.engine, baseline.manifest), measured_on, measured=True)
    return (finding(ARMS, "calibration" if holds else "calibration-ignored", Severity.INFO, text),)


def _gaps(check: AnyCheck, evidence: Evidence[Measurement], arm: str, measurement: Measurement) -> tuple[str, ...]:
    """Return what the plan's schedule has and the record lacks; rows removed from both arms pair perfectly."""
    if evidence.plan is None:
        return ()
    steps = tuple(step.step for step in evidence.plan.schedule if (step.arm, step.check) == (arm, check.name))
    return measurement.gaps(steps, evidence.plan.rounds, evidence.inputs)


def _sides(evidence: Evidence[Measurement]) -> tuple[tuple[str, ArmEvidence[Measurement]], ...]:
    return ((Role.BASELINE.value, evidence.baseline), (Role.CANDIDATE.value, evidence.candidate))


def _arm_findings(
    plan: Plan, arms: Mapping[str, ArmEvidence[Measurement]], results: Mapping[str, Judged]
) -> tuple[Finding, ...]:
    found = []
    if not plan.knobs:
        found.append(finding(ARMS, "equal", Severity.REVIEW, "the two arms are equal: there is no change to judge"))
    if plan.origin is not None and plan.origin.changed:
        files = ", ".join(plan.origin.changed)
        by = "the base branch's" if plan.origin.judged_by == "base" else "its own, as was asked for,"
        message = f"the pull request changes the rules by which it is judged ({files}); {by} were used here"
        found.append(finding(ARMS, "policy-changed", Severity.REVIEW, message))
    unseen = sorted(UNSEEN_KNOBS & {knob.name for knob in plan.knobs})
    if unseen:
        message = f"{', '.join(unseen)} changed along, which no check exercises: prompts are sent as the baseline's token ids"
        found.append(finding(ARMS, "unseen-knob", Severity.REVIEW, message))
    if not any(result.check.required and result.check.measure is not None for result in results.values()):
        found.append(finding(ARMS, "no-required-check", Severity.REVIEW, "no check of answers or accuracy was on"))
    if plan.policy != "quick" and "accuracy" not in results:
        message = f"accuracy was not checked, and policy {plan.policy} gives no PASS without it (`policy: quick` does)"
        found.append(finding(ARMS, "no-accuracy", Severity.REVIEW, message))
    found += _long_prompt_findings(plan, results)
    for name, side in arms.items():
        found += _engine_findings(name, side.engine, read=ENGAGEMENT in results)
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
    return tuple(found)


def _long_prompt_findings(plan: Plan, results: Mapping[str, Judged]) -> list[Finding]:
    """Only long prompts show what a KV cache loses, so a change of it that was not looked at there has not earned a PASS."""
    causes = causes_of(plan.knobs, (plan.model_of(name) for name in plan.arms))
    if not causes or "retrieval" in results:
        return []
    message = f"{' and '.join(causes)} changed and no long prompt was asked (check `retrieval`): lost context would not be seen"
    return [finding(ARMS, "no-long-prompts", Severity.INFO if plan.policy == "quick" else Severity.REVIEW, message)]


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
    asked, got = facts.quantization.requested, facts.quantization.resolved
    if asked is not None and got in (None, "none") and not read:
        # `engagement` says this and much more; without that check it is still no PASS.
        message = f"the {arm} asks for quantization {asked!r}, but its log does not show that it was applied"
        return [finding(ARMS, "quantization-not-seen", Severity.REVIEW, message)]
    return []


def _version_findings(plan: Plan, arms: Mapping[str, ArmEvidence[Measurement]]) -> list[Finding]:
    """Two versions behind one executable name were measured on two machines, or an upgrade came between."""
    versions = {side.engine.version for side in arms.values() if side.engine is not None and side.engine.version is not None}
    if len(versions) < 2 or any(knob.name == "engine.executable" for knob in plan.knobs):
        return []
    message = f"the arms ran on different engine versions ({', '.join(sorted(versions))}), and no knob says so"
    return [finding(ARMS, "version-differs", Severity.NOT_COMPARABLE, message)]


def _fallback_findings(arms: Mapping[str, ArmEvidence[Measurement]]) -> list[Finding]:
    """An arm that was served with a declared fallback is not the arm of its serving config, and PASS must not say so."""
    used = {name: side.engine.fallback for name, side in arms.items() if side.engine is not None and side.engine.fallback}
    known = {name: side.engine.fallback for name, side in arms.items() if side.engine is not None}
    changes = {name: None if each is None else (each.environment, each.options) for name, each in known.items()}
    differ = len({repr(each) for each in changes.values()}) > 1
    found = []
    for name, each in used.items():
        message = (
            f"the {name} does not start as its serving config says ({each.instead_of.exception[:200]}); it was served with "
            f"the fallback {_fallback(each)}"
        )
        if differ:
            message += ", and the other arm was not: the arms differ in these knobs too"
        found.append(finding(ARMS, f"{name}-fallback", Severity.REVIEW if differ else Severity.INFO, message))
    return found


def _suggestions(outcome: Outcome, arms: Mapping[str, ArmEvidence[Measurement]]) -> list[Finding]:
    """One scale for a whole tensor is the coarsest there is; after a failure the next finer one is worth a try."""
    facts = arms[Role.CANDIDATE].engine
    if outcome is not Outcome.FAIL or facts is None:
        return []
    own = facts.checkpoint_quantization
    groups = own.get("config_groups") if isinstance(own, dict) else None
    strategies = {
        group["weights"].get("strategy")
        for group in (groups.values() if isinstance(groups, dict) else ())
        if isinstance(group, dict) and isinstance(group.get("weights"), dict)
    }
    if "per_tensor" not in (facts.quantization.resolved or "") and "tensor" not in strategies:
        return []
    message = (
        "the candidate's weights have one scale a tensor, the coarsest there is: try one a channel "
        "(`quantization: fp8_per_channel`, or a checkpoint made so) before giving the format up"
    )
    return [finding(ARMS, "try-per-channel", Severity.INFO, message)]


def _fallback(each: FallbackUsed) -> str:
    """Return a fallback as its name and what it set."""
    changed = [f"{name}={value}" for name, value in each.environment.items()]
    changed += [f"{name}: {value}" for name, value in each.options.items()]
    return f"{each.name} ({', '.join(changed)})"[:300]


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


def _scope(arms: Mapping[str, ArmEvidence[Measurement]], results: Mapping[str, Judged]) -> Scope:
    manifest = arms[Role.CANDIDATE].manifest or arms[Role.BASELINE].manifest
    facts = [side.engine for side in arms.values() if side.engine is not None]
    versions = list(dict.fromkeys(item.version or "unknown" for item in facts))
    kernels = [kernel.kernel for item in facts if item.role == Role.CANDIDATE for kernel in item.kernels]
    gpu = driver = "unknown"
    if manifest is not None:
        names = [item.name for item in manifest.gpus]
        gpu = ", ".join(names) if names else f"no GPU ({manifest.cpu})"
        driver = manifest.driver or "none"
    return Scope(
        gpu=gpu,
        driver=driver,
        engine=_served_by(versions, facts),
        kernels=", ".join(dict.fromkeys(kernels)) or "none named in the log",
        asked={name: result.scope for name, result in results.items() if result.scope},
    )


def _served_by(versions: list[str], facts: list[EngineFacts]) -> str:
    if not versions:
        return "not started"
    fallbacks = [f"{item.role} with fallback {_fallback(item.fallback)}" for item in facts if item.fallback is not None]
    return "; ".join([f"vLLM {' -> '.join(versions)}", *fallbacks])


def _weight(item: Finding) -> tuple[int, int, str]:
    """Blocking findings first, worst first; among equals the arms come before the checks."""
    if item.severity is Severity.INFO:
        return (len(PRECEDENCE), 1, item.code)
    return (PRECEDENCE.index(Outcome(item.severity.value)), item.check != ARMS, item.code)


def _headline(outcome: Outcome, findings: tuple[Finding, ...]) -> str:
    """Return one sentence: what decided, or for a PASS what is left to read."""
    if outcome is Outcome.PASS:
        said = [item.message for item in findings if "/unread" in item.code or item.code == f"{ARMS}/model-unresolved"]
        return "; ".join(["no damage found", *said])
    deciding = [item for item in findings if item.severity.value == outcome.value]
    if not deciding:
        return "absence of evidence: no check decided"
    more = len(deciding) - 1
    return deciding[0].message + (f" (and {more} more)" if more else "")
