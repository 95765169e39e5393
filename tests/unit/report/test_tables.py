from __future__ import annotations

import csv
import io

import pandas as pd
import pytest

from servegate.domain.blocks import Column, Table
from servegate.report.tables import csv_bytes
from tests.unit.report.report_samples import NASTY


def table(*rows: tuple[object, ...], columns: int = 2) -> Table:
    return Table(
        name="t", title="t", columns=tuple(Column(title=f"c{n}", unit="ms" if n else "") for n in range(columns)), rows=rows
    )


def test_numbers_keep_their_precision_and_their_type() -> None:
    content = csv_bytes(table((1, 0.1 + 0.2), (10**17, None), (True, -1e-9), (-5, 1 / 3)))
    assert content.decode() == f"c0,c1 (ms)\n1,0.30000000000000004\n100000000000000000,\nTrue,-1e-09\n-5,{1 / 3!r}\n"
    assert pd.read_csv(io.BytesIO(content))["c1 (ms)"].iloc[3] == 1 / 3


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "  =1", "＝1+1", "\n=1"])
def test_formulas_become_text(text: str) -> None:
    (row,) = list(csv.reader(io.StringIO(csv_bytes(table((text, 1))).decode())))[1:]
    assert row[0].startswith("'")


@pytest.mark.parametrize("text", ["-5", "+3.2e-4", "12", "text - with + signs = fine"])
def test_harmless_text_stays(text: str) -> None:
    (row,) = list(csv.reader(io.StringIO(csv_bytes(table((text, 1))).decode())))[1:]
    assert row[0] == text


def test_hostile_cells_stay_in_their_cells() -> None:
    content = csv_bytes(table(*((text, text) for text in NASTY)))
    rows = list(csv.reader(io.StringIO(content.decode(), newline="")))
    assert len(rows) == len(NASTY) + 1
    assert {len(row) for row in rows} == {2}
    assert b"\r" not in content


def test_short_rows_and_empty_tables() -> None:
    assert csv_bytes(table((1,))) == b"c0,c1 (ms)\n1,\n"
    assert csv_bytes(table()) == b"c0,c1 (ms)\n"


def test_a_long_cell_is_cut_for_spreadsheets_and_for_the_reader_of_csv() -> None:
    (row,) = list(csv.reader(io.StringIO(csv_bytes(table(("x" * 140_000, 1))).decode())))[1:]
    assert len(row[0]) < 32_767
    assert "108,000" in row[0]
