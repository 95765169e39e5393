"""From findings to a verdict: validity first, then quality, then speed.

A check never says PASS. It is PASS when it was measured in full on both arms and noticed nothing that blocks; the
gate is PASS when every required check is, and the arms themselves raise no doubt. Whatever is missing is a finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date

from servegate.checks.arms import MOST_OF_A_FALLBACK, Arms, arm_findings, suggestions
from servegate.checks.contract import AnyCheck, ArmEvidence, Evidence, finding
from servegate.checks.served_models import ARMS
from servegate.domain.arms import Role
from servegate.domain.blocks import Section, Text
from servegate.domain.evidence import REHEARSAL, EngineFacts, Measurement, NotMeasured
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

IN_THE_HEADLINE = (f"{ARMS}/{REHEARSAL}", f"{ARMS}/model-unresolved", f"{ARMS}/laxer-than-policy")
"""What a reader of a PASS has to know before the rest."""
TOLERATED = ("-tolerated", "/key-lost", "/small-drop")
"""How codes end of damage that was seen and is inside a limit; where it blocks, no PASS has a headline."""
SAID_BETTER = {
    f"{ARMS}/chat-template-differs": "prompts/template-differs",
    "prompts/stop-ids-differ": f"{ARMS}/stop-ids-differ",
}
"""One fact seen twice, in a model's files and in what came of them -> the finding that says more. Both weigh alike, or the one
that is left out only informs."""


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
    check: AnyCheck,
    evidence: Evidence[Measurement],
    comparison: Comparison | NotMeasured,
    own: tuple[Finding, ...],
    more_steps: int = 0,
) -> Judged:
    """Return the check with the findings that hold for every check: not measured, measured in part, nothing compared.

    `more_steps`: how many steps its settings may add to those of the plan.
    """
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
        if isinstance(side.measurement, Measurement) and (
            extra := _surplus(check, evidence, arm, side.measurement, more_steps)
        ):
            message = f"{arm}: it holds what was never planned: {'; '.join(extra)}"
            general.append(finding(check.name, "not-planned", weight, message))
    explained = any(item.severity is not Severity.INFO or not check.required for item in own)
    if comparison.n == 0 and not explained:
        general.append(finding(check.name, "nothing-compared", weight, "no sample could be compared"))
    return Judged(check, comparison, (*own, *general))


def decide(
    plan: Plan,
    arms: Arms,
    results: Mapping[str, Judged],
    accepted: tuple[Json, ...] = (),
    run_status: str = "complete",
    measured_on: date | None = None,
) -> Verdict:
    """Return the verdict over everything that was judged. `run_status`: of run.json; `measured_on` dates the evidence."""
    about_arms = arm_findings(plan, arms, {name: each.check for name, each in results.items()}, measured_on)
    if run_status != "complete":
        about_arms = (*about_arms, finding(ARMS, "run-incomplete", Severity.REVIEW, f"the run was {run_status}, not completed"))
    counted = [outcome_of(about_arms)]
    checks = {name: CheckOutcome(outcome=each.outcome, required=each.check.required) for name, each in results.items()}
    counted += [check.outcome for check in checks.values() if check.counts]
    outcome = worst(tuple(counted))
    about_arms = (*about_arms, *suggestions(outcome, arms))
    findings = _told_once(tuple(sorted((*about_arms, *(f for r in results.values() for f in r.findings)), key=_weight)))
    return Verdict(
        outcome=outcome,
        headline=_headline(outcome, findings, plan.policy),
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


def _told_once(findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Leave out what another finding says better. The outcome was decided before: nothing gets lighter by this."""
    codes = {item.code for item in findings}
    return tuple(item for item in findings if SAID_BETTER.get(item.code) not in codes)


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


def _gaps(check: AnyCheck, evidence: Evidence[Measurement], arm: str, measurement: Measurement) -> tuple[str, ...]:
    """Return what the plan's schedule has and the record lacks; rows removed from both arms pair perfectly."""
    if evidence.plan is None:
        return ()
    return measurement.gaps(_steps(evidence.plan, check, arm), evidence.plan.rounds, evidence.inputs)


def _surplus(
    check: AnyCheck, evidence: Evidence[Measurement], arm: str, measurement: Measurement, more_steps: int
) -> tuple[str, ...]:
    """Return what the record holds and the plan's schedule does not; rows written into both arms pair perfectly."""
    if evidence.plan is None:
        return ()
    steps = _steps(evidence.plan, check, arm)
    if not steps:
        return ()  # a part of a record, such as one start against itself; that nothing was planned is told elsewhere
    following = max(steps) + 1
    return measurement.surplus((*steps, *range(following, following + more_steps)), evidence.inputs)


def _steps(plan: Plan, check: AnyCheck, arm: str) -> tuple[int, ...]:
    return tuple(step.step for step in plan.schedule if (step.arm, step.check) == (arm, check.name))


def _sides(evidence: Evidence[Measurement]) -> tuple[tuple[str, ArmEvidence[Measurement]], ...]:
    return ((Role.BASELINE.value, evidence.baseline), (Role.CANDIDATE.value, evidence.candidate))


def _scope(arms: Arms, results: Mapping[str, Judged]) -> Scope:
    manifest = arms[Role.CANDIDATE].manifest or arms[Role.BASELINE].manifest
    facts = [side.engine for side in arms.values() if side.engine is not None]
    versions = list(dict.fromkeys(item.version or "unknown" for item in facts))
    kernels = [kernel.kernel for item in facts if item.role == Role.CANDIDATE for kernel in item.kernels]
    gpu = driver = "unknown"
    if manifest is not None:
        names = Counter(item.name for item in manifest.gpus)
        several = [name if count == 1 else f"{count} x {name}" for name, count in names.items()]
        gpu = ", ".join(several) if several else f"no GPU ({manifest.cpu})"
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
    fallbacks = [
        f"{item.role} with fallback {item.fallback.named()[:MOST_OF_A_FALLBACK]}" for item in facts if item.fallback is not None
    ]
    acted = any(warning.code == REHEARSAL for item in facts for warning in item.warnings)
    played = "servegate's fake engine (no model) in the place of " if acted else ""
    return "; ".join([f"{played}vLLM {' -> '.join(versions)}", *fallbacks])


def _weight(item: Finding) -> tuple[int, int, str]:
    """Blocking findings first, worst first; among equals the arms come before the checks."""
    if item.severity is Severity.INFO:
        return (len(PRECEDENCE), 1, item.code)
    return (PRECEDENCE.index(Outcome(item.severity.value)), item.check != ARMS, item.code)


def _headline(outcome: Outcome, findings: tuple[Finding, ...], policy: str) -> str:
    """Return one sentence: what decided, or for a PASS what is left to read."""
    if outcome is Outcome.PASS:
        said = [item.message for item in findings if "/unread" in item.code or item.code in IN_THE_HEADLINE]
        tolerated = [item.message for item in findings if item.code.endswith(TOLERATED)]
        found = "no damage beyond what the gate tolerates" if tolerated else "no damage found"
        found += f" under policy {policy}" if policy == "quick" else ""
        return "; ".join([found, *tolerated, *said])
    deciding = [item for item in findings if item.severity.value == outcome.value]
    if not deciding:
        return "absence of evidence: no check decided"
    more = len(deciding) - 1
    return deciding[0].message + (f" (and {more} more finding{'s' * (more > 1)})" if more else "")
