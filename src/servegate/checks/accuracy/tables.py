"""The tables of the accuracy section; each is also a CSV with full precision."""

from __future__ import annotations

from servegate.checks.accuracy.contrast import Contrast, Flips
from servegate.domain.blocks import Cell, Column, Table
from servegate.domain.judgement import Comparison

FLIP_COLUMNS = (
    Column(title="Comparison"), Column(title="Rounds"), Column(title="Answers"), Column(title="Right to wrong"),
    Column(title="Wrong to right"), Column(title="Both wrong, different"), Column(title="Same text"),
    Column(title="No answer"), Column(title="McNemar p", digits=4),
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
        "not a failure: a harmless change of numerics usually flips more. The drop decides. McNemar p: exact, two-sided.",
    )


def _row(name: str, flips: Flips) -> tuple[Cell, ...]:
    rounds = f"{flips.left_round} and {flips.right_round}"
    return (name, rounds, flips.n, flips.right_to_wrong, flips.wrong_to_right, flips.both_wrong_different, flips.same_text,
            flips.no_answer_left + flips.no_answer_right, flips.mcnemar_p)  # fmt: skip


def filters_table(between: Contrast) -> Table:
    """Return accuracy and flips under every filter, the judged one among them."""
    rows = tuple(
        (name, flips.left_round, flips.n, _share(flips, "right_to_wrong"), _share(flips, "wrong_to_right"),
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
        (item["id"], item["round"], item["kind"].replace("_", " "), item["baseline_extracted"], item["candidate_extracted"],
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
