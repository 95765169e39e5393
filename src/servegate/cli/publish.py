"""`servegate publish`: the verdict into the pull request's comment, the step summary and the step's outputs."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from servegate import pipeline, publish
from servegate.artifacts import RunDirectory
from servegate.cli.options import RUN_ARGUMENT
from servegate.cli.unfinished import ENDS, FILES, from_job, how_it_ended, no_verdict, notice
from servegate.config.schema import GATE_NAME
from servegate.domain.judgement import Outcome, Verdict
from servegate.domain.plan import Plan
from servegate.domain.records import Json
from servegate.errors import PublishError, RunDirectoryError, UsageError
from servegate.pipeline.changing import INDEX, Index, read_index
from servegate.publish import outputs
from servegate.publish.annotations import annotations_of
from servegate.report.overview import Row, overall, overview
from servegate.report.unfinished import HOW, Ended

OVERVIEW = "all-serving-configs"
"""Gate id of the overview's comment and check run: the one to require, since it is there whatever changed."""
ANOTHER_JOBS = frozenset({"workflow_run"})
"""Events in which the run directory was made by another workflow."""
NEUTRAL = (Outcome.REVIEW, Outcome.NOT_COMPARABLE)
"""What may be asked to count as passed on GitHub; a FAIL and an ERROR may not."""


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


@click.command("publish", help="Publish a reported run on GitHub Actions; elsewhere, say what would be published.")
@RUN_ARGUMENT
@click.option("--no-comment", is_flag=True, help="Write the summary and outputs only.")
@click.option("--no-check", is_flag=True, help="Put no check run on the commit.")
@click.option("--allow-no-change", is_flag=True, help="When no serving config changed, let the check run be neutral.")
@click.option("--neutral", default="none", show_default=True, help="Outcomes whose check run may merge: review,not_comparable.")
@click.option("--ended", type=click.Choice(ENDS), help="How the job that measured ended; says so where there is no verdict.")
@click.option("--gate", default=OVERVIEW, show_default=True, help="Whose comment to update where there is no run at all.")
def command(
    run: Path, no_comment: bool, no_check: bool, allow_no_change: bool, neutral: str, ended: str | None, gate: str
) -> None:
    """Publish; exit 6 when the verdict could not be put where it belongs, with the summary and outputs written.

    With a token that may only read (a fork's) the exit code is 0: the run directory is stored, and a second job publishes it.
    A folder that `servegate ci` wrote is published as a whole: every run of it, then what was not measured. A run without a
    verdict is published as not evaluated, and writes no output: there is nothing to branch on.
    """
    if not re.fullmatch(GATE_NAME, gate):
        raise UsageError(f"{gate[:80]!r} is no gate id", advice="1 to 40 of a-z, 0-9 and dashes.")
    wanted = Wanted(not no_comment, not no_check, _neutral(neutral), ended)
    if (run / "run.json").is_file():
        _publish_run(run, wanted)
    elif (run / INDEX).is_file():
        _publish_index(run, wanted, allow_no_change=allow_no_change)
    elif (how := from_job(ended)) is not None:
        _publish_unfinished(wanted.publication(gate, run), how)
    else:
        RunDirectory.open(run)


def _neutral(text: str) -> frozenset[Outcome]:
    words = [] if text == "none" else text.split(",")
    allowed = {outcome.value: outcome for outcome in NEUTRAL}
    for word in words:
        if word not in allowed:
            raise UsageError(
                f"--neutral is {text[:80]!r}", why=f"Allowed: none, or a list of {', '.join(allowed)} separated by commas."
            )
    return frozenset(allowed[word] for word in words)


def _tell(files: dict[str, bytes], verdict: Verdict, settings: publish.Publication) -> None:
    for line in publish.publish(files, verdict, settings, os.environ).log:
        click.echo(line)


@dataclass(frozen=True)
class _Said:
    """What was published of one run: its verdict, or what stands in its place, and the outputs that it gives."""

    verdict: Verdict
    measured: bool
    outputs: dict[str, str]


def _publish_run(run: Path, wanted: Wanted, *, several: bool = False) -> _Said:
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
            return _publish_unfinished(wanted.publication(directory.read_run().gate, run), how, directory)
        return _publish_judged(directory, run, wanted, several=several)


def _publish_unfinished(where: publish.Publication, how: Ended, directory: RunDirectory | None = None, why: str = "") -> _Said:
    files, verdict, settings = notice(where, how, directory, why)
    _tell(files, verdict, settings)
    return _Said(verdict, False, outputs.nothing())


