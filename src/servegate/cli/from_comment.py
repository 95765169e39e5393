"""What `/servegate accept ID reason` accepts of a run directory: the comments' words, held against the changes that it has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from servegate import pipeline
from servegate.artifacts import RunDirectory
from servegate.cli.publish_run import evidence_of
from servegate.errors import UsageError
from servegate.ledger import Entry
from servegate.publish.acceptances import DONE, UNKNOWN, Comments, Stored
from servegate.text import strict_yaml

HOLDS_DAYS = 90
"""How long what a comment accepted holds, from the day on which it was written."""


def entries_of(runs: Sequence[RunDirectory], comments: Comments, expires: str | None) -> tuple[Entry, ...]:
    """Return what the comments accept of the runs, run by run, the oldest comment first.

    Raises:
        UsageError: the event's comment accepts nothing that any of the runs holds, does not hold for what it accepts, or its
            author may not accept.
    """
    asked = comments.writer()
    entries: list[Entry] = []
    unread: set[str] = set()
    accepted, against = False, ""
    for run in runs:
        rows = strict_yaml.load(pipeline.review(run)[0]["reviews.yaml"].decode(), "reviews.yaml").data.get("reviews") or []
        unread |= {str(row.get("prompt")) for row in rows}
        standing = comments.standing(_stored(run))
        for said in standing.held:
            wanted = [
                {**row, "verdict": "minor", "why": said.asked.reason} for row in rows if row.get("prompt") == said.asked.prompt
            ]
            until = expires or (said.at.date() + timedelta(days=HOLDS_DAYS)).isoformat()
            if wanted:
                entries += pipeline.accept(run, {"reviews": wanted}, f"@{said.asked.login}", until)
        if asked.prompt in {row.get("prompt") for row in rows}:
            accepted |= standing.against is None
            against = standing.against or against
    if accepted:
        comments.react(DONE)
        return tuple(entries)
    if against:
        comments.refuse(against)
        raise UsageError(f"{asked.prompt!r} is not accepted: {against}", advice="Read what the comment shows now; accept anew.")
    comments.react(UNKNOWN)
    shown = ", ".join(sorted(unread)[:20]) or "none"
    raise UsageError(f"this run holds no unread change of {asked.prompt!r}", advice=f"Unread: {shown}.")


def _stored(run: RunDirectory) -> Stored:
    plan = run.read_plan()
    return Stored(plan.gate, plan.origin.head if plan.origin else None, evidence_of(run))
