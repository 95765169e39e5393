"""The table of field cases names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_every_test_that_the_table_names_is_there() -> None:
    table = (TESTS / "README.md").read_text("utf-8").split("## Field cases")[1]
    rows = [line for line in table.splitlines() if re.match(r"\| [A-Z]\d", line)]
    assert len(rows) >= 24
    checked = 0
    for row in rows:
        file = ""
        for path, name in re.findall(r"`([\w/]+\.py)?(?:::(\w+))?`", row):
            file = path or file
            if not file:
                continue
            text = (TESTS / file).read_text("utf-8")
            assert not name or f"def {name}(" in text, f"{file}::{name}"
            checked += 1
    assert checked >= 24


def test_reports_github_and_runners_have_a_row_for_every_case() -> None:
    rows = re.findall(r"^\| ([IJK])(\d+) ", (TESTS / "README.md").read_text("utf-8"), re.MULTILINE)
    sizes = {"I": 12, "J": 16, "K": 8}
    assert rows == [(letter, str(number)) for letter, size in sizes.items() for number in range(1, size + 1)]


def test_the_threat_model_names_tests_that_are_there() -> None:
    page = (TESTS.parent / "docs/security.md").read_text("utf-8")
    checked, file = 0, ""
    for path, name in re.findall(r"`([\w/]+\.py)?(?:::(\w+))?`", page):
        file = path or file
        text = (TESTS / file).read_text("utf-8")
        assert not name or f"def {name}(" in text, f"{file}::{name}"
        checked += 1
    assert checked >= 30
