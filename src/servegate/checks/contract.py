"""What a check is: settings, a measurement, and five pure functions.

A check never touches the disk, a socket or a process: it is handed probes while it measures and evidence while it
compares. Adding one is adding one module under `servegate.checks` that ends with `CHECK = Check(...)`.

A check may have no measurement (`measurement=None, measure=None`): it judges what the plan and the engines' own words
already say, costs no step of the schedule, and is compared in every run, also when an engine never started. Its sides
then carry `NO_MEASUREMENT`, so it must not ask `not_measured`; it returns a `Comparison` whose `n` counts the facts that
it could compare, or a `NotMeasured` of its own. Required or not, such a check is no evidence about answers: a gate with
no other required check stays REVIEW.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from servegate.checks.laxness import Direction
from servegate.checks.lengths import Longest
from servegate.checks.reach import Amount, Best
from servegate.domain.arms import Arm
from servegate.domain.blocks import Section, Text
from servegate.domain.deciding import Figures
from servegate.domain.evidence import EngineFacts, Measurement, NotMeasured, Reason
from servegate.domain.judgement import Comparison, Estimate, EvidenceRef, Finding, Outcome, Severity
from servegate.domain.manifest import Manifest
from servegate.domain.plan import Knob, ModelSource, Plan
from servegate.domain.records import Json, Record, Settings
from servegate.ports import Advance, Probes

S = TypeVar("S", bound=Settings)
M = TypeVar("M", bound=Measurement)

ReadFile = Callable[[str], bytes]
"""Reads an input file that the settings name, relative to the gate config; raises UsageError when it is missing."""


NO_MEASUREMENT = NotMeasured(reason=Reason(code="no_measurement", message="this check reads what the engine said of itself"))
"""What stands for the measurement of a check that has none."""


class Inputs(Record):
    """The workload of a check as rendered, made once on the baseline; stored in `inputs/<check>.json`."""

    def called(self, step: int) -> str:
        """Return what people call the step that asks this part."""
        return f"round {step + 1}"


@dataclass(frozen=True)
class MeasureContext(Generic[M]):
    """What a check knows while it measures one step on one arm."""

    arm: str
    step: int
    engine: EngineFacts
    inputs: Inputs | None
    baseline: M | None
    """The baseline's measurement of this check; None while the baseline is measured."""
    advance: Advance
    """Call with the number of items done, for the progress display."""


@dataclass(frozen=True)
class ArmEvidence(Generic[M]):
    """Everything recorded about one arm. `engine` is None only when no start was attempted."""

    engine: EngineFacts | None
    manifest: Manifest | None
    measurement: M | NotMeasured


@dataclass(frozen=True)
class Evidence(Generic[M]):
    """Both arms and the inputs they were given; `plan` is what was to be served, None only where a test leaves it out."""

    baseline: ArmEvidence[M]
    candidate: ArmEvidence[M]
    inputs: Inputs | None = None
    plan: Plan | None = None

    @property
    def model(self) -> Json | None:
        """The baseline model's config.json, when the plan knows it."""
        return None if self.plan is None else self.plan.model.config


@dataclass(frozen=True)
class Change:
    """In what the arms differ, as far as it is known before anything starts."""

    knobs: tuple[Knob, ...]
    arms: Mapping[str, Arm]
    models: Mapping[str, ModelSource]


