"""Publishes one run: its verdict, or that it has none. A refusal is kept beside what was to be published."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click

from servegate import pipeline, publish
from servegate.artifacts import RunDirectory
from servegate.cli.unfinished import FILES, how_it_ended, notice, switched_on
from servegate.domain.judgement import Outcome, Verdict
from servegate.errors import PublishError, RunDirectoryError
from servegate.publish import outputs
from servegate.publish.annotations import annotations_of
from servegate.report.unfinished import Ended

ANOTHER_JOBS = frozenset({"workflow_run"})
"""Events in which the run directory was made by another workflow."""


@dataclass(frozen=True)
class Wanted:
    """What was asked for on the command line."""

    comment: bool
    check_run: bool
    neutral: frozenset[Outcome]
    ended: str | None

    def publication(self, gate: str, run: Path) -> publish.Publication:
        """Return what is published where there is no plan to ask."""
        return publish.Publication(gate=gate, run_directory=str(run), comment=self.comment, check_run=self.check_run)


@dataclass(frozen=True)
class Said:
    """What is published of one run: its verdict, or what stands in its place, and the outputs that it gives."""

    verdict: Verdict
    measured: bool
    outputs: dict[str, str]
    refused: PublishError | None
    """Why GitHub has not got it."""
    complete: bool = True
    """Whether the run was carried out to its end; one that was not is a REVIEW of its own kind, which is never let through."""


def publish_run(run: Path, wanted: Wanted, *, several: bool = False) -> Said:
    """Publish a run. `several`: it is one of those of a pull request, whose overview writes the outputs."""
    directory = RunDirectory.open(run)
    with ExitStack() as stack:
        if os.environ.get("GITHUB_EVENT_NAME") in ANOTHER_JOBS and (run / "plan.json").is_file():
            # Another workflow measured, perhaps a fork's. What it says it found is not believed: a copy of the evidence is
            # judged and drawn here.
            copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="servegate-")), "run")
            shutil.copytree(directory.root, copy)
            directory = RunDirectory.open(copy)
            pipeline.compare(directory)
            pipeline.report(directory)
        how = how_it_ended(directory, wanted.ended)
        if how is not None:
            return publish_unfinished(wanted.publication(directory.read_run().gate, run), how, directory)
        return _publish_judged(directory, run, wanted, several=several)


def publish_unfinished(where: publish.Publication, how: Ended, directory: RunDirectory | None = None, why: str = "") -> Said:
    """Publish that there is no verdict; `why` is a better reason than how it ended."""
    files, verdict, settings = notice(where, how, directory, why)
    return Said(verdict, False, outputs.nothing(), tell(files, verdict, settings))


def tell(files: dict[str, bytes], verdict: Verdict, settings: publish.Publication) -> PublishError | None:
    """Publish, print what was done, and return why it could not be done."""
    try:
        for line in publish.publish(files, verdict, settings, os.environ).log:
            click.echo(line)
    except PublishError as error:
        return error
    return None


def _publish_judged(directory: RunDirectory, run: Path, wanted: Wanted, *, several: bool) -> Said:
    files = {}
    for name in FILES:
        path = directory.root / "report" / name
        if not path.is_file():
            raise RunDirectoryError(f"{path} is missing", advice=f"Run `servegate report {run}` first.")
        files[name] = path.read_bytes()
    plan, verdict = directory.read_plan(), directory.read_verdict()
    complete = directory.read_run().status == "complete"
    said = {
        "report-path": f"{run}/report/report.html",
        "findings": outputs.codes(verdict),
        **outputs.figures(
            verdict,
            {name: directory.read_comparison(name) for name in plan.checks},
            {name: directory.read_engine(name) for name in plan.arms},
        ),
    }
    settings = publish.Publication(
        gate=plan.gate,
        run_directory=str(run),
        comment=wanted.comment and switched_on(plan, "publish.comment", True),
        check_run=wanted.check_run and switched_on(plan, "publish.check_run", False),
        neutral=wanted.neutral if complete else frozenset(),
        tested=plan.origin.head if plan.origin else None,
        annotations=annotations_of(plan, verdict),
        outputs=None if several else said,
    )
    return Said(verdict, True, said, tell(files, verdict, settings), complete)
