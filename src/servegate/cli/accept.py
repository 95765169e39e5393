"""`servegate accept`: keep what a reader accepted in the repository, so that the same drift is never read twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import click
import yaml

from servegate import pipeline
from servegate.artifacts import RunDirectory
from servegate.cli.options import RUN_ARGUMENT
from servegate.cli.review import review_directory
from servegate.config import ACCEPTED_FILE, read_ledger
from servegate.errors import PublishError, UsageError
from servegate.ledger import merged
from servegate.publish.commands import WRITERS, Accept, accept_command
from servegate.publish.event import document_of, payload_of, read_event
from servegate.text import strict_yaml

COMMENT_HOLDS_DAYS = 90
"""How long what a comment accepted holds, unless --expires says otherwise."""
HEAD = "# Changes of facts that somebody read and accepted; `servegate accept` writes this file. Commit it.\n"


@click.command("accept", help="Add what a filled-in reviews.yaml accepts to the file of accepted differences.")
@RUN_ARGUMENT
@click.option("--reviews", type=click.Path(path_type=Path), help="The filled-in file; by default the one of `review`.")
@click.option("--file", "file", type=click.Path(path_type=Path), default=ACCEPTED_FILE, show_default=True, help="Where to add.")
@click.option("--who", help="Your name; by default the one in the file.")
@click.option("--expires", metavar="DATE", help="Last day on which it holds (2027-03-01); by default the one in the file.")
@click.option("--from-comment", is_flag=True, help="Take it from the comment of a GitHub event: /servegate accept ID reason.")
def command(run: Path, reviews: Path | None, file: Path, who: str | None, expires: str | None, from_comment: bool) -> None:
    """Read the answers, write the ledger."""
    directory = RunDirectory.open(run)
    if from_comment:
        asked = said_in_comment(os.environ)
        form, who, until = form_of(directory, asked), f"@{asked.login}", date.today() + timedelta(days=COMMENT_HOLDS_DAYS)  # noqa: DTZ011
        expires = expires or until.isoformat()
    else:
        form = _form(run, reviews or review_directory(run) / "reviews.yaml")
    entries = pipeline.accept(directory, form, who, expires)
    if from_comment and not entries:
        raise UsageError("the comment accepts nothing", advice="Write: /servegate accept PROMPT-ID why it may stay")
    ledger = merged(read_ledger(file), entries)
    data = {"version": 1, "accepted": [entry.to_yaml() for entry in ledger.accepted]}
    if entries:
        file.write_text(HEAD + yaml.safe_dump(data, sort_keys=False, allow_unicode=False, width=120), encoding="utf-8")
    click.echo(f"{len(entries)} accepted, {len(ledger.accepted)} in {file}")
    if entries:
        click.echo(f"judge this run again: servegate compare {run} --accepted {file}")


def _form(run: Path, path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can not be read: {error}", advice=f"Write it: servegate review {run}") from error
    return strict_yaml.load(text, str(path)).data


def said_in_comment(environment: Mapping[str, str], connection: Callable[[], Any] | None = None) -> Accept:
    """Return what the event's comment accepts, when its author may write to the repository at this moment.

    Raises:
        UsageError: it is no command, or its author may not.
        PublishError: GitHub could not be asked.
    """
    from servegate.publish.pull_request import connect, permission_of
    from servegate.publish.refusals import said_in_words

    payload = payload_of(environment.get("GITHUB_EVENT_PATH", ""))
    event = read_event(environment, payload)
    asked = accept_command(document_of(payload))
    token = environment.get("GITHUB_TOKEN", "").strip()
    if not token:
        raise PublishError("there is no token to ask who commented", advice="Pass GITHUB_TOKEN in the step's `env:`.")
    with said_in_words(event):
        github = connection() if connection else connect(event.api_url, token)
        may = permission_of(github, event.repository, asked.login)
    if may not in WRITERS:
        raise UsageError(
            f"@{asked.login} may not accept: their permission here is {may!r}", advice="Somebody with write access has to."
        )
    return asked


def form_of(run: RunDirectory, asked: Accept) -> dict[str, Any]:
    """Return the filled-in form for one prompt: every unread change that the run holds of it."""
    files, _count = pipeline.review(run)
    rows = strict_yaml.load(files["reviews.yaml"].decode(), "reviews.yaml").data.get("reviews") or []
    wanted = [{**row, "verdict": "minor", "why": asked.reason} for row in rows if row.get("prompt") == asked.prompt]
    if not wanted:
        unread = ", ".join(str(row.get("prompt")) for row in rows[:20]) or "none"
        raise UsageError(f"this run holds no unread change of {asked.prompt!r}", advice=f"Unread: {unread}.")
    return {"reviews": wanted}
