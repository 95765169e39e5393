"""Publishes one run: its verdict, or that it has none. A refusal is kept beside what was to be published."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import click

from servegate import pipeline, publish
from servegate.artifacts import RunDirectory, stored
from servegate.cli.unfinished import FILES, how_it_ended, notice, switched_on
from servegate.config.schema import GATE_NAME
from servegate.domain.judgement import Outcome, Verdict
from servegate.domain.plan import sha256_of
from servegate.errors import NotJudgedError, PublishError, RunDirectoryError, ServegateError
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
    overtaken: bool = False
    """Whether a newer run has been published already."""
    damage: ServegateError | None = None
    """What is wrong with a run that could not be read."""
    complete: bool = True
    """Whether the run was carried out to its end; one that was not is a REVIEW of its own kind, which is never let through."""


def publish_run(run: Path, wanted: Wanted, *, gate: str, tested: str | None = None, several: bool = False) -> Said:
    """Publish a run; of one that can not be read, that it is damaged, in place of what an earlier run left there.

    `gate`, `tested`: whose place that is, where the run does not say. `several`: it is one of those of a pull request, whose
    overview writes the outputs.

    Raises:
        RunDirectoryError: it is no run directory.
        NotJudgedError: it was never judged, and nobody says that its job did not succeed.
    """
    try:
        directory = RunDirectory.open(run)
        if several:
            _ensure_of(directory, gate, tested)
        return _publish(directory, run, wanted, several=several)
    except (NotJudgedError, PublishError):
        raise
    except ServegateError as error:
        if not (run / "run.json").is_file():
            raise
        place = gate if several else _gate_of(run) or gate
        settings = replace(wanted.publication(place, run), tested=tested)
        return replace(publish_unfinished(settings, "damaged", why=f"its run can not be read: {error.what}"), damage=error)


def _gate_of(run: Path) -> str | None:
    """Return the gate that a damaged run was of, so that it takes the place of that gate's older verdict; None when unknown."""
    if (run / "run.json").is_symlink():
        return None
    try:
        gate = RunDirectory(run).read_run().gate
    except ServegateError:
        return None
    return gate if re.fullmatch(GATE_NAME, gate) else None


def _publish(directory: RunDirectory, run: Path, wanted: Wanted, *, several: bool) -> Said:
    with ExitStack() as stack:
        if os.environ.get("GITHUB_EVENT_NAME") in ANOTHER_JOBS and (run / "plan.json").is_file():
            # Another workflow measured, perhaps a fork's. What it says it found is not believed: a copy of the evidence is
            # judged and drawn here.
            copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="servegate-")), "run")
            with stored(copy):
                shutil.copytree(directory.root, copy)
            directory = RunDirectory.open(copy)
            pipeline.compare(directory)
            pipeline.report(directory)
        how = how_it_ended(directory, wanted.ended)
        if how is not None:
            return publish_unfinished(wanted.publication(directory.read_run().gate, run), how, directory)
        return _publish_judged(directory, run, wanted, several=several)


def _ensure_of(directory: RunDirectory, gate: str, head: str | None) -> None:
    """Raise RunDirectoryError when a run is not the one that the index names: its verdict is about something else."""
    named = directory.read_run().gate
    if named != gate:
        raise RunDirectoryError(f"it is of the gate {named[:40]!r}, not of {gate!r}", advice="Measure again.")
    if not (directory.root / "plan.json").is_file():
        return  # it ended before it was planned, and is told as that
    origin = directory.read_plan().origin
    if origin is None or origin.head != head:
        of = origin.head[:12] if origin else "of nobody knows where"
        raise RunDirectoryError(f"it is about the commit {of}, not about {str(head)[:12]}", advice="Measure again.")


def evidence_of(directory: RunDirectory) -> str:
    """Return the sha256 over every file of evidence: what is shown of a run, and what an acceptance is about."""
    return sha256_of(directory.evidence_digests())


def publish_unfinished(where: publish.Publication, how: Ended, directory: RunDirectory | None = None, why: str = "") -> Said:
    """Publish that there is no verdict; `why` is a better reason than how it ended."""
    files, verdict, settings = notice(where, how, directory, why)
    return Said(verdict, False, outputs.nothing(), *tell(files, verdict, settings))


def tell(files: dict[str, bytes], verdict: Verdict, settings: publish.Publication) -> tuple[PublishError | None, bool]:
    """Publish, print what was done; return why it could not be done, and whether a newer run was there already."""
    try:
        done = publish.publish(files, verdict, settings, os.environ)
    except PublishError as error:
        return error, False
    for line in done.log:
        click.echo(line)
    return None, done.comment == "newer"


def _publish_judged(directory: RunDirectory, run: Path, wanted: Wanted, *, several: bool) -> Said:
    directory.ensure_untouched()  # the verdict is of the evidence that was there when it was reached
    files = {}
    for name in FILES:
        path = directory.root / "report" / name
        if not path.is_file():
            raise NotJudgedError(f"{path} is missing", advice=f"Run `servegate report {run}` first.")
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
        drawn_from=evidence_of(directory),
    )
    return Said(verdict, True, said, *tell(files, verdict, settings), complete=complete)
