"""The tables of the accuracy section; each is also a CSV with full precision."""

from __future__ import annotations

from servegate.checks.accuracy.contrast import Contrast, Flips
from servegate.checks.accuracy.estimates import PASS_ALPHA
from servegate.domain.blocks import Cell, Column, Table
from servegate.domain.judgement import Comparison

FLIP_COLUMNS = (
    Column(title="Comparison"), Column(title="Rounds"), Column(title="Answers"), Column(title="Right to wrong"),
    Column(title="Wrong to right"), Column(title="of these suspect"), Column(title="Format flips"),
    Column(title="Both wrong, different"), Column(title="Same text"), Column(title="No answer"),
    Column(title="McNemar p", digits=4),
)  # fmt: skip


def flips_table(comparison: Comparison, between: Contrast) -> Table:
    """Return flips in both directions, candidate and noise in the same columns."""
    rows = [_row("candidate against baseline", flips) for flips in between.rounds]
    if comparison.noise is not None:
        for name, side in (("baseline", comparison.noise.baseline), ("candidate", comparison.noise.candidate)):
            if side is not None:
                rows += [_row(f"{name} against itself", flips) for flips in Contrast.model_validate(side).rounds]
    return Table(
        name="accuracy-flips",
        title="Flips, beside each arm's own noise",
        columns=FLIP_COLUMNS,
        rows=tuple(rows),
        note="The noise floor is the same questions asked again of the same server. More flips than noise are information, "
        "not a failure: a harmless change of numerics usually flips more. The drop decides. Suspect: another filter calls the "
        "wrong answer right. Format flips: another filter flipped, the judged one did not. No answer: empty, failed or cut. "
        "McNemar p: exact, two-sided.",
    )


def _row(name: str, flips: Flips) -> tuple[Cell, ...]:
    rounds = f"{flips.left_round + 1} and {flips.right_round + 1}"
    return (name, rounds, flips.n, flips.right_to_wrong, flips.wrong_to_right, flips.extraction_suspects, flips.format_flips,
            flips.both_wrong_different, flips.same_text, flips.no_answer_left + flips.no_answer_right,
            flips.mcnemar_p)  # fmt: skip


def tasks_table(between: Contrast) -> Table:
    """Return each task by itself, with the bounds of its own drop."""
    rows = []
    for task in between.tasks:
        own, against = task.left_out, task.against
        rows.append(
            (task.task, own.n if own else 0, task.baseline, task.candidate, 100 * own.value if own else None,
             100 * own.mean.upper(PASS_ALPHA) if own else None, 100 * against.mean.upper(PASS_ALPHA) if against else None,
             task.worse, task.better)
        )  # fmt: skip
    return Table(
        name="accuracy-tasks",
        title="Each task by itself",
        columns=(
            Column(title="Task", code=True), Column(title="Questions"), Column(title="Baseline", percent=True),
            Column(title="Candidate", percent=True), Column(title="Drop", unit="points"),
            Column(title="at most (95 %)", unit="points"), Column(title="at most, against the candidate", unit="points"),
            Column(title="Worse"), Column(title="Better"),
        ),
        rows=tuple(rows),
        note="The pooled drop decides. A task FAILs by itself where its drop is sure after Holm's correction for their number.",
    )  # fmt: skip


def filters_table(between: Contrast) -> Table:
    """Return accuracy and flips under every filter, the judged one among them."""
    rows = tuple(
        (name, flips.left_round + 1, flips.n, _share(flips, "right_to_wrong"), _share(flips, "wrong_to_right"),
         flips.right_to_wrong, flips.wrong_to_right)
        for name, rounds in sorted(between.filters.items())
        for flips in rounds
    )  # fmt: skip
    return Table(
        name="accuracy-filters",
        title="Every filter",
        columns=(
            Column(title="Filter", code=True), Column(title="Round"), Column(title="Answers"),
            Column(title="Baseline right", percent=True), Column(title="Candidate right", percent=True),
            Column(title="Right to wrong"), Column(title="Wrong to right"),
        ),
        rows=rows,
        note=f"{between.format_flips} answers flipped under another filter only (their form changed).",
    )  # fmt: skip


def _share(flips: Flips, own_flip: str) -> float | None:
    """Share of right answers of the arm that is right in `own_flip`; None when no pair was answered."""
    return (flips.both_right + int(getattr(flips, own_flip))) / flips.n if flips.n else None


def changed_answers(comparison: Comparison) -> Table:
    """Return every answer that differs in correctness or, both wrong, in what was extracted."""
    rows = tuple(
        (item["id"], item["round"] + 1, item["kind"].replace("_", " "), item["baseline_extracted"], item["candidate_extracted"],
         item["baseline_flips_itself"], item["extraction_suspect"])
        for item in comparison.items
    )  # fmt: skip
    return Table(
        name="accuracy-changed-answers",
        title="Changed answers",
        columns=(
            Column(title="Question", code=True), Column(title="Round"), Column(title="Change"),
            Column(title="Baseline", code=True), Column(title="Candidate", code=True),
            Column(title="Baseline flips itself"), Column(title="Extraction suspect"),
        ),
        rows=rows,
        shown_rows=20,
    )  # fmt: skip
