"""compare and report: what a run directory means, and how it is shown. No engine is needed, and none is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from typing import Any

from servegate.artifacts import RunDirectory
from servegate.checks.contract import NO_MEASUREMENT, AnyCheck, ArmEvidence, Evidence, step_name
from servegate.checks.deciding import complete
from servegate.checks.settling import settled
from servegate.checks.verdict import Judged, decide, judged, missing_section
from servegate.config import checks_of, settings_of
from servegate.domain.arms import Role
from servegate.domain.blocks import Section
from servegate.domain.deciding import Figures
from servegate.domain.evidence import Measurement, NotMeasured, Reason
from servegate.domain.judgement import PRECEDENCE, Comparison, Verdict
from servegate.domain.plan import Plan, sha256_of
from servegate.domain.records import Json
from servegate.errors import RunDirectoryError
from servegate.ledger import Ledger, applied
from servegate.ledger import parse as parse_ledger

UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError)
"""What the functions that show a comparison may raise when its shape is not theirs."""


def compare(run: RunDirectory, ledger: Ledger | None = None) -> Verdict:
    """Judge what a run directory holds; writes `comparisons/` and `verdict.json`.

    `ledger`: differences accepted since; by default those that the plan holds.

    Raises:
        RunDirectoryError: evidence is missing, damaged, newer than this servegate, or not what was measured.
    """
    run.ensure_untouched()
    plan = run.read_plan()
    if ledger is None:
        ledger = parse_ledger({"version": 1, "accepted": plan.accepted}, "plan.json")
    else:
        policy = sha256_of({"plan": plan.fingerprints.policy, "accepted": ledger.to_json()})
        plan = plan.model_copy(update={"fingerprints": plan.fingerprints.model_copy(update={"policy": policy})})
    plan, arms, results, accepted = judge(run, plan, ledger)
    for name, result in results.items():
        run.write_comparison(plan, name, result.comparison)
    verdict = decide(plan, arms, results, accepted, run_status=run.read_run().status, measured_on=measured_on(run))
    run.write_verdict(plan, verdict)
    run.write_checksums()
    return verdict


def rejudged(run: RunDirectory) -> Verdict:
    """Return the verdict that the evidence gives now, under the plan's own accepted differences; writes nothing.

    Raises:
        RunDirectoryError: evidence is missing, damaged, newer than this servegate, or not what was measured.
    """
    run.ensure_untouched()
    plan = run.read_plan()
    ledger = parse_ledger({"version": 1, "accepted": plan.accepted}, "plan.json")
    plan, arms, results, accepted = judge(run, plan, ledger)
    return decide(plan, arms, results, accepted, run_status=run.read_run().status, measured_on=measured_on(run))


def report(run: RunDirectory, templates: Mapping[str, str] | None = None) -> dict[str, bytes]:
    """Render the report of a judged run and write it under `report/`; returns the files.

    `templates`: a team's own, in place of those of the plan.
    """
    from servegate.report import Source, render  # its libraries take a second to import, and judging needs none of them

    run.ensure_untouched()
    plan = run.read_plan()
    verdict = run.read_verdict()
    arms, settings = arms_of(run, plan), settings_of(plan)
    sections: list[Section] = []
    figures: list[Figures] = []
    missing: dict[str, str] = {}
    for name, check in checks_of(plan).items():
        comparison = run.read_comparison(name)
        findings = tuple(item for item in verdict.findings if item.check == name)
        if isinstance(comparison, NotMeasured):
            sections.append(missing_section(Judged(check, comparison, findings)))
            missing[name] = comparison.reason.message
        else:
            evidence = evidence_of(run, plan, check, arms)
            try:
                sections.append(check.present(comparison, evidence, settings[name], findings))
                figures += check.figures(comparison, evidence, settings[name])
            except UNREADABLE as error:
                _ensure_ours(run, plan, name, comparison, error)
                raise
    envelope = run.read_run()
    source = Source(
        plan,
        {name: side.engine for name, side in arms.items()},
        {name: side.manifest for name, side in arms.items()},
        verdict,
        tuple(sorted(sections, key=lambda section: PRECEDENCE.index(section.outcome))),  # what decides is read first
        run_status=envelope.status,
        stages=_stage_rows(run, plan, envelope.data.get("stages", ())),
        figures=complete(arms, figures, missing, plan.checks, verdict.findings),
    )
    files = render(source, templates)
    run.write_products(files)
    run.write_checksums()
    return files


def _ensure_ours(run: RunDirectory, plan: Plan, name: str, comparison: Comparison, error: Exception) -> None:
    """Raise RunDirectoryError when a comparison that cannot be shown is not the one that the evidence gives.

    Comparisons are products, which anybody may change without a seal that breaks, so their shape is trusted for nothing. One
    that the evidence does give and that cannot be shown is a defect of servegate.
    """
    ledger = parse_ledger({"version": 1, "accepted": plan.accepted}, "plan.json")
    if judge(run, plan, ledger)[2][name].comparison != comparison:
        raise RunDirectoryError(
            f"comparisons/{name}.json cannot be shown, and is not what the evidence gives",
            why=f"{type(error).__name__}: {str(error)[:200]}",
            advice="Judge the run again: servegate compare.",
        ) from None


def judge(
    run: RunDirectory, plan: Plan, ledger: Ledger
) -> tuple[Plan, dict[str, ArmEvidence[Measurement]], dict[str, Judged], tuple[Json, ...]]:
    """Judge every check without writing anything; returns plan, arms, results by check, and the differences accepted."""
    arms, settings = arms_of(run, plan), settings_of(plan)
    results, accepted = {}, []
    for name, check in checks_of(plan).items():
        evidence = evidence_of(run, plan, check, arms)
        comparison = check.compare(evidence, settings[name])
        if not isinstance(comparison, NotMeasured):
            comparison, read = applied(comparison, ledger, measured_on(run))
            accepted += [{"check": name, **one} for one in read]
        own = () if isinstance(comparison, NotMeasured) else check.judge(comparison, settings[name])
        asked = "" if isinstance(comparison, NotMeasured) else check.scope(evidence, settings[name])
        more = check.most_more(settings[name])
        results[name] = replace(judged(check, evidence, comparison, own, more), scope=asked)
    return plan, arms, settled(results), tuple(accepted)


def measured_on(run: RunDirectory) -> date | None:
    """Return the last day on which anything was measured; None when the record does not say."""
    try:
        stages = run.read_run().data.get("stages", ())
        days = [date.fromisoformat(str(stage.get("started_at", ""))[:10]) for stage in stages if isinstance(stage, dict)]
    except (RunDirectoryError, ValueError):
        return None
    return max(days, default=None)


def arms_of(run: RunDirectory, plan: Plan) -> dict[str, ArmEvidence[Measurement]]:
    """Return what is known of the arms themselves, apart from any check."""
    if not {role.value for role in Role} <= set(plan.arms):
        raise RunDirectoryError(f"{run.root} holds no plan for both arms", advice="Measure again.")
    nothing = NotMeasured(reason=Reason(code="no-check", message="this is about the arm, not about a check"))
    return {name: ArmEvidence(run.read_engine(name), run.read_manifest(name), nothing) for name in plan.arms}


def evidence_of(run: RunDirectory, plan: Plan, check: AnyCheck, arms: Mapping[str, ArmEvidence[Measurement]]) -> Evidence[Any]:
    """Return what is recorded of one check on both arms."""

    def side(role: Role) -> ArmEvidence[Any]:
        known, shape = arms[role], check.measurement
        found = NO_MEASUREMENT if shape is None else run.read_measurement(role.value, check.name, shape)
        return ArmEvidence(known.engine, known.manifest, found)

    inputs = run.read_inputs(check.name, check.inputs) if check.inputs is not None else None
    return Evidence(side(Role.BASELINE), side(Role.CANDIDATE), inputs, plan)


def _stage_rows(run: RunDirectory, plan: Plan, stages: Iterable[Json]) -> tuple[tuple[str, str, float], ...]:
    """Return (title, arm, seconds) of each stage of run.json; a step is called what it was called while it ran."""
    checks, settings = checks_of(plan), settings_of(plan)
    inputs = {name: run.read_inputs(name, check.inputs) for name, check in checks.items() if check.inputs is not None}
    rows = []
    for stage in stages:
        if not isinstance(stage, dict):
            continue
        name, step, seconds = str(stage.get("check") or ""), stage.get("step"), stage.get("seconds")
        title = " ".join(part for part in (str(stage.get("stage", "")), name) if part)
        if name in checks and isinstance(step, int):
            title += f", {step_name(checks[name], settings[name], inputs.get(name), step, plan.rounds)}"
        rows.append((title, str(stage.get("arm") or ""), float(seconds) if isinstance(seconds, int | float) else 0.0))
    return tuple(rows)
