"""Whole documents as a reviewer sees them. After a wanted change: SERVEGATE_UPDATE_SNAPSHOTS=1 pytest tests/unit/report."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from servegate import __version__
from tests.unit.report.report_samples import SAMPLES

FOLDER = Path(__file__).parents[2] / "snapshots" / "report"


@pytest.mark.parametrize("document", ["comment.md", "report.md", "reproduce.sh"])
@pytest.mark.parametrize("name", SAMPLES)
def test_document(name: str, document: str) -> None:
    made = SAMPLES[name]().render()[document].decode().replace(f"servegate {__version__}", "servegate VERSION")
    path = FOLDER / f"{name}.{document}"
    if os.environ.get("SERVEGATE_UPDATE_SNAPSHOTS") == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made, encoding="utf-8")
    assert made == path.read_text(encoding="utf-8")
