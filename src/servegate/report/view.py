"""Everything that a report shows, computed once; templates only place it.

The page is built for one medium at a time (`Medium`): the same values, more or fewer of them.
"""

from __future__ import annotations

from servegate import __version__
from servegate.domain.blocks import Section, Table
from servegate.domain.evidence import EngineStatus
from servegate.domain.judgement import Finding, Severity
from servegate.domain.plan import Plan
from servegate.report import numbers
from servegate.report.armview import groups
from servegate.report.blockview import Viewer, slug
from servegate.report.deciding import deciding_view
from servegate.report.page import (
    ArmPlan,
    CheckRow,
    FailedStart,
    FindingView,
    KnobView,
    Medium,
    Page,
    SectionView,
    Source,
    Stage,
    StageRow,
)
from servegate.report.reproduce import run_command, serve_command
from servegate.report.visible import cut
from servegate.report.words import HOW_TO_READ, INFO, NOT_JUDGED, OUTCOMES, severity_rank, severity_word

_STATUS = {
    "running": "The run is still going on; what follows is what was measured so far.",
    "cancelled": "The run was cancelled; what follows is what was measured until then.",
    "interrupted": "The run broke off without saying why; what follows is what was measured until then.",
    "failed": "The run did not finish; what follows is what was measured until it failed.",
}


def page(source: Source, medium: Medium) -> tuple[Page, dict[str, Table]]:
    """Return what one document shows, and every table of the sections by the name of its CSV file."""
    plan, verdict = source.plan, source.verdict
    word = OUTCOMES[verdict.outcome]
    tables: dict[str, Table] = {}
    anchors: dict[tuple[str, str], str] = {}
    sections = tuple(_section(item, index, source, medium, tables, anchors) for index, item in enumerate(source.sections))
    ordered = sorted(verdict.findings, key=lambda item: severity_rank(item.severity))
    weighty = [item for item in ordered if item.severity is not Severity.INFO]
    notes = [item for item in ordered if item.severity is Severity.INFO]
    status = (
        None
        if source.run_status == "complete"
        else _STATUS.get(source.run_status, f"The run's status is {cut(source.run_status, 40)}.")
    )
    shown = Page(
        gate=cut(plan.gate, 60),
        marker=f"servegate:{slug(plan.gate, 'gate')[:40]}",
        title=cut(f"{word.word}: {plan.gate}", 120),
        verdict=word,
        headline=cut(verdict.headline, medium.sentence),
        lead=cut(_lead(source), medium.sentence),
        description=plan.description,
        policy=cut(verdict.policy.ref, min(80, medium.value))
        + (", changed by this change" if verdict.policy.changed_in_head else ""),
        status=status,
        knobs=tuple(
            KnobView(
                cut(knob.name, min(80, medium.sentence)),
                cut(numbers.plain(knob.baseline), medium.knob),
                cut(numbers.plain(knob.candidate), medium.knob),
                cut(knob.source, 80),
            )
            for knob in plan.knobs[: medium.knobs]
        ),
        more_knobs=max(0, len(plan.knobs) - medium.knobs),
        subject=cut(plan.origin.candidate_path, medium.value) if plan.origin else "",
        scope=(
            ("model", cut(_models(plan), medium.value)),
            *((name, cut(getattr(verdict.scope, name), medium.value)) for name in ("gpu", "driver", "engine", "kernels")),
            *((name, cut(value, medium.value)) for name, value in verdict.scope.asked.items()),
            *((name, cut(value, medium.value)) for name, value in _from_git(source)),
        ),
        valid_for=cut(f"{verdict.scope.gpu}, {verdict.scope.engine}", medium.value),
        failed=tuple(
            _failed(name, source, medium)
            for name, facts in tuple(source.engines.items())[: medium.arms]
            if facts and facts.status is EngineStatus.FAILED
        ),
        checks=tuple(section.row for section in sections[: medium.checks]),
        more_checks=max(0, len(sections) - medium.checks),
        deciding=deciding_view(source.figures, medium.limits.cell),
        findings=tuple(_finding(item, medium, anchors) for item in weighty[: medium.findings]),
        more_findings=max(0, len(weighty) - medium.findings),
        notes=tuple(_finding(item, medium, anchors) for item in notes[: medium.notes]),
        more_notes=max(0, len(notes) - medium.notes),
        sections=sections,
        arms=tuple(plan.arms),
        arm_groups=groups(tuple(plan.arms), source.engines, source.manifests, medium.limits.cell),
        plans=tuple(
            ArmPlan(
                name,
                cut(arm.config.path, 300),
                arm.config.sha256,
                cut(serve_command(arm, medium.limits.cell), 4 * medium.limits.text),
                cut(arm.config.text, medium.limits.text),
            )
            for name, arm in plan.arms.items()
        ),
        settings=tuple(
            (cut(name, 120), cut(numbers.plain(item.value), medium.value), cut(item.source, 120))
            for name, item in sorted(plan.settings.items())
        ),
        facts=_facts(source),
        accepted=tuple(cut(numbers.plain(item), medium.limits.cell) for item in verdict.accepted[:200]),
        stages=_stages(source.stages),
        total_seconds=numbers.seconds(sum(seconds or 0.0 for _title, _arm, seconds in source.stages)),
        outcomes=(*OUTCOMES.values(), INFO),
        how_to_read=HOW_TO_READ,
        run_command=run_command(plan, medium.limits.cell),
        servegate=__version__,
    )
    return shown, tables


