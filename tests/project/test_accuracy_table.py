"""The table of accuracy flips has every case and names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROWS = re.findall(r"^\| (F\d+) \|[^|]*\| (.*) \|$", (TESTS / "README.md").read_text("utf-8"), re.MULTILINE)


def test_every_case_has_a_row() -> None:
    assert [case for case, _ in ROWS] == [f"F{number}" for number in range(1, 18)]


def test_every_named_test_exists() -> None:
    for case, cell in ROWS:
        file = ""
        named = re.findall(r"`((?:[a-z_0-9/]+\.py)?)(?:::(test_[a-z_0-9]+))?`", cell)
        for path, function in (one for one in named if any(one)):
            file = path or file
            assert f"def {function}(" in (TESTS / file).read_text("utf-8"), f"{case}: {file}::{function}"
        assert file, case
