"""The one table of what a person has to decide on: for people with rounded numbers, as CSV in full precision.

Nothing is filled in here: a row without a value says "not measured" and why.
"""

from __future__ import annotations

from dataclasses import replace

from servegate.domain.blocks import Cell, Column, Table
from servegate.domain.deciding import QUANTITIES, ArmValue, Figures, Quantity
from servegate.report import numbers
from servegate.report.blockview import Viewer
from servegate.report.shown import CellView, Limits, TableView

DECIDING_CSV = "tables/decide.csv"
NOTE = (
    "Every row is measured or says why it is not; nothing is a guess. What arithmetic predicts, and the card's ceilings, stand "
    "in a column of their own. A difference without an interval sets two measurements side by side, no more. Ceilings leave "
    "attention's arithmetic out: what is beyond one was not measured right."
)
_BY_KEY = {quantity.key: quantity for quantity in QUANTITIES}


def deciding_view(rows: tuple[Figures, ...], limits: Limits) -> TableView | None:
    """Return the table as it is shown; None for a record without it."""
    if not rows:
        return None
    shown = Table(
        name="decide",
        title="Measured, with its noise, or not measured and why",
        columns=tuple(
            Column(title=title)
            for title in ("Quantity", "Baseline", "Candidate", "Difference", "Noise", "Predicted, or ceiling")
        ),
        rows=tuple(_row(row, _BY_KEY[row.key]) for row in rows),
        note=NOTE,
    )
    view = Viewer("decide", 0, limits).view(shown)
    assert isinstance(view, TableView)  # for the type checker: a table's view is one
    cells = tuple(
        (head, *(CellView(cell.text, missing=cell.text.startswith(numbers.NOT_MEASURED)) for cell in cells))
        for head, *cells in view.rows
    )
    return replace(view, rows=cells, csv=DECIDING_CSV)


def _row(row: Figures, quantity: Quantity) -> tuple[Cell, ...]:
    noises = [side.noise for side in (row.baseline, row.candidate)]
    noise = (
        noises[0]
        if noises[0] == noises[1]
        else "; ".join(f"{arm}: {said}" for arm, said in zip(("baseline", "candidate"), noises, strict=True) if said)
    )
    return (
        quantity.title + (f", {row.about}" if row.about else ""),
        _value(row.baseline, quantity),
        _value(row.candidate, quantity),
        _difference(row, quantity) or "–",
        noise or "–",
        row.bound or "–",
    )


def _value(side: ArmValue, quantity: Quantity) -> str:
    if side.value is None:
        return f"{numbers.NOT_MEASURED}: {side.reason}"
    return side.said or f"{numbers.number(side.value, quantity.digits)} {quantity.unit}"


def _difference(row: Figures, quantity: Quantity) -> str:
    """Return what the candidate has more or less; nothing where a side is not measured."""
    before, after = row.baseline.value, row.candidate.value
    if before is None or after is None:
        return ""
    if row.difference or (before == 0 and not quantity.points):
        return row.difference
    change = after - before if quantity.points else 100 * (after / before - 1)
    if 0 < abs(change) < 0.05 and not quantity.points:
        return "less than 0.1 %"
    sign = "+" if change > 0 else ""
    return f"{sign}{numbers.number(change, 2 if quantity.points else 1)} {'points' if quantity.points else '%'}"


def deciding_table(rows: tuple[Figures, ...]) -> Table:
    """Return the rows for `tables/decide.csv`: a value and its reason are columns of their own."""
    columns = (
        "key", "quantity", "about", "unit", "baseline", "baseline_noise", "baseline_not_measured", "candidate",
        "candidate_noise", "candidate_not_measured", "difference", "predicted_or_ceiling",
    )  # fmt: skip
    cells = tuple(
        (
            row.key, _BY_KEY[row.key].title, row.about, _BY_KEY[row.key].unit,
            row.baseline.value, row.baseline.noise, row.baseline.reason or "",
            row.candidate.value, row.candidate.noise, row.candidate.reason or "",
            _difference(row, _BY_KEY[row.key]), row.bound,
        )
        for row in rows
    )  # fmt: skip
    return Table(name="decide", title="To decide on", columns=tuple(Column(title=name) for name in columns), rows=cells)
