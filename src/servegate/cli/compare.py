"""`servegate compare`: judge a run directory; exits with the verdict's code."""

from __future__ import annotations

from pathlib import Path

import click

from servegate import pipeline
from servegate.artifacts import RunDirectory
from servegate.cli.options import RUN_ARGUMENT
from servegate.cli.terminal import Terminal, reader_may_leave, show_verdict
from servegate.config import read_ledger
from servegate.domain.judgement import EXIT_CODES


@click.command("compare", help="Judge what a run directory holds. Exits with the verdict's code; needs no engine.")
@RUN_ARGUMENT
@click.option("--accepted", type=click.Path(path_type=Path), help="Differences accepted since; by default those of the plan.")
def command(run: Path, accepted: Path | None) -> int:
    """Compare and show the verdict."""
    ledger = None if accepted is None else read_ledger(accepted, required=True)
    verdict = pipeline.compare(RunDirectory.open(run), ledger)
    with reader_may_leave():
        show_verdict(Terminal(), verdict)
    return int(EXIT_CODES[verdict.outcome])
