"""`servegate publish`: the verdict into the pull request's comment, the step summary and the step's outputs."""

from __future__ import annotations

import os
from pathlib import Path

import click

from servegate import pipeline, publish
from servegate.artifacts import RunDirectory
from servegate.cli.options import RUN_ARGUMENT
from servegate.domain.judgement import Outcome
from servegate.domain.plan import Plan
from servegate.domain.records import Json
from servegate.errors import RunDirectoryError
from servegate.publish.annotations import annotations_of

FILES = ("comment.md", "summary.md")
ANOTHER_JOBS = frozenset({"workflow_run"})
"""Events in which the run directory was made by another workflow."""


@click.command("publish", help="Publish a reported run on GitHub Actions; elsewhere, say what would be published.")
@RUN_ARGUMENT
@click.option("--no-comment", is_flag=True, help="Write the summary and outputs only.")
@click.option("--no-check", is_flag=True, help="Put no check run on the commit.")
def command(run: Path, no_comment: bool, no_check: bool) -> None:
    """Publish; exit 6 when the verdict could not be put where it belongs, with the summary and outputs written.

    With a token that may only read (a fork's) the exit code is 0: the run directory is stored, and a second job publishes it.
    """
    directory = RunDirectory.open(run)
    if os.environ.get("GITHUB_EVENT_NAME") in ANOTHER_JOBS:
        # Another workflow measured, perhaps a fork's. What it says it found is not believed: the evidence is judged here.
        pipeline.compare(directory)
        pipeline.report(directory)
    files = {}
    for name in FILES:
        path = directory.root / "report" / name
        if not path.is_file():
            raise RunDirectoryError(f"{path} is missing", advice=f"Run `servegate report {run}` first.")
        files[name] = path.read_bytes()
    plan = directory.read_plan()
    verdict = directory.read_verdict()
    settings = publish.Publication(
        gate=plan.gate,
        run_directory=str(run),
        comment=not no_comment and _wanted(plan, "publish.comment", True) is not False,
        check_run=not no_check and _wanted(plan, "publish.check_run", False) is True,
        neutral=frozenset(outcome for outcome in Outcome if outcome.value in _listed(_wanted(plan, "publish.neutral", []))),
        tested=plan.origin.head if plan.origin else None,
        annotations=annotations_of(plan, verdict),
    )
    for line in publish.publish(files, verdict, settings, os.environ).log:
        click.echo(line)


def _wanted(plan: Plan, key: str, default: Json) -> Json:
    """Return a setting of the recorded plan; one that is older than the setting has the default."""
    setting = plan.settings.get(key)
    return default if setting is None else setting.value


def _listed(value: Json) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()
