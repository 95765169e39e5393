"""The table of section D names every case, and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
SECTION = (TESTS / "README.md").read_text("utf-8").split("## Field cases D")[1].split("\n## ")[0]


def test_every_case_of_section_d_names_tests_that_exist() -> None:
    rows = dict(re.findall(r"^\| (D\d+) \|[^|]*\|[^|]*\| (.*) \|$", SECTION, re.MULTILINE))
    assert list(rows) == [f"D{number}" for number in range(1, 13)]
    for case, cell in rows.items():
        file, named = "", re.findall(r"`([\w/]+\.py)?::(\w+)`", cell)
        assert named, case
        for path, function in named:
            file = path or file
            assert f"def {function}(" in (TESTS / file).read_text("utf-8"), (case, file, function)


def test_what_the_text_below_names_exists() -> None:
    for path, function in re.findall(r"`([\w/]+\.py)::(\w+)`", SECTION):
        assert f"def {function}(" in (TESTS / path).read_text("utf-8"), (path, function)
