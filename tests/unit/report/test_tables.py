from __future__ import annotations

import csv
import io
from dataclasses import replace

import pandas as pd
import pytest

from servegate.domain.blocks import Column, Table
from servegate.domain.plan import Setting
from servegate.report.tables import csv_bytes
from tests.unit.report.report_samples import NASTY, SAMPLES, hostile


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


@pytest.mark.parametrize("mark", [False, True])
def test_either_encoding_is_exact_in_pandas_and_excel_is_told_that_it_is_utf_8(mark: bool) -> None:
    rows = (("día ≥ 5 €", 0.1 + 0.2), ("=1+1", -5e-324), ("-0.031", 1.7976931348623157e308), ("Ωμέγα 漢字", -0.031))
    content = csv_bytes(table(*rows), mark=mark)
    assert content.startswith(b"\xef\xbb\xbf") is mark
    frame = pd.read_csv(io.BytesIO(content), float_precision="round_trip")
    assert list(frame.columns) == ["c0", "c1 (ms)"]
    assert frame["c1 (ms)"].tolist() == [value for _, value in rows]
    assert frame["c0"].tolist() == ["día ≥ 5 €", "'=1+1", "-0.031", "Ωμέγα 漢字"]


@pytest.mark.parametrize("name", [*SAMPLES, "hostile"])
def test_every_table_of_a_report_has_the_columns_that_it_declares_and_one_record_a_row(name: str) -> None:
    """Under Excel's own limits, too: 16,384 columns and 32,767 characters a cell; rows are what the table has."""
    made = {**SAMPLES, "hostile": hostile}[name]()
    tables = {file: content for file, content in made.render().items() if file.endswith(".csv")}
    assert {"tables/checks.csv", "tables/findings.csv"} <= set(tables)
    for file, content in tables.items():
        rows = list(csv.reader(io.StringIO(content.decode(), newline="")))
        heads = rows[0]
        assert len(heads) == len(set(heads)) or name == "hostile", file
        assert all(head.strip() for head in heads) or name == "hostile", file
        assert {len(row) for row in rows} == {len(heads)}, file
        assert max(len(cell) for row in rows for cell in row) <= 32_767
        frame = pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False, encoding="utf-8-sig")
        assert frame.to_numpy().tolist() == rows[1:], file


def test_a_mark_is_written_where_the_gate_config_asks_for_it() -> None:
    made = SAMPLES["fail"]()
    asked = {**made.plan.settings, "output.csv_encoding": Setting(value="utf-8-sig", source="servegate.yaml")}
    marked = replace(made, plan=made.plan.model_copy(update={"settings": asked})).render()
    plain = made.render()
    for file, content in plain.items():
        assert marked[file].removeprefix(b"\xef\xbb\xbf") == content or not file.endswith(".csv")
        assert marked[file].startswith(b"\xef\xbb\xbf") is file.endswith(".csv")
