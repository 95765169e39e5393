"""The check run: the verdict on the commit that was tested, where branch protection looks for it.

It stands on the head of the pull request, never on the merge commit that GITHUB_SHA names, which no branch protection
reads. `neutral` counts as passed on GitHub, so it is given only where the workflow asks for it by outcome, or where the
evidence came from a fork's own workflow, which may say that nothing was found but may never say "passed".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from github.CheckRun import CheckRun
from github.Repository import Repository

from servegate.domain.judgement import Outcome
from servegate.publish.annotations import Annotation
from servegate.publish.event import Run
from servegate.publish.workflow_commands import one_line

Conclusion = Literal["success", "failure", "action_required", "neutral", "cancelled"]
CONCLUSIONS: dict[Outcome, Conclusion] = {
    Outcome.PASS: "success",
    Outcome.FAIL: "failure",
    Outcome.ERROR: "failure",
    Outcome.REVIEW: "action_required",
    Outcome.NOT_COMPARABLE: "action_required",
}
MOST_SUMMARY_BYTES = 60_000
"""GitHub takes 65,535 characters; bytes are safe under every reading of that."""
MOST_ANNOTATIONS = 50
"""In one request."""


@dataclass(frozen=True)
class Check:
    """What a check run says."""

    gate: str
    head_sha: str
    conclusion: Conclusion
    title: str
    summary: str
    details_url: str
    annotations: tuple[Annotation, ...] = ()

    @property
    def name(self) -> str:
        """Under this name a branch protection can require it."""
        return f"servegate/{self.gate}"


def conclusion_of(outcome: Outcome, neutral: frozenset[Outcome], *, authoritative: bool) -> Conclusion:
    """Return what GitHub is told. What is not authoritative is never a success."""
    if outcome in neutral:
        return "neutral"
    stated = CONCLUSIONS[outcome]
    return "neutral" if stated == "success" and not authoritative else stated


def put_check(repository: Repository, check: Check, run: Run) -> Literal["created", "updated", "newer"]:
    """Create or update our check run of this name on its commit, unless a newer run has concluded it.

    Looks before it creates, since a request that timed out may have been carried out. Raises what PyGithub raises.
    """
    ours = [each for each in repository.get_commit(check.head_sha).get_check_runs(check_name=check.name) if _run_of(each)]
    newest = max(ours, key=lambda each: (_run_of(each) or run, each.id), default=None)
    output: dict[str, Any] = {
        "title": one_line(check.title, 200),
        "summary": check.summary,
        "annotations": [each.to_github() for each in _first(check.annotations)],
    }
    if newest is not None and (_run_of(newest) or run) > run:
        return "newer"
    if newest is not None:
        newest.edit(conclusion=check.conclusion, status="completed", output=output, external_id=_external(run))
        return "updated"
    repository.create_check_run(
        name=check.name,
        head_sha=check.head_sha,
        details_url=check.details_url,
        external_id=_external(run),
        status="completed",
        conclusion=check.conclusion,
        output=output,
    )
    return "created"


def _first(annotations: Sequence[Annotation]) -> Sequence[Annotation]:
    return annotations[:MOST_ANNOTATIONS]


def _external(run: Run) -> str:
    return f"servegate:{run.id}.{run.attempt}"


def _run_of(check: CheckRun) -> Run | None:
    """Return the run that put a check run; None when it is not ours."""
    prefix, _, numbers = (check.external_id or "").partition(":")
    number, _, attempt = numbers.partition(".")
    ours = prefix == "servegate" and number.isdecimal() and attempt.isdecimal() and len(numbers) < 32
    return Run(int(number), int(attempt)) if ours else None
