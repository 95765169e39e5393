"""calibrate: what a gate says of a config against itself, where everything it says is wrong.

A run whose arms are equal is judged like any other; each FAIL in it is a false alarm. Runs on separate starts are
independent, and only they are counted with a limit. One start split into its even and odd rounds is judged too, but it knows
nothing of the spread between starts and shares everything with the run it came from: conditional, without a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import log
from typing import Any, Literal

from servegate import __version__
from servegate.artifacts import RunDirectory
from servegate.checks.contract import ArmEvidence, Evidence
from servegate.checks.served_models import ARMS
from servegate.checks.verdict import decide
from servegate.config import checks_of, settings_of
from servegate.domain.arms import Role
from servegate.domain.calibration import AaRun, Calibration, Rate, RestartSpread, Split, ValidFor, valid_for
from servegate.domain.evidence import Measurement, NotMeasured
from servegate.domain.judgement import Comparison, Finding, Outcome, Severity, outcome_of, worst
from servegate.domain.plan import Plan, sha256_of
from servegate.domain.records import Json, Settings
from servegate.errors import MeasurementError, UsageError
from servegate.ledger import parse as parse_ledger
from servegate.pipeline.effects import HOST_BOUND, effects, spreads
from servegate.pipeline.judging import evidence_of, judge, measured_on
from servegate.stats.proportions import upper_limit
from servegate.stats.spread import StartSpread, start_spread

EQUAL_ARMS = f"{ARMS}/equal"
"""What every A/A run is told, and rightly so."""
VOID = (Outcome.ERROR, Outcome.NOT_COMPARABLE)
NUMBERED = ("round", "block")
"""Fields that number a sample's round, by check."""


def read_aa(run: RunDirectory) -> tuple[Plan, ValidFor, AaRun]:
    """Judge one A/A run; nothing is written.

    Raises:
        UsageError: the arms differ, so that a finding could be true.
        RunDirectoryError: evidence is missing, damaged, or not what was measured.
    """
    run.ensure_untouched()
    plan = run.read_plan()
    _ensure_equal_arms(run, plan)
    ledger = parse_ledger({"version": 1, "accepted": plan.accepted}, "plan.json")
    plan, arms, results, _ = judge(run, plan, ledger)
    verdict = decide(plan, arms, results, run_status=run.read_run().status)
    findings = tuple(item for item in verdict.findings if item.code != EQUAL_ARMS)
    counted = tuple(check.outcome for check in verdict.checks.values() if check.counts)
    outcome = worst((outcome_of(tuple(item for item in findings if item.check == ARMS)), *counted))
    alarms = _codes(findings, Severity.FAIL)
    settings = settings_of(plan)
    comparisons = {name: each.comparison for name, each in results.items() if isinstance(each.comparison, Comparison)}
    digests = run.evidence_digests()
    day = measured_on(run)
    baseline = arms[Role.BASELINE]
    row = AaRun(
        evidence=sha256_of(digests),
        starts=tuple(digests.get(f"arms/{role.value}/engine.json", f"none of {role.value}") for role in Role),
        measured_on=day.isoformat() if day else None,
        outcome=outcome.value,
        alarms=alarms,
        held=_codes(findings, Severity.REVIEW),
        void=_void(findings, outcome, alarms, run.read_run().status),
        splits=tuple(
            _split(run, plan, arms, settings, role)
            for role in Role
            if arms[role].engine is not None and not _void(findings, outcome, (), run.read_run().status)
        ),
        **spreads(comparisons, settings),
    )
    return plan, valid_for(plan, baseline.engine, baseline.manifest), row


