"""`servegate compare`: judge a run directory; exits with the verdict's code."""

from __future__ import annotations

from pathlib import Path

import click

from servegate import pipeline
from servegate.artifacts import RunDirectory
from servegate.cli.options import RUN_ARGUMENT
from servegate.cli.terminal import Terminal, reader_may_leave, show_verdict
from servegate.domain.judgement import EXIT_CODES


@click.command("compare", help="Judge what a run directory holds. Exits with the verdict's code; needs no engine.")
@RUN_ARGUMENT
def command(run: Path) -> int:
    """Compare and show the verdict."""
    verdict = pipeline.compare(RunDirectory.open(run))
    with reader_may_leave():
        show_verdict(Terminal(), verdict)
    return int(EXIT_CODES[verdict.outcome])