def _from_git(source: Source) -> tuple[tuple[str, str], ...]:
    """Return what the verdict is about in git: commits, and every serving config whose arguments these are."""
    origin = source.plan.origin
    if origin is None:
        return ()
    renamed = f"{origin.baseline_path} -> " if origin.baseline_path != origin.candidate_path else ""
    files = ", ".join((renamed + origin.candidate_path, *origin.also))
    return (("serving config", files), ("commits", f"{origin.merge_base[:12]} -> {origin.head[:12]}"))


def _lead(source: Source) -> str:
    headline = source.verdict.headline
    for facts in source.engines.values():
        if facts and facts.status is EngineStatus.FAILED and facts.diagnosis and facts.diagnosis.exception:
            headline = headline.replace(f": {facts.diagnosis.exception}", "")
    return headline


def _section(
    section: Section,
    index: int,
    source: Source,
    medium: Medium,
    tables: dict[str, Table],
    anchors: dict[tuple[str, str], str],
) -> SectionView:
    viewer = Viewer(slug(section.check, f"check-{index + 1}"), index + 1, medium.limits, tables)
    stated = source.verdict.checks.get(section.check)
    row = CheckRow(
        anchor=f"check-{index + 1}-{slug(section.check, 'check')}",
        title=cut(section.title, min(120, medium.sentence)),
        question=cut(section.question, medium.sentence),
        word=NOT_JUDGED if source.verdict.not_judged(section.check) else OUTCOMES[section.outcome],
        counts=stated.counts if stated else True,
        summary=cut(section.summary, medium.sentence),
        noise=cut(section.noise, medium.sentence),
        n=cut(section.n, min(120, medium.sentence)),
    )
    blocks = viewer.views(section.blocks)
    anchors |= {(section.check, item): anchor for item, anchor in viewer.anchors.items()}
    return SectionView(row, blocks)


def _finding(finding: Finding, medium: Medium, anchors: dict[tuple[str, str], str]) -> FindingView:
    measured = numbers.significant(finding.value) if finding.value is not None else ""
    if finding.limit is not None:
        measured += f" {finding.operator or 'limit'} {numbers.significant(finding.limit)}"
    named = _evidence(finding)
    refs = tuple(cut(text, 120) for text, _ in named[: medium.evidence])
    return FindingView(
        word=severity_word(finding.severity),
        code=cut(finding.code, min(120, medium.sentence)),
        message=cut(finding.message, medium.sentence),
        rule=cut(": ".join(part for part in (finding.rule, measured.strip()) if part), medium.value),
        evidence=refs,
        more_evidence=len(named) - len(refs),
        anchors=tuple(anchors.get(key, "") for _, key in named[: medium.evidence]),
    )


def _evidence(finding: Finding) -> tuple[tuple[str, tuple[str, str]], ...]:
    """Return where to look, in words and as (check, item): each once, with its rounds from 1, its check when it is another."""
    rounds: dict[tuple[str, str], list[int]] = {}
    for ref in finding.evidence:
        steps = rounds.setdefault((ref.check, ref.id), [])
        if ref.step is not None and ref.step + 1 not in steps:
            steps.append(ref.step + 1)
    found = []
    for (check, item), steps in rounds.items():
        named = item if check == finding.check else f"{check} {item}"
        listed = ", ".join(map(str, steps))
        found.append((f"{named} (round{'' if len(steps) == 1 else 's'} {listed})" if steps else named, (check, item)))
    return tuple(found)


def _models(plan: Plan) -> str:
    """Return what is served: one name, or the names of both arms; a directory by its last part."""
    sources = dict.fromkeys(plan.model_of(name).source for name in plan.arms)
    return " -> ".join(source.rstrip("/").rpartition("/")[2] if source.startswith(("/", ".")) else source for source in sources)


def _failed(name: str, source: Source, medium: Medium) -> FailedStart:
    facts = source.engines[name]
    diagnosis = facts.diagnosis if facts else None
    log = f"arms/{name}/server.log"
    return FailedStart(
        arm=name,
        what="stopped while it was measured" if facts and facts.phases_s.get("ready") else "did not start",
        exception=cut(diagnosis.exception if diagnosis else "Its log holds no exception.", medium.limits.cell),
        code=cut(diagnosis.code if diagnosis else "unknown", min(80, medium.value)),
        place=f"{log}, line {diagnosis.line:,}" if diagnosis and diagnosis.line is not None else log,
        workaround=cut(diagnosis.workaround, medium.sentence) if diagnosis and diagnosis.workaround else None,
        command=cut(serve_command(source.plan.arms[name], medium.limits.cell), medium.limits.text)
        if name in source.plan.arms
        else "",
    )


def _facts(source: Source) -> tuple[tuple[str, str], ...]:
    plan, verdict = source.plan, source.verdict
    rows = [
        ("model", plan.model.source + (f" at {plan.model.revision}" if plan.model.revision else "")),
        ("rounds", str(plan.rounds)),
        ("policy", f"{verdict.policy.ref}, sha256 {verdict.policy.sha256}"),
        ("workload", f"sha256 {plan.fingerprints.workload}"),
        *((f"input {path}", f"sha256 {digest}") for path, digest in sorted({**plan.inputs, **verdict.inputs}.items())),
    ]
    return tuple((cut(name, 200), cut(value, 400)) for name, value in rows)


def _stages(stages: tuple[Stage, ...]) -> tuple[StageRow, ...]:
    longest = max((seconds or 0.0 for _title, _arm, seconds in stages), default=0.0)
    return tuple(
        StageRow(
            cut(title, 120),
            cut(arm or "", 60),
            numbers.seconds(seconds),
            round(20 * (seconds or 0.0) / longest) if longest > 0 else 0,
        )
        for title, arm, seconds in stages
    )
