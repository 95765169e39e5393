"""What `/servegate accept ID reason` accepts of a run directory: the comments' words, held against the changes that it has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from servegate import pipeline
from servegate.artifacts import RunDirectory
from servegate.errors import UsageError
from servegate.ledger import Entry
from servegate.publish.acceptances import DONE, UNKNOWN, Comments
from servegate.publish.commands import Accept
from servegate.text import strict_yaml

HOLDS_DAYS = 90
"""How long what a comment accepted holds, from the day on which it was written."""


def entries_of(runs: Sequence[RunDirectory], comments: Comments, expires: str | None) -> tuple[Entry, ...]:
    """Return what the comments accept of the runs, the newest one last.

    Raises:
        UsageError: the event's comment accepts nothing that any of the runs holds, or its author may not accept.
    """
    comments.writer()
    entries: list[Entry] = []
    held: set[Accept] = set()
    unread: set[str] = set()
    for run in runs:
        rows = strict_yaml.load(pipeline.review(run)[0]["reviews.yaml"].decode(), "reviews.yaml").data.get("reviews") or []
        unread |= {str(row.get("prompt")) for row in rows}
        for said in comments.since(ended_at(run)):
            wanted = [
                {**row, "verdict": "minor", "why": said.asked.reason} for row in rows if row.get("prompt") == said.asked.prompt
            ]
            until = expires or (said.at.date() + timedelta(days=HOLDS_DAYS)).isoformat()
            if wanted:
                held.add(said.asked)
                entries += pipeline.accept(run, {"reviews": wanted}, f"@{said.asked.login}", until)
    if comments.asked not in held:
        comments.react(UNKNOWN)
        shown = ", ".join(sorted(unread)[:20]) or "none"
        raise UsageError(f"this run holds no unread change of {comments.asked.prompt!r}", advice=f"Unread: {shown}.")
    comments.react(DONE)
    return tuple(entries)


def ended_at(run: RunDirectory) -> datetime | None:
    """Return when the last stage of a run ended, by its machine's clock; None when the record does not say."""
    found = []
    for stage in run.read_run().data.get("stages", ()):
        try:
            began = datetime.fromisoformat(str(stage["started_at"]))
            found.append(began + timedelta(seconds=float(stage.get("seconds") or 0)))
        except (ValueError, TypeError, KeyError, OverflowError):
            return None
    return max((each for each in found if each.tzinfo is not None), default=None)
