"""`servegate report`: write the report of a judged run directory."""

from __future__ import annotations

from pathlib import Path

import click

from servegate import pipeline
from servegate.artifacts import RunDirectory
from servegate.cli.options import RUN_ARGUMENT
from servegate.config import read_templates


@click.command("report", help="Write report.html, report.md, comment.md, environment.json and the CSVs of a run directory.")
@RUN_ARGUMENT
@click.option(
    "--templates", type=click.Path(path_type=Path), help="Folder of your own templates; by default those of the plan."
)
def command(run: Path, templates: Path | None) -> None:
    """Render and print where the report is. A run that was never compared is compared first."""
    own = None if templates is None else read_templates(templates)
    directory = RunDirectory.open(run)
    if not (directory.root / "verdict.json").is_file():
        pipeline.compare(directory)
    pipeline.report(directory, own)
    click.echo(str(directory.root / "report" / "report.html"))
