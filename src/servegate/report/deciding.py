"""The one table of what a person has to decide on: for people with rounded numbers, as CSV in full precision.

Nothing is filled in here: a row without a value says "not measured" and why.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from servegate.domain.blocks import Column, Table
from servegate.domain.deciding import QUANTITIES, ArmValue, Figures, Quantity
from servegate.report import numbers
from servegate.report.visible import cut

DECIDING_CSV = "tables/decide.csv"
NOTE = (
    "Every row is measured or says why it is not; nothing is a guess. Under a value stands its noise, and beside the "
    "difference what arithmetic predicts or the card's ceiling allows. A difference without an interval sets two "
    "measurements side by side, no more. Ceilings leave attention's arithmetic out: what is beyond one was not measured right."
)
_NEGATED = re.compile(r"^not (?:measured|observed|read): ")
_BY_KEY = {quantity.key: quantity for quantity in QUANTITIES}


@dataclass(frozen=True)
class ValueView:
    """One arm's value and its noise; or why it is not measured."""

    text: str
    noise: str
    missing: bool


@dataclass(frozen=True)
class DecidingRow:
    """One row. `why`: the one reason for which neither arm was measured; empty where one was, or the reasons differ."""

    title: str
    about: str
    baseline: ValueView
    candidate: ValueView
    why: str
    difference: str
    bound: str


@dataclass(frozen=True)
class DecidingView:
    """The table."""

    rows: tuple[DecidingRow, ...]
    note: str = NOTE
    csv: str = DECIDING_CSV


def deciding_view(rows: tuple[Figures, ...], longest: int) -> DecidingView | None:
    """Return the table as it is shown, with texts of at most `longest` characters; None for a record without it."""
    told: dict[str, str] = {}
    return DecidingView(tuple(_row(row, _BY_KEY[row.key], longest, told) for row in rows)) if rows else None


def _row(row: Figures, quantity: Quantity, longest: int, told: dict[str, str]) -> DecidingRow:
    """`told`: reason -> the row that states it; a reason that voids a whole load stands once, not once a row."""
    reasons = {row.baseline.reason, row.candidate.reason}
    shared = next(iter(reasons)) if len(reasons) == 1 else None
    first = told.setdefault(shared, quantity.title) if shared else quantity.title
    why = "" if not shared else _missing(shared) if first == quantity.title else f"{numbers.NOT_MEASURED}: as for “{first}”"
    sides = (_view(row.baseline, quantity, longest), _view(row.candidate, quantity, longest))
    if why:
        sides = (ValueView(cut(why, longest), "", missing=True),) * 2
    return DecidingRow(
        title=quantity.title,
        about=cut(row.about, longest),
        baseline=sides[0],
        candidate=sides[1],
        why=cut(why, longest),
        difference=cut(_difference(row, quantity), longest),
        bound=cut(row.bound, longest),
    )


def _view(side: ArmValue, quantity: Quantity, longest: int) -> ValueView:
    return ValueView(cut(_value(side, quantity), longest), cut(side.noise, longest), missing=side.value is None)


def _value(side: ArmValue, quantity: Quantity) -> str:
    if side.value is None:
        return _missing(side.reason or "")
    return side.said or f"{numbers.number(side.value, quantity.digits)} {quantity.unit}"


def _missing(reason: str) -> str:
    """Return "not measured" with its reason; where the reason begins with words like these, they are not said twice."""
    return f"{numbers.NOT_MEASURED}: {_NEGATED.sub('', reason)}"


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
