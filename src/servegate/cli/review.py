"""`servegate review`: a page for reading the changed facts side by side, and a file to fill in."""

from __future__ import annotations

from pathlib import Path

import click

from servegate import pipeline
from servegate.artifacts import RunDirectory
from servegate.cli.options import RUN_ARGUMENT
from servegate.errors import UsageError


@click.command("review", help="Write review.html (unread changes side by side, with the rubric) and reviews.yaml to fill in.")
@RUN_ARGUMENT
@click.option("--output", type=click.Path(path_type=Path), help="Directory of both files; by default <RUN>-review beside it.")
@click.option("--force", is_flag=True, help="Replace a reviews.yaml that is there.")
def command(run: Path, output: Path | None, force: bool) -> None:
    """Write both files and print where they are."""
    directory = RunDirectory.open(run)
    if not (directory.root / "verdict.json").is_file():
        pipeline.compare(directory)
    files, count = pipeline.review(directory)
    target = output or review_directory(run)
    if not count:
        click.echo("nothing to read: no fact changed in every round")
        return
    form = target / "reviews.yaml"
    if form.is_file() and not force:
        raise UsageError(f"{form} is there already", advice="It may be filled in: give --force to replace it, or --output.")
    target.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (target / name).write_bytes(content)
        click.echo(str(target / name))
    click.echo(f"{count} to read; then: servegate accept {run}")


def review_directory(run: Path) -> Path:
    """Return where the files of a run's review go: beside the run, whose own files have checksums."""
    resolved = run.resolve()
    return resolved.parent / f"{resolved.name}-review"
