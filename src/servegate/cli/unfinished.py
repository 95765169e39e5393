"""What `servegate publish` does with a run that has no verdict: say so, in the place where a verdict would stand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from servegate.artifacts import RunDirectory
from servegate.domain.judgement import Outcome, PolicyRef, Scope, Verdict
from servegate.domain.plan import Plan
from servegate.domain.records import Json
from servegate.errors import RunDirectoryError
from servegate.publish import Publication
from servegate.report.unfinished import Ended, ended_as, headline, unfinished

FILES = ("comment.md", "summary.md")
ENDS = ("success", "failure", "cancelled", "skipped")
"""How GitHub says that a job ended (`job.status`, `needs.<job>.result`)."""
_ENDED: Mapping[str, Ended] = {"cancelled": "cancelled", "skipped": "skipped", "failure": "failure"}


def how_it_ended(directory: RunDirectory, told: str | None) -> Ended | None:
    """Return how a run ended that has no verdict to publish; None when it has one.

    A run that was not completed is judged for what it is (`compare` makes that a REVIEW), and that is published. A PASS beside
    such a record is a leftover of an earlier run. `told`: how the job ended, as GitHub says, for a record that does not know.
    """
    status = directory.read_run().status
    judged = all((directory.root / name).is_file() for name in ("verdict.json", *(f"report/{each}" for each in FILES)))
    if judged and (status == "complete" or directory.read_verdict().outcome is not Outcome.PASS):
        return None
    if status != "complete":
        return "cancelled" if told == "cancelled" else ended_as(status)
    return from_job(told)


def from_job(told: str | None) -> Ended | None:
    """Return how a job ended that left nothing to publish; None when nobody says that it did not succeed."""
    return _ENDED.get(told or "")


def no_verdict(said: str, outcome: Outcome = Outcome.ERROR, *, changed: bool = False) -> Verdict:
    """Return what stands in a verdict's place: an outcome that is no PASS, with its reason and nothing else."""
    policy = PolicyRef(ref="-", sha256="", changed_in_head=changed)
    scope = Scope(gpu="-", driver="-", engine="-", kernels="-")
    return Verdict(outcome=outcome, headline=said, scope=scope, checks={}, findings=(), policy=policy)


def notice(
    settings: Publication, ended: Ended, directory: RunDirectory | None, why: str = ""
) -> tuple[dict[str, bytes], Verdict, Publication]:
    """Return what `publish` is given: the comment, the outcome, and where it goes. There is no output without a verdict."""
    stages: tuple[Json, ...] = ()
    if directory is not None:
        listed = directory.read_run().data.get("stages", ())
        stages = tuple(listed) if isinstance(listed, list | tuple) else ()
    plan = _plan(directory)
    told = replace(
        settings,
        comment=settings.comment and switched_on(plan, "publish.comment", True),
        check_run=settings.check_run and switched_on(plan, "publish.check_run", False),
        evidence=directory is not None,
        tested=settings.tested or (plan.origin.head if plan and plan.origin else None),
        conclusion="cancelled" if ended == "cancelled" else None,
    )
    outcome = Outcome.REVIEW if ended == "left" else Outcome.ERROR
    body = unfinished(settings.gate, ended, stages, why)
    return dict.fromkeys(FILES, body), no_verdict(headline(ended, why), outcome), told


def _plan(directory: RunDirectory | None) -> Plan | None:
    """Return the plan, which may never have been written whole."""
    try:
        return directory.read_plan() if directory else None
    except (RunDirectoryError, OSError):
        return None


def switched_on(plan: Plan | None, key: str, default: bool) -> bool:
    """Return a setting of the plan; without a plan nobody switched it off."""
    if plan is None:
        return True
    return plan.settings[key].value is True if key in plan.settings else default
