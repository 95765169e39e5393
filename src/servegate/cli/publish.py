"""`servegate publish`: the verdict into the pull request's comment, the step summary and the step's outputs."""

from __future__ import annotations

import os
from pathlib import Path

import click

from servegate import publish
from servegate.artifacts import RunDirectory
from servegate.cli.options import RUN_ARGUMENT
from servegate.errors import RunDirectoryError

FILES = ("comment.md", "summary.md")


@click.command("publish", help="Publish a reported run on GitHub Actions; elsewhere, say what would be published.")
@RUN_ARGUMENT
@click.option("--no-comment", is_flag=True, help="Write the summary and outputs only.")
def command(run: Path, no_comment: bool) -> None:
    """Publish; exit 6 when the comment could not be put, with the summary and outputs written."""
    directory = RunDirectory.open(run)
    files = {}
    for name in FILES:
        path = directory.root / "report" / name
        if not path.is_file():
            raise RunDirectoryError(f"{path} is missing", advice=f"Run `servegate report {run}` first.")
        files[name] = path.read_bytes()
    plan = directory.read_plan()
    wanted = plan.settings.get("publish.comment")
    settings = publish.Publication(
        gate=plan.gate,
        run_directory=str(run),
        comment=not no_comment and (wanted is None or wanted.value is not False),
    )
    for line in publish.publish(files, directory.read_verdict(), settings, os.environ).log:
        click.echo(line)
