"""`servegate accept`: keep what a reader accepted in the repository, so that the same drift is never read twice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import yaml

from servegate import pipeline
from servegate.artifacts import RunDirectory
from servegate.cli.options import RUN_ARGUMENT
from servegate.cli.review import review_directory
from servegate.config import ACCEPTED_FILE, read_ledger
from servegate.errors import UsageError
from servegate.ledger import merged
from servegate.pipeline.changing import INDEX, read_index
from servegate.text import strict_yaml
from servegate.text.utf8 import decoded

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
    if from_comment:
        # PyGithub takes 0.2 s to import, which accepting from a file would pay.
        from servegate.cli.from_comment import entries_of
        from servegate.publish.acceptances import Comments

        entries = entries_of(_runs(run), Comments(os.environ), expires)
    else:
        form = _form(run, reviews or review_directory(run) / "reviews.yaml")
        entries = pipeline.accept(RunDirectory.open(run), form, who, expires)
    ledger = merged(read_ledger(file), entries)
    data = {"version": 1, "accepted": [entry.to_yaml() for entry in ledger.accepted]}
    if entries:
        file.write_text(HEAD + yaml.safe_dump(data, sort_keys=False, allow_unicode=False, width=120), encoding="utf-8")
    click.echo(f"{len(entries)} accepted, {len(ledger.accepted)} in {file}")
    if entries:
        click.echo(f"judge this run again: servegate compare {run} --accepted {file}")


def _runs(folder: Path) -> list[RunDirectory]:
    """Return the run of a folder, or every one of those that `servegate ci` wrote, each of them judged."""
    several = not (folder / "run.json").is_file() and (folder / INDEX).is_file()
    places = [folder / pair.gate for pair in read_index(folder).pairs] if several else [folder]
    runs = [RunDirectory.open(place) for place in places if not several or (place / "run.json").is_file()]
    for run in runs:
        if not (run.root / "verdict.json").is_file():
            pipeline.compare(run)
    return runs


def _form(run: Path, path: Path) -> dict[str, Any]:
    try:
        text = decoded(path.read_bytes())
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} can not be read: {error}", advice=f"Write it: servegate review {run}") from error
    return strict_yaml.load(text, str(path)).data
