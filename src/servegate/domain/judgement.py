"""What the evidence means: estimates, comparisons, findings, outcomes, the verdict."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from servegate.domain.records import Json, Record
from servegate.errors import ExitCode


class Outcome(StrEnum):
    """Outcome of a check and of the gate."""

    PASS = "pass"  # noqa: S105 - a verdict
    REVIEW = "review"
    FAIL = "fail"
    NOT_COMPARABLE = "not_comparable"
    ERROR = "error"


PRECEDENCE = (Outcome.NOT_COMPARABLE, Outcome.FAIL, Outcome.ERROR, Outcome.REVIEW, Outcome.PASS)
"""Worst first. A void comparison voids everything; a proven failure stands although another check broke."""


EXIT_CODES = {
    Outcome.PASS: ExitCode.PASS,
    Outcome.FAIL: ExitCode.FAIL,
    Outcome.REVIEW: ExitCode.REVIEW,
    Outcome.NOT_COMPARABLE: ExitCode.NOT_COMPARABLE,
    Outcome.ERROR: ExitCode.ERROR,
}
"""Exit code of the verbs that end with a verdict, and the `exit-code` output of the action."""


class Severity(StrEnum):
    """Weight of one finding. `info` never changes an outcome; the others are outcomes."""

    INFO = "info"
    REVIEW = "review"
    FAIL = "fail"
    NOT_COMPARABLE = "not_comparable"
    ERROR = "error"


class Estimate(Record):
    """A number with its interval; `level` is the two-sided confidence level and `method` how it was computed."""

    value: float
    low: float | None
    high: float | None
    unit: str
    n: int
    level: float = 0.95
    method: str = ""
    reason: str | None = None
    """Why there is no interval, when `low` and `high` are `None`."""


class EvidenceRef(Record):
    """Where a finding can be looked up: a check's item by id, and the step it came from."""

    check: str
    id: str
    step: int | None = None


class Finding(Record):
    """One thing a check noticed. `code` is stable (`accuracy/drop`); `value operator limit` is the rule that fired."""

    code: str
    severity: Severity
    check: str
    message: str
    rule: str | None = None
    value: float | None = None
    operator: Literal["<", "<=", ">", ">=", "=="] | None = None
    limit: float | None = None
    evidence: tuple[EvidenceRef, ...] = ()


class Unpaired(Record):
    """Samples that could not be paired, by reason. Any of them blocks PASS."""

    baseline_only: int = 0
    candidate_only: int = 0
    hash_differs: int = 0

    @property
    def total(self) -> int:
        """Number of samples left out of the comparison."""
        return self.baseline_only + self.candidate_only + self.hash_differs


class Noise(Record):
    """Each arm against itself, in the same shape as the comparison's `candidate`."""

    baseline: dict[str, Json] | None
    candidate: dict[str, Json] | None
    reason: str | None = None


class Comparison(Record):
    """Paired result of one check. `candidate` compares candidate to baseline, `noise` each arm to itself."""

    candidate: dict[str, Json]
    noise: Noise | None
    noise_reason: str | None = None
    n: int
    unpaired: Unpaired = Unpaired()
    estimates: dict[str, Estimate] = {}
    items: tuple[dict[str, Json], ...] = ()


class CheckOutcome(Record):
    """Outcome of one check; only a required check can withhold PASS by being absent."""

    outcome: Outcome
    required: bool

    @property
    def counts(self) -> bool:
        """Whether it has a part in the gate's outcome; a check that only informs has one when it FAILs."""
        return self.required or self.outcome is Outcome.FAIL


class Scope(Record):
    """What a verdict is valid for; it says nothing about another card, driver, engine version or kernel set."""

    gpu: str
    driver: str
    engine: str
    kernels: str
    asked: dict[str, str] = {}
    """By check: what was asked, in words a person can hold against the next run: sizes, hashes, lengths, decoding."""


class PolicyRef(Record):
    """Which rules judged."""

    ref: str
    sha256: str
    changed_in_head: bool | None = None


class Verdict(Record):
    """Outcome, its reasons, and what it is valid for."""

    outcome: Outcome
    headline: str
    scope: Scope
    checks: dict[str, CheckOutcome]
    findings: tuple[Finding, ...]
    policy: PolicyRef
    accepted: tuple[Json, ...] = ()
    inputs: dict[str, str] = {}

    def not_judged(self, check: str) -> bool:
        """Return whether a check measured and said itself that it does not judge, with nothing else for a person to read."""
        own = [finding for finding in self.findings if finding.check == check]
        said = any(finding.code.startswith(f"{check}/not-judged-") for finding in own)
        return said and all(finding.severity is Severity.INFO for finding in own)


def worst(outcomes: tuple[Outcome, ...]) -> Outcome:
    """Return the outcome that decides; of nothing, REVIEW: absence of evidence is never PASS."""
    return min(outcomes, key=PRECEDENCE.index, default=Outcome.REVIEW)


def outcome_of(findings: tuple[Finding, ...], compared: int = 1) -> Outcome:
    """Return the outcome that findings add up to; what compared nothing is REVIEW at best, never PASS."""
    blocking = tuple(Outcome(finding.severity.value) for finding in findings if finding.severity is not Severity.INFO)
    return worst((*blocking, Outcome.PASS if compared else Outcome.REVIEW))
