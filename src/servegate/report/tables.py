r"""Tables as CSV, for spreadsheets and for pandas.

UTF-8 (with a byte-order mark where that is asked for: Excel takes a file without one for the code page of its machine),
comma, `\n`, numbers in full precision, an empty field for what was not measured. A spreadsheet runs a text cell that begins
with `=`, `+`, `-`, `@`, a tab or their full-width forms as a formula (OWASP, "CSV Injection"), and model output may begin so:
such text gets an apostrophe in front, which spreadsheets take for "this is text". Text that is only a number keeps its form,
since a number is no formula. Invisible characters are written as escapes.
"""

from __future__ import annotations

import re

import pandas as pd

from servegate.domain.blocks import Cell, Column, Table
from servegate.report.blockview import aligned
from servegate.report.page import Source
from servegate.report.visible import cut, visible
from servegate.report.words import severity_rank

MOST_CHARACTERS = 32_000
"""Of a text cell: spreadsheets hold 32,767, and Python's own reader of CSV refuses more than 131,072."""

_FORMULA = re.compile(r"\s*[=+\-@\t\r\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def csv_bytes(table: Table, *, mark: bool = False) -> bytes:
    """Return a table as CSV, every row and full precision. `mark`: begin with a byte-order mark (`utf-8-sig`)."""
    heads = [_text(column.title + (f" ({column.unit})" if column.unit else "")) for column in table.columns]
    rows = [[_field(cell) for cell, _column in aligned(row, table.columns)] for row in table.rows]
    # dtype=object keeps integers whole beside missing values and floats at the digits of `repr`.
    frame = pd.DataFrame(rows, dtype=object)
    frame = frame.reindex(columns=range(len(heads)))
    return str(frame.to_csv(index=False, header=heads, lineterminator="\n")).encode("utf-8-sig" if mark else "utf-8")


def _field(cell: Cell) -> Cell:
    return _text(cell) if isinstance(cell, str) else cell


def _text(text: str) -> str:
    dangerous = _FORMULA.match(text) is not None and _NUMBER.fullmatch(text) is None
    return ("'" if dangerous else "") + cut(visible(text, keep="\n"), MOST_CHARACTERS)


def outcome_table(source: Source) -> Table:
    """Return the checks and their outcomes as a table, for `tables/checks.csv`."""
    columns = ("check", "outcome", "required", "question", "summary", "noise", "n")
    rows = tuple(
        (
            item.check,
            item.outcome.value,
            source.verdict.checks[item.check].required if item.check in source.verdict.checks else None,
            item.question,
            item.summary,
            item.noise,
            item.n,
        )
        for item in source.sections
    )
    return Table(name="checks", title="Checks", columns=tuple(Column(title=name) for name in columns), rows=rows)


def finding_table(source: Source) -> Table:
    """Return every finding as a table, for `tables/findings.csv`; its evidence is `check:item:round`."""
    columns = ("severity", "code", "check", "message", "rule", "value", "operator", "limit", "evidence")
    rows = tuple(
        (
            item.severity.value,
            item.code,
            item.check,
            item.message,
            item.rule,
            item.value,
            item.operator,
            item.limit,
            # Rounds count from 1, as everywhere that people read; verdict.json counts steps from 0.
            " ".join(f"{ref.check}:{ref.id}" + (f":{ref.step + 1}" if ref.step is not None else "") for ref in item.evidence),
        )
        for item in sorted(source.verdict.findings, key=lambda finding: severity_rank(finding.severity))
    )
    return Table(name="findings", title="Findings", columns=tuple(Column(title=name) for name in columns), rows=rows)
