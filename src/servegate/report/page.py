"""What a report consists of: the records that `view` fills and the templates read. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from servegate.domain.blocks import Section
from servegate.domain.deciding import Figures
from servegate.domain.evidence import EngineFacts
from servegate.domain.judgement import Verdict
from servegate.domain.manifest import Manifest
from servegate.domain.plan import Plan
from servegate.report.armview import ArmGroup
from servegate.report.deciding import DecidingView
from servegate.report.shown import BlockView, Limits
from servegate.report.words import Word

Stage = tuple[str, str | None, float | None]
"""(title, arm, seconds) of one stage of the run."""


@dataclass(frozen=True)
class Medium:
    """How much of everything one document shows."""

    limits: Limits = field(default_factory=Limits)
    findings: int = 200
    notes: int = 100
    evidence: int = 12
    knobs: int = 60
    checks: int = 60
    sentence: int = 1_000
    value: int = 400
    knob: int = 160
    arms: int = 12
    """Arms whose failed start is told."""


@dataclass(frozen=True)
class KnobView:
    """What differs between the arms."""

    name: str
    baseline: str
    candidate: str
    source: str


@dataclass(frozen=True)
class CheckRow:
    """One line of the table of checks."""

    anchor: str
    title: str
    question: str
    word: Word
    counts: bool
    """Whether it has a part in the outcome; else it informs."""
    summary: str
    noise: str
    n: str


@dataclass(frozen=True)
class FindingView:
    """One finding."""

    word: Word
    code: str
    message: str
    rule: str
    evidence: tuple[str, ...]
    more_evidence: int
    anchors: tuple[str, ...] = ()
    """Of each piece of evidence, where the page shows it; empty where it does not."""


@dataclass(frozen=True)
class SectionView:
    """One check's section."""

    row: CheckRow
    blocks: tuple[BlockView, ...]


@dataclass(frozen=True)
class FailedStart:
    """An engine that did not start: what a person needs to see it happen again."""

    arm: str
    what: str
    """`did not start`, or `stopped while it was measured`."""
    exception: str
    code: str
    place: str
    workaround: str | None
    command: str


@dataclass(frozen=True)
class StageRow:
    """Seconds of one stage, and its share of the longest for the bar beside it (0 to 20)."""

    title: str
    arm: str
    seconds: str
    twentieths: int


@dataclass(frozen=True)
class ArmPlan:
    """How an arm was served."""

    name: str
    config: str
    sha256: str
    command: str
    text: str


@dataclass(frozen=True)
class Page:
    """Everything that is shown."""

    gate: str
    marker: str
    title: str
    verdict: Word
    headline: str
    lead: str
    """The headline where the diagnosis of a failed start follows anyway: without the exception that both hold."""
    description: str
    """What a person wrote about the change in the gate config; Markdown, and hostile like everything else."""
    policy: str
    subject: str
    """The serving config that a pull request changes; empty for a gate that was run by hand."""
    status: str | None
    """Why the run itself is incomplete; `None` when it is complete."""
    knobs: tuple[KnobView, ...]
    more_knobs: int
    scope: tuple[tuple[str, str], ...]
    valid_for: str
    """Card and engine of the scope, for the one line that stands where the rest is folded."""
    failed: tuple[FailedStart, ...]
    checks: tuple[CheckRow, ...]
    more_checks: int
    deciding: DecidingView | None
    """The one table of what a person has to decide on."""
    findings: tuple[FindingView, ...]
    more_findings: int
    notes: tuple[FindingView, ...]
    more_notes: int
    sections: tuple[SectionView, ...]
    arms: tuple[str, ...]
    arm_groups: tuple[ArmGroup, ...]
    plans: tuple[ArmPlan, ...]
    settings: tuple[tuple[str, str, str], ...]
    facts: tuple[tuple[str, str], ...]
    accepted: tuple[str, ...]
    stages: tuple[StageRow, ...]
    total_seconds: str
    outcomes: tuple[Word, ...]
    how_to_read: tuple[tuple[str, str], ...]
    run_command: str
    servegate: str


@dataclass(frozen=True)
class Source:
    """What a report is made of."""

    plan: Plan
    engines: Mapping[str, EngineFacts | None]
    """Start-up facts by arm; None when no start was attempted."""
    manifests: Mapping[str, Manifest | None]
    """Environment by arm; None when it was not collected."""
    verdict: Verdict
    sections: tuple[Section, ...]
    """What the checks present, in the order in which they are shown."""
    run_status: str
    """Status of run.json; anything but `complete` is said at the top."""
    stages: tuple[Stage, ...] = ()
    """(title, arm, seconds) of each stage, in order."""
    figures: tuple[Figures, ...] = ()
    """The rows of the table of what a person has to decide on, every one of them."""
