"""What a check hands to the report: a section of blocks from a closed set.

Every string is plain text (model output and config values included): the report escapes it once for Markdown and
once for HTML. A check never writes markup, so a new check needs no new template.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from servegate.domain.judgement import Outcome
from servegate.domain.records import Record

Cell = bool | int | float | str | None
"""A table cell; `None` prints as "not measured". Numbers keep full precision here and are rounded when printed."""


class Text(Record):
    """A paragraph of our own prose, values filled in. `tone` marks a caution or a success."""

    kind: Literal["text"] = "text"
    text: str
    tone: Literal["plain", "caution", "good"] = "plain"


class Fact(Record):
    """A named value; `note` says where it came from."""

    name: str
    value: Cell
    note: str = ""


class Facts(Record):
    """A short list of named values."""

    kind: Literal["facts"] = "facts"
    facts: tuple[Fact, ...]


class Column(Record):
    """A table column; `digits` rounds floats when printing; `unit` stands in the heading."""

    title: str
    unit: str = ""
    digits: int = 2
    percent: bool = False
    code: bool = False
    """Show the cell in a monospaced face."""


Tone = Literal["", "pass", "info", "review", "fail", "not-comparable"]


class Table(Record):
    """A table; `name` ([a-z0-9-]+) also names its CSV, which keeps full precision. Shown rows may be capped, the CSV is not."""

    kind: Literal["table"] = "table"
    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    shown_rows: int = 50
    note: str = ""
    row_digits: tuple[int, ...] = ()
    """Digits of each row's numbers, where rows are quantities of several kinds; they win over the column's."""
    tones: tuple[Tone, ...] = ()
    """The colour of each row, beside its words; none where the table is all of one kind."""


class Point(Record):
    """A point of a figure with its interval, when it has one."""

    x: float | str
    y: float
    low: float | None = None
    high: float | None = None


class Series(Record):
    """One named series; `role` picks the colour, so that an arm has one colour in the whole report."""

    name: str
    role: Literal["baseline", "candidate", "difference", "noise"]
    points: tuple[Point, ...]


class Figure(Record):
    """A figure with intervals; `description` is the text for readers who cannot see it."""

    kind: Literal["figure"] = "figure"
    name: str
    title: str
    style: Literal["bars", "lines", "intervals"]
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    description: str
    reference: float | None = None
    """A line to compare with, such as a limit or zero."""


class Mark(Record):
    """A span of characters that differs from the other text."""

    start: int
    end: int


class Pair(Record):
    """Two texts side by side, with the spans that differ.

    `item` is what a finding's evidence calls it, `asked` the question that both answer.
    """

    kind: Literal["pair"] = "pair"
    title: str
    item: str = ""
    asked: str = ""
    left_title: str
    right_title: str
    left: str
    right: str
    left_marks: tuple[Mark, ...] = ()
    right_marks: tuple[Mark, ...] = ()
    note: str = ""


class Fold(Record):
    """Blocks behind a heading that opens on a click."""

    kind: Literal["fold"] = "fold"
    title: str
    blocks: tuple[Block, ...]
    opened: bool = False


Block = Annotated[Text | Facts | Table | Figure | Pair | Fold, Field(discriminator="kind")]


class Section(Record):
    """One check's part of the report. `summary` is the one sentence that also stands in the PR comment.

    `noise` is the sentence about each arm against itself that stands beside it.
    """

    check: str
    title: str
    outcome: Outcome
    question: str
    summary: str
    noise: str
    n: str
    blocks: tuple[Block, ...]


Fold.model_rebuild()
