"""Judging needs none of the libraries that draw, and none of those that ask an engine: they take a second to import."""

from __future__ import annotations

import subprocess
import sys

import pytest

DRAWING = ("pandas", "matplotlib", "jinja2", "markdown", "nh3", "scipy.stats", "github")
GRAMMARS = ("sqlglot", "tree_sitter")


@pytest.mark.parametrize(("module", "unwanted"), [
    ("servegate.cli", ("numpy", "pydantic", *DRAWING, *GRAMMARS)),
    ("servegate.cli.compare", (*DRAWING, *GRAMMARS)),
    ("servegate.cli.plan", DRAWING),
])  # fmt: skip
def test_a_verb_imports_no_library_that_it_does_not_use(module: str, unwanted: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print(*(name for name in {unwanted!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == []
