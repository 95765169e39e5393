"""Blocks as they are shown: one record for each kind of block, filled by `blockview`, placed by the templates."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from servegate.report.visible import Segment


@dataclass(frozen=True)
class Limits:
    """How much of a block one medium shows; the CSV files hold everything."""

    text: int = 8_000
    cell: int = 2_000
    pair: int = 6_000
    rows: int = 200
    facts: int = 200
    blocks: int = 500
    drawings: bool = False
    """Whether figures are drawn; otherwise only their numbers stand there."""


@dataclass(frozen=True)
class CellView:
    """One cell: its text, and how it is set."""

    text: str
    numeric: bool = False
    code: bool = False
    missing: bool = False

    @property
    def long(self) -> bool:
        """Whether a word of it is so long that it may be broken anywhere."""
        return any(len(word) > 24 for word in self.text.split())


@dataclass(frozen=True)
class HeadView:
    """One column heading."""

    text: str
    numeric: bool


@dataclass(frozen=True)
class TextView:
    """A paragraph."""

    text: str
    tone: str
    kind: str = "text"


@dataclass(frozen=True)
class FactView:
    """A named value."""

    name: str
    value: CellView
    note: str


@dataclass(frozen=True)
class FactsView:
    """Named values."""

    facts: tuple[FactView, ...]
    more: int
    kind: str = "facts"


@dataclass(frozen=True)
class TableView:
    """A table; `csv` is its file relative to the report, `total` counts the rows that the CSV holds."""

    title: str
    heads: tuple[HeadView, ...]
    rows: tuple[tuple[CellView, ...], ...]
    total: int
    note: str
    csv: str | None
    tones: tuple[str, ...] = ()
    kind: str = "table"


@dataclass(frozen=True)
class FigureView:
    """A figure: the drawing when the medium has drawings, its numbers in any case."""

    title: str
    description: str
    drawing: Markup | None
    undrawn: str | None
    """Why there is no drawing although the medium has them."""
    table: TableView
    kind: str = "figure"


@dataclass(frozen=True)
class PairView:
    """Two texts with the spans that differ."""

    title: str
    sides: tuple[tuple[str, tuple[Segment, ...], str], ...]
    """(heading, runs, the runs joined) of the left and the right text."""
    note: str
    asked: str = ""
    anchor: str = ""
    """Where a link finds it; empty where nothing links to it."""
    kind: str = "pair"


@dataclass(frozen=True)
class FoldView:
    """Blocks behind a heading."""

    title: str
    blocks: tuple[BlockView, ...]
    opened: bool
    kind: str = "fold"


BlockView = TextView | FactsView | TableView | FigureView | PairView | FoldView
