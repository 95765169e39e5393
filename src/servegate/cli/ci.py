"""`servegate ci`: every pair of serving configs that a pull request changes, measured, judged and reported."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import click
from rich.console import Console

from servegate import pipeline
from servegate.artifacts import dump
from servegate.changes import NotMeasured
from servegate.cli.measure import measure
from servegate.cli.options import IMAGES
from servegate.cli.pairs import git_options, left_over, prepared, show
from servegate.cli.terminal import Terminal, printable, show_verdict
from servegate.config import Overrides, load
from servegate.domain.arms import Role
from servegate.domain.judgement import EXIT_CODES, PRECEDENCE, Outcome, worst
from servegate.errors import Cancelled, ExitCode, ServegateError
from servegate.pipeline.changing import INDEX, Index, read_index, resolved_pair


@click.command("ci", help="Measure, judge and report every serving config that a pull request changes. Exits with the worst.")
@git_options
@click.option("--pairs", type=click.Path(path_type=Path), help="What `servegate pairs` wrote; git is not needed then.")
@click.option("--engine", metavar="PATH", help="Engine executable of both arms.")
@IMAGES
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path("servegate-runs"), show_default=True, help="Where runs go."
)
@click.option("--force", is_flag=True, help="Replace earlier runs of the same gates.")
@click.option(
    "--arm",
    type=click.Choice([role.value for role in Role]),
    help="Measure this arm of every pair only, and judge nothing; the candidate's joins the runs that are there.",
)
def command(
    pairs: Path | None,
    engine: str | None,
    images: tuple[str, str] | None,
    arm: str | None,
    output: Path,
    force: bool,
    allow_no_change: bool,
    **options: Any,
) -> int:
    """Run the pairs one after the other; with one arm alone, each of its two runs has half of the budget."""
    folder = pairs or output / ".pairs"
    if pairs is None and force and (folder / INDEX).is_file():
        shutil.rmtree(folder)
    if (folder / INDEX).is_file():
        options["in_the_way"] = "An earlier run lies there: pass --force to replace it, or give another --output."
    index = read_index(folder) if pairs else prepared(folder, **options)
    if arm == Role.CANDIDATE.value and (output / INDEX).is_file():
        index = read_index(output)  # with what could not be measured of the baselines
    show(index)
    outcomes: dict[str, Outcome] = {}
    output.mkdir(parents=True, exist_ok=True)
    overrides = Overrides(engine=engine, output=str(output), images=images)
    _write(output, index, outcomes)  # first of all, so that whatever ends us leaves a list of what was to be done
    rules = load(folder / "rules" / options["config"], Overrides(baseline="-", candidate="-"))
    budget_s = 60 * rules.config.changes.budget_minutes / (1 if arm is None else 2)
    arms = None if arm is None else (arm,)
    longest, started = 0.0, time.monotonic()
    for number, pair in enumerate(index.pairs):
        if arm == Role.CANDIDATE.value and pair.after in {each.path for each in index.not_measured}:
            continue  # its baseline was not measured
        if number and time.monotonic() - started + longest > budget_s:
            reason = f"was not started: `changes.budget_minutes: {budget_s / 60:g}` would not hold it"
            index = _left(index, NotMeasured(pair.after, "budget", reason))
            continue
        begun = time.monotonic()
        try:
            found = resolved_pair(folder, pair.gate, options["config"], overrides)
            run = measure(found, arms, force=force, console=Console(stderr=True))
            if arms is not None:
                continue
            outcomes[pair.gate] = pipeline.compare(run).outcome
            pipeline.report(run)
        except Cancelled:
            raise
        except ServegateError as error:
            # A card that stays busy, a full disk, a lost machine: no fault of the change, and no word on it either.
            weight: Literal["refused", "failed"] = "refused" if error.exit_code is ExitCode.USAGE else "failed"
            index = _left(index, NotMeasured(pair.after, "failed", error.what, weight))
            continue
        finally:
            longest = max(longest, time.monotonic() - begun)
            _write(output, index, outcomes)
        click.echo(printable(f"{pair.after}:"))
        show_verdict(Terminal(), run.read_verdict())
        click.echo(f"report: {run.root / 'report' / 'report.html'}")
    _write(output, index, outcomes)
    return int(_code(outcomes, left_over(index, allow_no_change=allow_no_change)))


def _left(index: Index, what: NotMeasured) -> Index:
    return replace(index, not_measured=(*index.not_measured, what))


def _write(output: Path, index: Index, outcomes: dict[str, Outcome]) -> None:
    data = {**index.to_json(), "kind": "index", "outcomes": {gate: outcome.value for gate, outcome in outcomes.items()}}
    (output / INDEX).write_bytes(dump(data))


def _code(outcomes: dict[str, Outcome], rest: ExitCode) -> ExitCode:
    """Return the worst: a refused config is as bad as an error, and what was not measured is a REVIEW."""
    counted = list(outcomes.values())
    stands_for = {ExitCode.USAGE: Outcome.ERROR, ExitCode.ERROR: Outcome.ERROR, ExitCode.REVIEW: Outcome.REVIEW}
    counted += [stands_for[rest]] if rest in stands_for else []
    if not counted:
        return rest
    decided = worst(tuple(counted))
    refused = rest is ExitCode.USAGE and PRECEDENCE.index(decided) >= PRECEDENCE.index(Outcome.ERROR)
    return ExitCode.USAGE if refused and Outcome.ERROR not in outcomes.values() else EXIT_CODES[decided]
