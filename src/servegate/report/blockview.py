"""A check's blocks, ready to be placed: numbers formatted, texts cut, CSV names given, figures drawn.

A block of the view has the same kind as its domain block; templates hold one macro for each kind and medium.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from servegate.domain.blocks import Block, Cell, Column, Facts, Figure, Fold, Mark, Pair, Point, Table, Text
from servegate.report import numbers
from servegate.report.figures import draw
from servegate.report.shown import (
    BlockView,
    CellView,
    FactsView,
    FactView,
    FigureView,
    FoldView,
    HeadView,
    Limits,
    PairView,
    TableView,
    TextView,
)
from servegate.report.visible import Segment, cut, segments


@dataclass
class Viewer:
    """Turns one section's blocks into views and collects every table on the way, for the CSV files."""

    prefix: str
    """Begins the names of its CSV files."""
    place: int
    """Number of the section in the page, which makes ids unique."""
    limits: Limits
    tables: dict[str, Table] = field(default_factory=dict)
    figures: int = 0
    anchors: dict[str, str] = field(default_factory=dict)
    """Item -> where its texts stand side by side."""

    def views(self, blocks: tuple[Block, ...]) -> tuple[BlockView, ...]:
        """Return the views of blocks in order; past the medium's cap one line says how many were left out."""
        shown = tuple(self.view(block) for block in blocks[: self.limits.blocks])
        more = len(blocks) - len(shown)
        for block in blocks[len(shown) :]:
            self.view(block)  # its tables still become CSV files
        return (
            (*shown, TextView(f"{more:,} more blocks are in report.html or in the run directory.", "plain")) if more else shown
        )

    def view(self, block: Block) -> BlockView:
        """Return the view of one block."""
        match block:
            case Text():
                return TextView(cut(block.text, self.limits.text), block.tone)
            case Facts():
                shown = block.facts[: self.limits.facts]
                return FactsView(
                    tuple(
                        FactView(
                            cut(fact.name, 120),
                            self._cell(fact.value, Column(title=fact.name)),
                            cut(fact.note, self.limits.cell),
                        )
                        for fact in shown
                    ),
                    len(block.facts) - len(shown),
                )
            case Table():
                return self._table(block, self._register(block))
            case Figure():
                return self._figure(block)
            case Pair():
                return self._pair(block)
            case Fold():
                return FoldView(cut(block.title, 300), self.views(block.blocks), block.opened)

    def _register(self, table: Table) -> str:
        """Give a table a file name of [a-z0-9-], unique in the report."""
        stem = slug(table.name, "table")
        stem = stem if stem.startswith(f"{self.prefix}-") or stem == self.prefix else f"{self.prefix}-{stem}"
        name, count = f"tables/{stem}.csv", 2
        while name in self.tables:
            name, count = f"tables/{stem}-{count}.csv", count + 1
        self.tables[name] = table
        return name

    def _table(self, table: Table, csv: str | None, missing: str = numbers.NOT_MEASURED) -> TableView:
        numeric = [_is_numeric(table, index) for index in range(len(table.columns))]
        heads = tuple(
            HeadView(cut(column.title + (f" ({column.unit})" if column.unit else ""), 120), is_numeric)
            for column, is_numeric in zip(table.columns, numeric, strict=True)
        )
        shown = table.rows[: max(0, min(table.shown_rows, self.limits.rows))]
        rows = tuple(
            tuple(self._cell(value, _set_as(column, table, number), missing) for value, column in aligned(row, table.columns))
            for number, row in enumerate(shown)
        )
        note = cut(table.note, self.limits.text)
        return TableView(cut(table.title, 300), heads, rows, len(table.rows), note, csv, table.tones)

    def _cell(self, value: Cell, column: Column, missing: str = numbers.NOT_MEASURED) -> CellView:
        if value is None:
            return CellView(missing, missing=True)
        text = cut(numbers.cell(value, digits=column.digits, percent=column.percent), self.limits.cell)
        return CellView(
            text,
            numeric=isinstance(value, int | float) and not isinstance(value, bool),
            code=column.code,
        )

    def _figure(self, figure: Figure) -> FigureView:
        self.figures += 1
        table = points(figure)
        drawing, undrawn = None, None
        if self.limits.drawings:
            drawing, undrawn = draw(figure, f"s{self.place}-{self.figures}-")
        return FigureView(
            cut(figure.title, 300),
            cut(figure.description, 2_000),
            drawing,
            undrawn,
            self._table(table, self._register(table), missing="no interval"),
        )

    def _pair(self, pair: Pair) -> PairView:
        anchor = f"s{self.place}-pair-{len(self.anchors) + 1}" if pair.item and pair.item not in self.anchors else ""
        if anchor:
            self.anchors[pair.item] = anchor
        return PairView(
            cut(pair.title, 300),
            (
                self._side(pair.left_title, pair.left, pair.left_marks),
                self._side(pair.right_title, pair.right, pair.right_marks),
            ),
            cut(pair.note, self.limits.text),
            cut(pair.asked, self.limits.text),
            anchor,
        )

    def _side(self, title: str, text: str, marks: tuple[Mark, ...]) -> tuple[str, tuple[Segment, ...], str]:
        runs = segments(text, marks, self.limits.pair)
        return cut(title, 200), runs, "".join(run.text for run in runs)


def aligned(row: tuple[Cell, ...], columns: tuple[Column, ...]) -> tuple[tuple[Cell, Column], ...]:
    """Return each column's cell; a short row is not measured there.

    Raises:
        ValueError: a row holds more cells than the table has columns, so that a value would be lost.
    """
    if len(row) > len(columns):
        raise ValueError(f"a table row holds {len(row)} cells for {len(columns)} columns")
    return tuple((row[index] if index < len(row) else None, column) for index, column in enumerate(columns))


def points(figure: Figure) -> Table:
    """Return a figure's numbers as a table, for Markdown, for the CSV and for readers who cannot see it."""
    rows = tuple(
        (series.name, _label(point), point.y, point.low, point.high) for series in figure.series for point in series.points
    )
    return Table(
        name=figure.name,
        title=f"Numbers of “{figure.title}”",
        columns=(
            Column(title="series"),
            Column(title=figure.x_label or "x"),
            Column(title=figure.y_label or "y", digits=3),
            Column(title="low", digits=3),
            Column(title="high", digits=3),
        ),
        rows=rows,
    )


def _label(point: Point) -> Cell:
    return int(point.x) if isinstance(point.x, float) and point.x.is_integer() else point.x


def slug(text: str, otherwise: str) -> str:
    """Return a name of [a-z0-9-] for files, ids and anchors."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or otherwise


def _set_as(column: Column, table: Table, row: int) -> Column:
    """Return how a cell is printed: as its column says, or its row where rows differ in kind."""
    return column.model_copy(update={"digits": table.row_digits[row]}) if row < len(table.row_digits) else column


def _is_numeric(table: Table, index: int) -> bool:
    values = [row[index] for row in table.rows if index < len(row) and row[index] is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
