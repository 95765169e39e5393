"""What a gate knows of its own error rates: runs of a config against itself, and what they add up to.

`servegate calibrate` writes one as a small file, `calibration.json`; plan and report show its headline. It informs and never
judges. It holds for one setting alone (`ValidFor`): another card, engine, policy or workload has another noise.
"""

from __future__ import annotations

import math
from datetime import date
from typing import Literal, Self

from pydantic import Field, model_validator

from servegate.domain.arms import Role
from servegate.domain.evidence import EngineFacts
from servegate.domain.manifest import Manifest
from servegate.domain.plan import Plan, sha256_of
from servegate.domain.records import Day, Json, Record, VersionOne

KIND, SCHEMA_VERSION = "calibration", 1
STALE_DAYS = 30
"""Drivers, engines and neighbours change: an older record is still shown, and called old."""
MOST_RUNS = 100_000
ALPHA, ROUNDING = 0.05, 0.001
KNOWN_AT_PLAN_TIME = ("policy", "model", "baseline", "workload", "limits")


class ValidFor(Record):
    """What a false-alarm rate is valid for. The last three are hashes (sha256)."""

    gpu: str
    """The cards, or `no GPU (<CPU>)`."""
    driver: str
    engine: str
    """Version of the engine."""
    policy: str
    model: str
    baseline: str
    """Of the baseline's arguments and environment."""
    workload: str
    """Of everything that was asked: settings outside limits, inputs, rounds, servegate's version."""
    limits: str
    """Of every limit."""

    def differs(self, other: ValidFor, *, measured: bool = True) -> tuple[str, ...]:
        """Return what differs, for people; `measured` False leaves out what only a started engine tells."""
        names = tuple(ValidFor.model_fields) if measured else KNOWN_AT_PLAN_TIME
        return tuple(_difference(name, str(getattr(self, name)), str(getattr(other, name))) for name in names
                     if getattr(self, name) != getattr(other, name))  # fmt: skip


def _difference(name: str, mine: str, theirs: str) -> str:
    return f"another {name}" if name in ("baseline", "workload", "limits") else f"{name} {mine}, here {theirs}"


def valid_for(plan: Plan, facts: EngineFacts | None = None, manifest: Manifest | None = None) -> ValidFor:
    """Return the setting of a plan, and of what served it as far as that is known."""
    baseline = plan.arms[Role.BASELINE.value]
    checks = {name: values.get("limits") if isinstance(values, dict) else None for name, values in plan.checks.items()}
    cards = ", ".join(gpu.name for gpu in manifest.gpus) if manifest else ""
    return ValidFor(
        gpu=cards or (f"no GPU ({manifest.cpu})" if manifest else "unknown"),
        driver=(manifest.driver or "none") if manifest else "unknown",
        engine=(facts.version or "unknown") if facts else "unknown",
        policy=plan.policy,
        model=plan.model.source + (f"@{plan.model.revision}" if plan.model.revision else ""),
        baseline=sha256_of({"argv": list(baseline.argv), "environment": baseline.environment}),
        workload=plan.fingerprints.workload,
        limits=sha256_of(checks),
    )


class Split(Record):
    """One start against itself: its even rounds as the baseline, its odd rounds as the candidate."""

    arm: str
    checks: tuple[str, ...] = ()
    """Checks that could be split: throughput's windows load other prompts each, so they never pair with each other."""
    alarms: tuple[str, ...] = ()
    void: str | None = None


class AaRun(Record):
    """One config against itself on two starts, judged as if it were a change."""

    evidence: str
    """sha256 of the evidence, so that no run counts twice."""
    starts: tuple[str, ...]
    """sha256 of what each engine said of its start: runs that share one are not independent."""
    measured_on: str | None
    outcome: str
    """What the gate says, apart from that the arms are equal."""
    alarms: tuple[str, ...] = ()
    """Codes of FAIL findings: false, since nothing changed."""
    held: tuple[str, ...] = ()
    """Codes of findings that ask for review."""
    void: str | None = None
    """Why it says nothing about false alarms: it broke, or its arms could not be compared."""
    splits: tuple[Split, ...] = ()
    speeds: tuple[tuple[float, ...], ...] = ()
    """Output tokens per second of the windows at the judged concurrency, one tuple a start; empty when they are void."""
    accuracies: tuple[float, ...] = ()
    """Accuracy of each start in percent."""
    spreads: dict[str, float] = {}
    """What the smallest detectable effects are computed from, by name."""


def _proven(alarms: int, runs: int, upper: float) -> bool:
    """Whether so few alarms would come at most once in twenty times at that rate (the binomial distribution)."""
    if upper >= 1:
        return True
    if upper <= 0 or runs == 0:
        return False

    def log_chance(k: int) -> float:
        ways = math.lgamma(runs + 1) - math.lgamma(k + 1) - math.lgamma(runs - k + 1)
        return ways + k * math.log(upper) + (runs - k) * math.log1p(-upper)

    return sum(math.exp(log_chance(k)) for k in range(alarms + 1)) <= ALPHA + ROUNDING


