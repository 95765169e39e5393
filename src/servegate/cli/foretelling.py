"""What `servegate plan` can say of a run before it starts: is PASS in reach, how much is asked, how long it took before.

How fast this machine serves this model is not known, so seconds are only those of an earlier run of the same gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from servegate.artifacts import RunDirectory
from servegate.checks import discovered
from servegate.checks.reach import Amount
from servegate.checks.reaching import out_of_reach
from servegate.checks.throughput.pace import restart_sd
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.config import Resolved
from servegate.domain.arms import Role
from servegate.domain.calibration import restarts, valid_for
from servegate.domain.plan import Plan, Step
from servegate.errors import RunDirectoryError

AROUND = "starts"
"""What stages without a check are: an engine starts, is stopped, sleeps."""


def foretold(found: Resolved) -> Iterator[tuple[str, bool]]:
    """Yield lines for people, each with whether it is a warning."""
    reasons, remarks = out_of_reach(found.plan, found.settings, found.inputs)
    if reasons:
        yield "PASS is out of reach: REVIEW is the best that this plan can end with, however good the candidate is", True
    for reason in reasons:
        yield f"  - {reason}", True
    for remark in remarks:
        yield f"note: {remark}", False
    advice = _spread(found)
    if advice:
        yield f"throughput: {advice}", False
    yield _asked(found), False
    before = last_time(found.run_root, found.plan)
    if before:
        yield before, False


def _spread(found: Resolved) -> str | None:
    """Say what to set where this gate's own record of its starts and what its intervals will hold do not agree."""
    settings, plan = found.settings.get("throughput"), found.plan
    if plan.calibration is None or not isinstance(settings, ThroughputSettings):
        return None
    spread = restarts(plan.calibration, valid_for(plan), measured=False)
    if spread is None:
        return None
    return spread.against(restart_sd(host=spread.setting == "host_restart_sd", settings=settings))


def asked(found: Resolved, step: Step) -> Amount:
    """Return how much a step asks."""
    check, settings = discovered()[step.check], found.settings[step.check]
    inputs = found.inputs.get(step.check)
    part = None if inputs is None else check.part(settings, inputs, step.step, found.plan.rounds)
    return check.amount(settings, part, step.step)


def _asked(found: Resolved) -> str:
    """Return how many requests each check makes of one arm, as far as that is known now."""
    said = []
    for name in dict.fromkeys(step.check for step in found.plan.schedule):
        steps = [step for step in found.plan.schedule if (step.arm, step.check) == (Role.BASELINE.value, name)]
        counts = [asked(found, step).requests for step in steps]
        known = [count for count in counts if count is not None]
        said.append(f"{name} {sum(known):,}" if len(known) == len(counts) else f"{name} (known once it serves)")
    return f"requests to each arm: {', '.join(said) or 'none'}; how long they take is not known before they were made here"


def last_time(root: Path, plan: Plan) -> str | None:
    """Return the seconds of the run that lies where this one would go; None without a complete one."""
    try:
        record = RunDirectory.open(root).read_run()
    except (RunDirectoryError, OSError):
        return None
    stages = record.data.get("stages")
    if record.status != "complete" or not isinstance(stages, list):
        return None
    seconds: dict[str, float] = {}
    for stage in stages:
        if isinstance(stage, dict) and isinstance(stage.get("seconds"), int | float):
            name = str(stage.get("check") or AROUND)
            seconds[name] = seconds.get(name, 0.0) + stage["seconds"]
    parts = ", ".join(f"{name} {value:,.0f}" for name, value in sorted(seconds.items(), key=lambda item: item[0] != AROUND))
    other = "" if record.plan == plan.fingerprint() else ", under another plan"
    return f"last time: {sum(seconds.values()):,.0f} s ({parts}){other}" if seconds else None