def calibration(read: Sequence[tuple[Plan, ValidFor, AaRun]], earlier: Sequence[AaRun] = ()) -> Calibration:
    """Return what A/A runs add up to. `earlier`: rows of a record that was made under the same setting.

    Raises:
        UsageError: no run, runs of different settings, one run given twice, or two that share a start.
        MeasurementError: every run is void, so nothing is known.
    """
    if not read:
        raise UsageError("no A/A run was given", advice="Give run directories whose arms are equal, or a gate config.")
    # An engine that never started has no version, so what is void has no setting to hold others against.
    plan, setting, _ = next((one for one in read if one[2].void is None), read[0])
    for _other_plan, other, row in read:
        differing = setting.differs(other)
        if differing and row.void is None:
            raise UsageError(
                f"the runs were made under different settings: {'; '.join(differing)}",
                advice="Calibrate each setting by itself: its false alarms say nothing about another.",
            )
    known = {row.evidence for *_, row in read}
    rows = (*(row for row in earlier if row.evidence not in known), *(row for *_, row in read))
    _ensure_independent(rows)
    sound = [row for row in rows if row.void is None]
    if not sound:
        raise MeasurementError(
            f"none of {len(rows)} runs could be judged: {rows[-1].void}",
            advice="Read the report of one of them; a broken harness has no false-alarm rate.",
        )
    restart = start_spread([[log(speed) for speed in start] for row in sound for start in row.speeds])
    accuracy = start_spread([[value] for row in sound for value in row.accuracies])
    return Calibration(
        servegate=__version__,
        gate=plan.gate,
        made_on=max(row.measured_on or "1970-01-01" for row in sound),
        valid_for=setting,
        false_alarms=_rate(sound, void=len(rows) - len(sound)),
        conditional=_conditional(sound),
        restart=_restart(restart, "log ratio", host=any(row.spreads.get(HOST_BOUND) for row in sound)),
        restart_reason=None if restart else "fewer than two starts have valid speeds: `throughput` was off, or INVALID",
        restart_accuracy=_restart(accuracy, "points"),
        restart_accuracy_reason=None if accuracy else "fewer than two starts have an accuracy (is the check `accuracy` on?)",
        effects=effects(sound, settings_of(plan), restart),
        runs=rows,
    )


def _restart(spread: StartSpread | None, unit: str, *, host: bool = False) -> RestartSpread | None:
    if spread is None:
        return None
    setting: Literal["restart_sd", "host_restart_sd"] = "host_restart_sd" if host else "restart_sd"
    return RestartSpread(sd=spread.sd, upper=spread.upper, starts=spread.starts, unit=unit, setting=setting)


def _shown(value: Json) -> str:
    return "not set" if value is None else repr(value)


def _ensure_equal_arms(run: RunDirectory, plan: Plan) -> None:
    baseline, candidate = plan.arms[Role.BASELINE], plan.arms[Role.CANDIDATE]
    named = [f"{knob.name} ({_shown(knob.baseline)} and {_shown(knob.candidate)})" for knob in plan.knobs]
    if not named and (baseline.argv, baseline.environment) != (candidate.argv, candidate.environment):
        named = ["the arguments or the environment of the arms"]
    if named:
        raise UsageError(
            f"{run.root} is no A/A run: its arms differ in {', '.join(named[:5])}",
            why="What a gate says of a real change is not known to be false.",
            advice="Measure the baseline against itself: `servegate calibrate CONFIG --starts N` does.",
        )


def _ensure_independent(rows: Iterable[AaRun]) -> None:
    runs, starts = Counter[str](), Counter[str]()
    for row in rows:
        runs[row.evidence] += 1
        starts.update(row.starts)
    if any(count > 1 for count in runs.values()):
        raise UsageError("one run was given twice (equal evidence)", advice="Give each run once: a copy is no second run.")
    if any(count > 1 for start, count in starts.items() if not start.startswith("none of ")):
        raise UsageError(
            "two runs share a start of an engine, so they are not independent", advice="Give one of them; measure another."
        )


def _void(findings: Sequence[Finding], outcome: Outcome, alarms: Sequence[str], status: str) -> str | None:
    """Return why a run says nothing about false alarms. An alarm counts even where something else broke as well."""
    if alarms:
        return None
    if outcome in VOID:
        return next(item.message for item in findings if item.severity.value == outcome.value)
    return f"the run was {status}" if status != "complete" else None


