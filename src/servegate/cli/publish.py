"""`servegate publish`: the verdict into the pull request's comment, the step summary and the step's outputs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import click

from servegate.cli.options import RUN_ARGUMENT
from servegate.cli.publish_index import OVERVIEW, publish_index
from servegate.cli.publish_run import Wanted, publish_run, publish_unfinished
from servegate.cli.unfinished import ENDS, from_job
from servegate.config.schema import GATE_NAME
from servegate.domain.judgement import Outcome
from servegate.errors import UsageError
from servegate.pipeline.changing import INDEX

NEUTRAL = (Outcome.REVIEW, Outcome.NOT_COMPARABLE)
"""What may be asked to count as passed on GitHub; a FAIL and an ERROR may not."""


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
    verdict is published as not evaluated, and writes no output: there is nothing to branch on. So is one that can not be read,
    and the exit code is then 2.
    """
    if not re.fullmatch(GATE_NAME, gate):
        raise UsageError(f"{gate[:80]!r} is no gate id", advice="1 to 40 of a-z, 0-9 and dashes.")
    wanted = Wanted(not no_comment, not no_check, _neutral(neutral), ended)
    if (run / INDEX).is_file() and not (run / "run.json").is_file():
        publish_index(run, wanted, allow_no_change=allow_no_change)
        return
    how = None if (run / "run.json").is_file() else from_job(ended)
    if how is None:
        said = publish_run(run, wanted, gate=gate)
    else:
        said = publish_unfinished(replace(wanted.publication(gate, run), sweeps=gate == OVERVIEW), how)
    if (failure := said.refused or said.damage) is not None:
        raise failure


def _neutral(text: str) -> frozenset[Outcome]:
    words = [] if text == "none" else text.split(",")
    allowed = {outcome.value: outcome for outcome in NEUTRAL}
    for word in words:
        if word not in allowed:
            raise UsageError(
                f"--neutral is {text[:80]!r}", why=f"Allowed: none, or a list of {', '.join(allowed)} separated by commas."
            )
    return frozenset(allowed[word] for word in words)
