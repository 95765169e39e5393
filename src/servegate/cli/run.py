"""`servegate run`: measure, compare, report; exits with the verdict's code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from servegate import pipeline
from servegate.cli.measure import measure
from servegate.cli.options import plan_options, resolved
from servegate.cli.terminal import Terminal, reader_may_leave, show_verdict
from servegate.domain.judgement import EXIT_CODES


@click.command("run", help="Serve both configs, measure, judge and write the report. Exits with the verdict's code.")
@plan_options
@click.option("--force", is_flag=True, help="Replace an earlier run of the same gate.")
def command(config: Path | None, force: bool, **options: Any) -> int:
    """Run a whole gate."""
    found = resolved(config, **options)
    run = measure(found, None, force=force, console=Console(stderr=True))
    verdict = pipeline.compare(run)
    pipeline.report(run)
    with reader_may_leave():
        show_verdict(Terminal(), verdict)
        click.echo(f"report: {run.root / 'report' / 'report.html'}")
    return int(EXIT_CODES[verdict.outcome])