def _codes(findings: Iterable[Finding], severity: Severity) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.code for item in findings if item.severity is severity))


def _rate(rows: Sequence[AaRun], void: int) -> Rate:
    alarmed = [row for row in rows if row.alarms]
    by_check = Counter(check for row in alarmed for check in {code.partition("/")[0] for code in row.alarms})
    return Rate(
        alarms=len(alarmed),
        runs=len(rows),
        upper=upper_limit(len(alarmed), len(rows)),
        by_check=dict(sorted(by_check.items())),
        void=void,
        held=sum(bool(row.held) and not row.alarms for row in rows),
    )


def _conditional(rows: Sequence[AaRun]) -> Rate:
    splits = [split for row in rows for split in row.splits]
    sound = [split for split in splits if split.void is None]
    by_check = Counter(check for split in sound for check in {code.partition("/")[0] for code in split.alarms})
    return Rate(
        alarms=sum(bool(split.alarms) for split in sound),
        runs=len(sound),
        upper=None,
        reason="splits of one start are not independent, and restarts do not show in them"
        + (f"; of {', '.join(names)} alone" if (names := sorted({name for split in sound for name in split.checks})) else ""),
        by_check=dict(sorted(by_check.items())),
        void=len(splits) - len(sound),
    )


# -- splits ----------------------------------------------------------------------------------------------------


def _split(
    run: RunDirectory, plan: Plan, arms: dict[str, ArmEvidence[Measurement]], settings: dict[str, Settings], role: Role
) -> Split:
    """Judge one start's even rounds against its odd ones, every check that has both."""
    alarms: list[str] = []
    compared: list[str] = []
    for name, check in checks_of(plan).items():
        halves = _halves(evidence_of(run, plan, check, arms), role)
        if halves is None:
            continue
        comparison = check.compare(halves, settings[name])
        if not isinstance(comparison, NotMeasured) and comparison.n:
            compared.append(name)
            alarms += _codes(check.judge(comparison, settings[name]), Severity.FAIL)
    why = None if compared else "no check was measured in two rounds that pair"
    return Split(arm=role.value, checks=tuple(compared), alarms=tuple(alarms), void=why)


def _halves(evidence: Evidence[Any], role: Role) -> Evidence[Any] | None:
    """Return a start's even rounds as the baseline and its odd rounds as the candidate; None without both."""
    side: ArmEvidence[Any] = evidence.baseline if role is Role.BASELINE else evidence.candidate
    if isinstance(side.measurement, NotMeasured):
        return None
    even, odd = (half(side.measurement, rest) for rest in (0, 1))
    if even is None or odd is None:
        return None
    return Evidence(
        ArmEvidence(side.engine, side.manifest, even),
        ArmEvidence(side.engine, side.manifest, odd),
        evidence.inputs,
        evidence.plan,
    )


def half(measurement: Measurement, rest: int) -> Measurement | None:
    """Return the rounds with that remainder of 2, numbered anew; None when there are none, or no sample has a number.

    The last round of an odd number of rounds is left out, so that both halves are equally long.
    """
    samples = {name: getattr(measurement, name) for name in measurement.SAMPLES}
    numbers = {number for items in samples.values() for item in items if (number := _number(item)) is not None}
    pairs = len(numbers) // 2
    if not pairs:
        return None
    chosen = {
        name: tuple(
            item if number is None else item.model_copy(update={_field(item): number // 2})
            for item in items
            if (number := _number(item)) is None or (number % 2 == rest and number // 2 < pairs)
        )
        for name, items in samples.items()
    }
    return measurement.model_copy(update=chosen)


def _field(item: Any) -> str:
    return next((name for name in NUMBERED if hasattr(item, name)), "")


def _number(item: Any) -> int | None:
    found = getattr(item, _field(item), None) if _field(item) else None
    return found if type(found) is int else None