class Rate(Record):
    """`alarms` of `runs`; `upper` is the exact one-sided 95 % limit, None where the runs are not independent or none."""

    alarms: int
    runs: int
    upper: float | None
    reason: str | None = None
    by_check: dict[str, int] = {}
    void: int = 0
    held: int = 0

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        """A record is a file that anybody may write: such as more alarms than runs, or an unproven limit."""
        if not 0 <= self.alarms <= self.runs <= MOST_RUNS or self.void < 0 or self.held < 0:
            raise ValueError(f"{self.alarms} alarms of {self.runs} runs is no count")
        if self.upper is not None and not _proven(self.alarms, self.runs, self.upper):
            raise ValueError(f"{self.alarms} of {self.runs} runs do not prove a limit of {self.upper:.3g}")
        return self


class RestartSpread(Record):
    """Standard deviation between starts and its upper 95 % limit; `unit` is `log ratio` (0.01: 1 %) or `points`."""

    sd: float = Field(ge=0)
    upper: float = Field(ge=0)
    starts: int = Field(ge=2)
    unit: str
    setting: Literal["restart_sd", "host_restart_sd"] = "restart_sd"
    """The limit of throughput that it belongs into: another one where the host set the pace of these runs."""

    def against(self, assumed: float) -> str | None:
        """Say what to change where the spread that a gate assumes lies outside of what its starts showed; None inside.

        Between the estimate and its upper limit the assumption agrees with the record, and few starts show no more. It is
        raised to the estimate, and lowered to the upper limit alone: a spread that is taken too small cries wolf.
        """
        if self.sd <= assumed <= self.upper:
            return None
        better = f"`checks.throughput.limits.{self.setting}: {self.sd if assumed < self.sd else self.upper:.4f}`"
        return (
            f"{self.starts} starts of this gate differ by {self.sd:.2%} (95 %: at most {self.upper:.2%}), and its intervals "
            f"hold {assumed:.2%}: that record changes nothing by itself, {better} in the gate config does "
            "(then calibrate anew, since the record is of the limits as they are)"
        )


class Effect(Record):
    """The smallest effect that this gate finds with a probability of 80 %."""

    check: str
    name: str
    value: float | None
    unit: str
    n: int
    meaning: str
    reason: str | None = None
    """Why there is no value."""


class Calibration(Record):
    """The record: one row a run, and what they add up to."""

    kind: Literal["calibration"] = "calibration"
    schema_version: VersionOne = 1
    servegate: str
    gate: str
    made_on: Day
    """Day on which the youngest run was measured."""

    valid_for: ValidFor
    false_alarms: Rate
    conditional: Rate
    """The splits: they share a start, so their number says little and has no limit."""
    restart: RestartSpread | None
    restart_reason: str | None = None
    restart_accuracy: RestartSpread | None = None
    restart_accuracy_reason: str | None = None
    effects: tuple[Effect, ...]
    runs: tuple[AaRun, ...] = ()

    def brief(self) -> Calibration:
        """Return the record without its rows, as a plan keeps it."""
        return self.model_copy(update={"runs": ()})

    def headline(self) -> str:
        """Return `0 of 12 A/A runs, at most 22 %; restart spread 0.4 %`."""
        rate = self.false_alarms
        text = f"{rate.alarms} of {rate.runs} A/A runs"
        text += f", at most {100 * rate.upper:.0f} %" if rate.upper is not None else f" ({rate.reason})"
        text += f"; {rate.void} void" if rate.void else ""
        return text + (f"; restart spread {100 * self.restart.sd:.1f} %" if self.restart else "; restart spread not known")

    def made_with(self) -> str:
        """Return where it was made: card, engine, day."""
        return f"{self.valid_for.gpu}, vLLM {self.valid_for.engine}, {self.made_on}"

    def age_days(self, today: date) -> int:
        """Return how many days lie between the youngest run and a day."""
        return (today - date.fromisoformat(self.made_on)).days


def restarts(kept: Json, here: ValidFor, *, measured: bool) -> RestartSpread | None:
    """Return the spread between starts that a plan's calibration holds for this setting; None where it does not."""
    try:
        record = Calibration.model_validate(kept)
    except ValueError:
        return None
    return None if record.valid_for.differs(here, measured=measured) else record.restart


def remark(kept: Json, here: ValidFor, today: date | None, *, measured: bool) -> tuple[str, bool]:
    """Return one sentence about a plan's calibration, and whether it holds here; what does not is never shown as a rate."""
    try:
        record = Calibration.model_validate(kept)
    except ValueError:
        return "the plan's calibration is ignored: it can not be read", False
    differing = record.valid_for.differs(here, measured=measured)
    if differing:
        return f"the calibration of {record.made_on} is ignored: it was made under {'; '.join(differing)}", False
    text = f"this gate's own false-alarm record: {record.headline()} ({record.made_with()}"
    age = None if today is None else record.age_days(today)
    if age is not None and age > STALE_DAYS:
        text += f", {age} days old: calibrate anew"
    elif age is not None and age > 0:
        text += f", {age} day{'' if age == 1 else 's'} old"
    elif age is not None and age < 0:
        text += ", later than this run"
    return text + ")", True
