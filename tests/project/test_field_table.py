"""The table of field faults names tests that exist, and every case of its five sections."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
README = (TESTS / "README.md").read_text()
HERE = "unit/checks/test_prompts_compare.py"
ROWS = re.findall(r"^\| ([CEGHL]\d+) \|[^|]*\| (.*) \|$", README, re.MULTILINE)


def test_every_case_has_a_row() -> None:
    sizes = {"C": 11, "E": 7, "G": 18, "H": 12, "L": 7}
    assert [case for case, _ in ROWS] == [f"{letter}{n}" for letter, size in sizes.items() for n in range(1, size + 1)]


def test_every_named_test_exists() -> None:
    named = [one for _, cell in ROWS for one in re.findall(r"`((?:[a-z_0-9/]+\.py(?:::)?)?(?:test_[a-z_0-9]+)?)`", cell) if one]
    assert len(named) > 40
    for one in named:
        file, _, function = one.partition("::") if ".py" in one else (HERE, "", one)
        source = (TESTS / file).read_text()
        assert not function or f"def {function}(" in source, one


def test_a_row_without_a_test_says_why() -> None:
    for case, cell in ROWS:
        assert "`" in cell or re.search(r"not yet: \w.+", cell), case
