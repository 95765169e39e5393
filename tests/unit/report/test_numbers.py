from __future__ import annotations

import pytest

from servegate.domain.blocks import Column, Table
from servegate.report import numbers
from servegate.report.blockview import Viewer
from servegate.report.shown import Limits, TableView


@pytest.mark.parametrize(
    ("value", "options", "shown"),
    [
        (None, {}, "not measured"),
        (True, {}, "yes"),
        (1319, {}, "1,319"),
        (-3, {}, "−3"),
        (0.12345, {"digits": 3}, "0.123"),
        (0.0312, {"percent": True}, "3.12 %"),
        (0.0, {}, "0.00"),
        (-0.0, {}, "0.00"),
        (0.0004, {"digits": 2}, "4.0e−04"),
        (-1e-9, {"digits": 2}, "−1.0e−09"),
        (123456.789, {"digits": 1}, "123,456.8"),
        (1e300, {"digits": 1}, "1.0e+300"),
        (1.5, {"digits": 0}, "2"),
    ],
)
def test_cells(value: object, options: dict[str, object], shown: str) -> None:
    assert numbers.cell(value, **options) == shown  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (3.0, "3"),
        (0.0312, "0.0312"),
        (1234.5678, "1,235"),
        (-0.5, "−0.5"),
        (1e-9, "1.000e−09"),
        (1e12 + 0.5, "1.000e+12"),
    ],
)
def test_rules(value: float, shown: str) -> None:
    assert numbers.significant(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "not measured"), (0.42, "0.42 s"), (38.14, "38.1 s"), (245.2, "4 min 05 s")]
)
def test_seconds(value: float | None, shown: str) -> None:
    assert numbers.seconds(value) == shown


def test_rows_of_several_kinds_are_rounded_each_as_its_kind() -> None:
    """A clock of 1,980.00 MHz beside a queue of 0.00 s: one number of digits serves neither."""
    columns = (Column(title="quantity"), Column(title="baseline"))
    table = Table(name="t", title="t", columns=columns, rows=(("clock", 1980.0), ("queue", 0.0123)), row_digits=(0, 3))
    (view,) = Viewer("t", 1, Limits(), {}).views((table,))
    assert isinstance(view, TableView)
    assert [row[1].text for row in view.rows] == ["1,980", "0.012"]