@dataclass(frozen=True)
class Choice:
    """Whether a check is on (`settings`; None: off), a sentence about that for the plan, and where settings came from."""

    settings: Settings | None
    note: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Check(Generic[S, M]):
    """One question about a serving change.

    `load` reads the input files at plan time and raises UsageError with file and line; `prepare` renders them on the
    baseline's engine; `measure` does one step on one arm; `compare`, `judge` and `present` are pure functions of the
    record and run again later without any engine. `required`: without this check there is no PASS.
    `measurement` and `measure` are None together (see the module's first lines).
    """

    name: str
    settings: type[S]
    measurement: type[M] | None
    measure: Callable[[Probes, S, MeasureContext[M]], M] | None
    compare: Callable[[Evidence[M], S], Comparison | NotMeasured]
    judge: Callable[[Comparison, S], tuple[Finding, ...]]
    present: Callable[[Comparison, Evidence[M], S, tuple[Finding, ...]], Section]
    required: bool = True
    inputs: type[Inputs] | None = None
    load: Callable[[S, ReadFile], Inputs] | None = None
    prepare: Callable[[Probes, S, Inputs, EngineFacts], Inputs] | None = None
    items: Callable[[S, Inputs | None], int | None] = field(default=lambda _settings, _inputs: None)
    """How many items one step has, for the progress display."""
    choose: Callable[[S, bool, Change], Choice] | None = None
    """Decides from the change itself whether the check is on: (its settings, whether the gate config names it, the
    change). A check without it is on when it is named."""
    fit: Callable[[S, Inputs | None, Longest], Choice] | None = None
    """Holds what it asks against the shorter context of the arms, before anything starts: settings that fit with a remark,
    or UsageError. Every check that sends prompts has one."""
    stop: Callable[[Evidence[M], S], Finding | None] | None = None
    finish: Callable[[Probes, S, MeasureContext[M], M], M] | None = None
    """What is asked once an arm's last step is done and the check did not stop: (probes, settings, the last step's context,
    all that was measured); returns it completed."""
    scope: Callable[[Evidence[M], S], str] = field(default=lambda _evidence, _settings: "")
    """What was asked, in a few words: a verdict holds for no other prompts, tasks, lengths or decoding."""
    figures: Callable[[Comparison, Evidence[M], S], tuple[Figures, ...]] = field(
        default=lambda _comparison, _evidence, _settings: ()
    )
    """Its rows of the table of what a person has to decide on (`domain.deciding`); asked when it was compared."""
    laxer: Mapping[str, Direction] = field(default_factory=dict)
    """Dotted setting -> which values of it tolerate more; every number under `limits` has its direction."""
    absent: Callable[[Plan], tuple[Finding, ...]] = field(default=lambda _plan: ())
    """What a verdict has to say where this check was off, although the change or the policy calls for it."""
    best: Callable[[S, Inputs | None, Plan], Best] = field(default=lambda _settings, _inputs, _plan: Best())
    """What its rules would say of faultless evidence, before anything is measured: what withholds PASS even then."""
    amount: Callable[[S, Inputs | None, int], Amount] = field(default=lambda _settings, _inputs, _step: Amount())
    """How much a step asks of an arm: (settings, the step's part of the inputs, the step)."""
    last: bool = False
    """Measure after the others: this check is the one that may cost the engine its life."""
    steps: Callable[[S, Inputs | None, int], int] = field(default=lambda _settings, _inputs, rounds: rounds)
    """How many steps each arm has, given the gate's rounds."""
    interleaved: Callable[[S], bool] = field(default=lambda _settings: False)
    """Whether its steps alternate between both arms (A B B A), one engine asleep while the other is measured."""
    more: Callable[[M, S, int], int] = field(default=lambda _baseline, _settings, _planned: 0)
    """Steps that both arms get beyond the planned ones: (the baseline's measurement, settings, planned steps). Asked for each
    arm once its planned steps are done; it must see the baseline's planned steps only, so that both arms get as many."""
    most_more: Callable[[S], int] = field(default=lambda _settings: 0)
    """How many steps `more` can add at the most."""
    part: Callable[[S, Inputs, int, int], Inputs] = field(default=lambda _settings, inputs, _step, _rounds: inputs)
    """The part of the inputs that one step asks: (settings, inputs, step, the gate's rounds)."""


AnyCheck = Check[Any, Any]


def step_name(check: AnyCheck, settings: Settings, inputs: Inputs | None, step: int, rounds: int) -> str:
    """Return what people call a step, such as `round 2`, or `samples` for a pass that is none of the gate's rounds.

    `rounds` is the gate's. A record of an older servegate may hold a step that these settings do not plan; it has a number.
    """
    planned = check.steps(settings, inputs, rounds)
    part = check.part(settings, inputs, step, rounds) if inputs is not None and step < planned else None
    return (part or Inputs()).called(step)


def not_measured(evidence: Evidence[Any]) -> NotMeasured | None:
    """Return why nothing can be compared, baseline first, or None when both arms were measured."""
    for arm, side in (("baseline", evidence.baseline), ("candidate", evidence.candidate)):
        if isinstance(side.measurement, NotMeasured):
            reason = side.measurement.reason
            return NotMeasured(reason=Reason(code=reason.code, message=f"{arm}: {reason.message}"))
    return None


def measured(evidence: Evidence[M]) -> tuple[M, M]:
    """Return both measurements. Raises ValueError when one is missing: ask `not_measured` first."""
    baseline, candidate = evidence.baseline.measurement, evidence.candidate.measurement
    if isinstance(baseline, NotMeasured) or isinstance(candidate, NotMeasured):
        raise ValueError("both arms must be measured to be compared")
    return baseline, candidate


def finding(
    check: str, code: str, severity: Severity, message: str, *, evidence: tuple[EvidenceRef, ...] = (), **rule: Any
) -> Finding:
    """Return a finding of a check; its code is `<check>/<code>`. `rule`, `value`, `operator`, `limit` name a fired rule."""
    return Finding(code=f"{check}/{code}", severity=severity, check=check, message=message, evidence=evidence, **rule)


def remarks(findings: tuple[Finding, ...]) -> tuple[Text, ...]:
    """Return the line that opens a section: which findings are this check's, set off when one of them blocks.

    Their words stand once, under the report's Findings; a reader who met each sentence twice would look for the difference.
    """
    if not findings:
        return ()
    blocking = [item for item in findings if item.severity is not Severity.INFO]
    notes = [item for item in findings if item.severity is Severity.INFO]
    parts = [f"{word} {_codes(items)}" for word, items in (("Findings of this check:", blocking), ("Notes:", notes)) if items]
    return (Text(text=". ".join(parts) + ".", tone="caution" if blocking else "plain"),)


def _codes(findings: list[Finding]) -> str:
    return ", ".join(dict.fromkeys(item.code.rpartition("/")[2] for item in findings))


__all__ = [
    "NO_MEASUREMENT", "AnyCheck", "ArmEvidence", "Change", "Check", "Choice", "Comparison", "Estimate", "Evidence", "Inputs",
    "MeasureContext", "Outcome", "ReadFile", "finding", "measured", "not_measured", "remarks", "step_name",
]  # fmt: skip