def _publish_judged(directory: RunDirectory, run: Path, wanted: Wanted, *, several: bool) -> _Said:
    files = {}
    for name in FILES:
        path = directory.root / "report" / name
        if not path.is_file():
            raise RunDirectoryError(f"{path} is missing", advice=f"Run `servegate report {run}` first.")
        files[name] = path.read_bytes()
    plan, verdict = directory.read_plan(), directory.read_verdict()
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
        comment=wanted.comment and _wanted(plan, "publish.comment", True) is not False,
        check_run=wanted.check_run and _wanted(plan, "publish.check_run", False) is True,
        neutral=wanted.neutral,
        tested=plan.origin.head if plan.origin else None,
        annotations=annotations_of(plan, verdict),
        outputs=None if several else said,
    )
    _tell(files, verdict, settings)
    return _Said(verdict, True, said)


def _publish_index(folder: Path, wanted: Wanted, *, allow_no_change: bool) -> None:
    """Publish every run, then one overview; the overview's outcome is that of the step.

    Everything is attempted before anything that failed is raised: one refused comment must not hide the other verdicts.
    """
    index = read_index(folder)
    rows, said, failed = _publish_pairs(folder, index, wanted)
    outcome, sentence = overall(rows)
    body = overview(rows, index.rules_changed, {"base": index.merge_base, "head": index.head})
    verdict = no_verdict(sentence, outcome, changed=bool(index.rules_changed))
    measured = [each for each in said if each.measured]
    worst = next((each for each in measured if each.verdict.outcome is outcome), measured[0] if measured else None)
    settings = publish.Publication(
        gate=OVERVIEW,
        run_directory=str(folder),
        comment=wanted.comment,
        check_run=wanted.check_run,
        neutral=frozenset({Outcome.REVIEW})
        if allow_no_change and not rows
        else wanted.neutral
        if all(row.measured for row in rows)
        else frozenset(),
        tested=index.head,
        create=len(rows) != 1 or not rows[0].measured,
        outputs={
            "report-path": worst.outputs["report-path"] if worst else "",
            "findings": outputs.codes(*(each.verdict for each in measured)),
            **(_figures(measured[0]) if len(measured) == 1 else outputs.nothing()),
        },
    )
    _tell(dict.fromkeys(FILES, body), verdict, settings)
    if failed is not None:
        raise failed


def _figures(said: _Said) -> dict[str, str]:
    return {name: said.outputs[name] for name in outputs.FIGURES}


def _publish_pairs(folder: Path, index: Index, wanted: Wanted) -> tuple[list[Row], list[_Said], PublishError | None]:
    rows: list[Row] = []
    found: list[_Said] = []
    failed: PublishError | None = None
    left = {each.path: each for each in index.not_measured}

    def attempt(publishing: Callable[[], _Said]) -> _Said | None:
        nonlocal failed
        try:
            found.append(publishing())
        except PublishError as error:
            failed = error
            return None
        return found[-1]

    for pair in index.pairs:
        run = folder / pair.gate
        if (run / "run.json").is_file():
            said = attempt(partial(_publish_run, run, replace(wanted, ended=wanted.ended or "failure"), several=True))
            rows += [_row(path, said, run, wanted) for path in (pair.after, *index.also.get(pair.gate, ()))]
            continue
        # A comment of an earlier run must not stand for a config that was not measured this time; none is made for that.
        reason = left[pair.after].reason if pair.after in left else ""
        how: Ended = "left" if reason else from_job(wanted.ended) or "interrupted"
        where = replace(wanted.publication(pair.gate, run), create=False, tested=index.head)
        attempt(partial(_publish_unfinished, where, how, why=reason))
        if not reason:
            rows.append(Row(pair.after, Outcome.ERROR, "the run ended before it was measured", False))
    for each in index.not_measured:
        outcome = Outcome.REVIEW if each.weight == "review" else Outcome.ERROR
        rows.append(Row(each.path, outcome, each.reason, False))
    return rows, found, failed


def _row(path: str, said: _Said | None, run: Path, wanted: Wanted) -> Row:
    """Return the line of the overview; a run whose own comment was refused still has its verdict."""
    if said is not None:
        return Row(path, said.verdict.outcome, said.verdict.headline.removeprefix("not evaluated: "), said.measured)
    directory = RunDirectory.open(run)
    how = how_it_ended(directory, wanted.ended or "failure")
    if how is not None:
        return Row(path, Outcome.ERROR, HOW[how], False)
    verdict = directory.read_verdict()
    return Row(path, verdict.outcome, verdict.headline, True)


def _wanted(plan: Plan, key: str, default: Json) -> Json:
    """Return a setting of the recorded plan; one that is older than the setting has the default."""
    setting = plan.settings.get(key)
    return default if setting is None else setting.value
