"""`servegate publish`: the verdict into the pull request's comment, the step summary and the step's outputs."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from servegate import pipeline, publish
from servegate.artifacts import RunDirectory
from servegate.cli.options import RUN_ARGUMENT
from servegate.domain.judgement import Outcome, PolicyRef, Scope, Verdict
from servegate.domain.plan import Plan
from servegate.domain.records import Json
from servegate.errors import PublishError, RunDirectoryError
from servegate.pipeline.changing import INDEX, read_index
from servegate.publish.annotations import annotations_of
from servegate.report.overview import Row, overall, overview

FILES = ("comment.md", "summary.md")
OVERVIEW = "all-serving-configs"
"""Gate id of the overview's comment and check run: the one to require, since it is there whatever changed."""
ANOTHER_JOBS = frozenset({"workflow_run"})
"""Events in which the run directory was made by another workflow."""


@click.command("publish", help="Publish a reported run on GitHub Actions; elsewhere, say what would be published.")
@RUN_ARGUMENT
@click.option("--no-comment", is_flag=True, help="Write the summary and outputs only.")
@click.option("--no-check", is_flag=True, help="Put no check run on the commit.")
@click.option("--allow-no-change", is_flag=True, help="When no serving config changed, let the check run be neutral.")
def command(run: Path, no_comment: bool, no_check: bool, allow_no_change: bool) -> None:
    """Publish; exit 6 when the verdict could not be put where it belongs, with the summary and outputs written.

    With a token that may only read (a fork's) the exit code is 0: the run directory is stored, and a second job publishes it.
    A folder that `servegate ci` wrote is published as a whole: every run of it, then what was not measured.
    """
    if not (run / "run.json").is_file() and (run / INDEX).is_file():
        _publish_index(run, no_comment, no_check, allow_no_change=allow_no_change)
    else:
        _publish_run(run, no_comment, no_check, outputs=True)


def _publish_run(run: Path, no_comment: bool, no_check: bool, *, outputs: bool) -> Verdict:
    directory = RunDirectory.open(run)
    with ExitStack() as stack:
        if os.environ.get("GITHUB_EVENT_NAME") in ANOTHER_JOBS:
            # Another workflow measured, perhaps a fork's. What it says it found is not believed: a copy of the evidence is
            # judged and drawn here.
            copy = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="servegate-")), "run")
            shutil.copytree(directory.root, copy)
            directory = RunDirectory.open(copy)
            pipeline.compare(directory)
            pipeline.report(directory)
        return _publish_judged(directory, run, no_comment, no_check, outputs=outputs)


def _publish_judged(directory: RunDirectory, run: Path, no_comment: bool, no_check: bool, *, outputs: bool) -> Verdict:
    files = {}
    for name in FILES:
        path = directory.root / "report" / name
        if not path.is_file():
            raise RunDirectoryError(f"{path} is missing", advice=f"Run `servegate report {run}` first.")
        files[name] = path.read_bytes()
    plan, verdict = directory.read_plan(), directory.read_verdict()
    settings = publish.Publication(
        gate=plan.gate,
        run_directory=str(run),
        comment=not no_comment and _wanted(plan, "publish.comment", True) is not False,
        check_run=not no_check and _wanted(plan, "publish.check_run", False) is True,
        neutral=frozenset(outcome for outcome in Outcome if outcome.value in _listed(_wanted(plan, "publish.neutral", []))),
        tested=plan.origin.head if plan.origin else None,
        annotations=annotations_of(plan, verdict),
        outputs=outputs,
    )
    for line in publish.publish(files, verdict, settings, os.environ).log:
        click.echo(line)
    return verdict


def _publish_index(folder: Path, no_comment: bool, no_check: bool, *, allow_no_change: bool) -> None:
    """Publish every run, then one overview; the overview's outcome is that of the step.

    Everything is attempted before anything that failed is raised: one refused comment must not hide the other verdicts.
    """
    index = read_index(folder)
    rows, failed = [], None
    for pair in index.pairs:
        run = folder / pair.gate
        if (run / "run.json").is_file():
            try:
                verdict = _publish_run(run, no_comment, no_check, outputs=False)
            except PublishError as error:
                failed, verdict = error, RunDirectory.open(run).read_verdict()
            said = [Row(path, verdict.outcome, verdict.headline, True) for path in (pair.after, *index.also.get(pair.gate, ()))]
            rows += said
        elif pair.after not in {each.path for each in index.not_measured}:
            rows.append(Row(pair.after, Outcome.ERROR, "the run ended before it was measured", False))
    for each in index.not_measured:
        outcome = Outcome.ERROR if each.weight == "refused" else Outcome.REVIEW
        rows.append(Row(each.path, outcome, each.reason, False))
    outcome, headline = overall(rows)
    body = overview(rows, index.rules_changed, {"base": index.merge_base, "head": index.head})
    policy = PolicyRef(ref="-", sha256="", changed_in_head=bool(index.rules_changed))
    scope = Scope(gpu="-", driver="-", engine="-", kernels="-")
    verdict = Verdict(outcome=outcome, headline=headline, scope=scope, checks={}, findings=(), policy=policy)
    settings = publish.Publication(
        gate=OVERVIEW,
        run_directory=str(folder),
        comment=not no_comment,
        check_run=not no_check,
        neutral=frozenset({Outcome.REVIEW}) if allow_no_change and not rows else frozenset(),
        tested=index.head,
        create=len(rows) != 1 or not rows[0].measured,
    )
    for line in publish.publish(dict.fromkeys(FILES, body), verdict, settings, os.environ).log:
        click.echo(line)
    if failed is not None:
        raise failed


def _wanted(plan: Plan, key: str, default: Json) -> Json:
    """Return a setting of the recorded plan; one that is older than the setting has the default."""
    setting = plan.settings.get(key)
    return default if setting is None else setting.value


def _listed(value: Json) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()
