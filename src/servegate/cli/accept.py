"""`servegate accept`: keep what a reader accepted in the repository, so that the same drift is never read twice."""

from __future__ import annotations

from pathlib import Path

import click
import yaml

from servegate import pipeline
from servegate.artifacts import RunDirectory
from servegate.cli.options import RUN_ARGUMENT
from servegate.cli.review import review_directory
from servegate.config import ACCEPTED_FILE, read_ledger
from servegate.errors import UsageError
from servegate.ledger import merged
from servegate.text import strict_yaml

HEAD = "# Changes of facts that somebody read and accepted; `servegate accept` writes this file. Commit it.\n"


@click.command("accept", help="Add what a filled-in reviews.yaml accepts to the file of accepted differences.")
@RUN_ARGUMENT
@click.option("--reviews", type=click.Path(path_type=Path), help="The filled-in file; by default the one of `review`.")
@click.option("--file", "file", type=click.Path(path_type=Path), default=ACCEPTED_FILE, show_default=True, help="Where to add.")
@click.option("--who", help="Your name; by default the one in the file.")
@click.option("--expires", metavar="DATE", help="Last day on which it holds (2027-03-01); by default the one in the file.")
def command(run: Path, reviews: Path | None, file: Path, who: str | None, expires: str | None) -> None:
    """Read the answers, write the ledger."""
    form = reviews or review_directory(run) / "reviews.yaml"
    try:
        text = form.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{form} can not be read: {error}", advice=f"Write it: servegate review {run}") from error
    entries = pipeline.accept(RunDirectory.open(run), strict_yaml.load(text, str(form)).data, who, expires)
    ledger = merged(read_ledger(file), entries)
    data = {"version": 1, "accepted": [entry.to_yaml() for entry in ledger.accepted]}
    if entries:
        file.write_text(HEAD + yaml.safe_dump(data, sort_keys=False, allow_unicode=False, width=120), encoding="utf-8")
    click.echo(f"{len(entries)} accepted, {len(ledger.accepted)} in {file}")
    if entries:
        click.echo(f"judge this run again: servegate compare {run} --accepted {file}")
