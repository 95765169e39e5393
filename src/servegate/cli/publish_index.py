"""Publishes what `servegate ci` wrote: every run of a pull request, what was not measured, and one overview of it all."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from servegate import publish
from servegate.changes import NotMeasured
from servegate.cli.publish_run import Said, Wanted, publish_run, publish_unfinished, tell
from servegate.cli.unfinished import FILES, from_job, no_verdict
from servegate.domain.judgement import Outcome
from servegate.errors import RunDirectoryError
from servegate.pipeline.changing import Index, read_index
from servegate.publish import outputs
from servegate.report.overview import Row, overall, overview
from servegate.report.unfinished import Ended

OVERVIEW = "all-serving-configs"
"""Gate id of the overview's comment and check run: the one to require, since it is there whatever changed."""

ACCEPTING = "issue_comment"
"""The event that judges a stored run again: where a newer one has been shown meanwhile, the overview is the newer one's."""


def publish_index(folder: Path, wanted: Wanted, *, allow_no_change: bool) -> None:
    """Publish every run, then the overview, whose outcome is that of the step.

    Everything is attempted before a refusal is raised: one refused comment must not hide the other verdicts.

    Raises:
        PublishError: something was refused.
        RunDirectoryError: the index could not be read, and that is published; or a run, and everything else is published.
    """
    try:
        index = read_index(folder)
    except RunDirectoryError as error:
        settings = replace(wanted.publication(OVERVIEW, folder), sweeps=True)
        done = publish_unfinished(settings, "damaged", why=f"the list of what changed can not be read: {error.what}")
        raise (done.refused or error) from None
    rows, said = _publish_pairs(folder, index, wanted)
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
        neutral=_neutral(rows, said, wanted, allow_no_change=allow_no_change),
        tested=index.head,
        create=len(rows) != 1 or not rows[0].measured,
        sweeps=True,
        outputs={
            "report-path": worst.outputs["report-path"] if worst else "",
            "findings": outputs.codes(*(each.verdict for each in measured)),
            **({name: measured[0].outputs[name] for name in outputs.FIGURES} if len(measured) == 1 else outputs.nothing()),
        },
    )
    refused = [each.refused for each in said]
    if not (any(each.overtaken for each in said) and os.environ.get("GITHUB_EVENT_NAME") == ACCEPTING):
        refused.append(tell(dict.fromkeys(FILES, body), verdict, settings)[0])
    damaged = [each.damage for each in said]
    last = next(filter(None, (*reversed(refused), *damaged)), None)
    if last is not None:
        raise last


def _neutral(rows: list[Row], said: list[Said], wanted: Wanted, *, allow_no_change: bool) -> frozenset[Outcome]:
    """Return the outcomes of the overview that may merge: none where something changed and was not measured to the end."""
    if allow_no_change and not rows:
        return frozenset({Outcome.REVIEW})
    return wanted.neutral if all(row.measured for row in rows) and all(each.complete for each in said) else frozenset()


def _publish_pairs(folder: Path, index: Index, wanted: Wanted) -> tuple[list[Row], list[Said]]:
    rows: list[Row] = []
    found: list[Said] = []
    left = {each.path: each for each in index.not_measured}
    for pair in index.pairs:
        run, also = folder / pair.gate, index.also.get(pair.gate, ())
        if (run / "run.json").is_file():
            mine = replace(wanted, ended=wanted.ended or "failure")
            found.append(publish_run(run, mine, gate=pair.gate, tested=index.head, several=True))
            rows += [_row(path, found[-1]) for path in (pair.after, *also)]
            continue
        # A comment of an earlier run must not stand for a config that was not measured this time; none is made for that.
        missed = left.get(pair.after)
        reason = missed.reason if missed else ""
        how: Ended = "left" if reason else from_job(wanted.ended) or "interrupted"
        where = replace(wanted.publication(pair.gate, run), create=False, tested=index.head)
        found.append(publish_unfinished(where, how, why=reason))
        if missed is None:
            rows += [Row(path, Outcome.ERROR, "the run ended before it was measured", False) for path in (pair.after, *also)]
        else:
            rows += [_left(path, missed) for path in also]
    return [*rows, *(_left(each.path, each) for each in index.not_measured)], found


def _left(path: str, missed: NotMeasured) -> Row:
    """Return the line of a config that was not measured, or that equals one that was not."""
    return Row(path, Outcome.REVIEW if missed.weight == "review" else Outcome.ERROR, missed.reason, False)


def _row(path: str, said: Said) -> Row:
    """Return the line of the overview; a run whose own comment was refused still has its verdict, as it was judged here."""
    return Row(path, said.verdict.outcome, said.verdict.headline.removeprefix("not evaluated: "), said.measured)
