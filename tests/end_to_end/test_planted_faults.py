"""Two of the planted faults on the real engine: one that servegate's own pinning hides, one that breaks answers.

`make faults` runs them all; two starts of the engine a fault are what a test run can afford.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from scripts.planted_faults import FAULTS, SOUND, damaged, gated

from tests.conftest import missing

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(900)]
CHOSEN = ("repetition-penalty", "json-cut-short")


@pytest.mark.parametrize("name", CHOSEN)
def test_a_planted_fault_is_found_with_its_class_and_outcome(name: str, tmp_path: Path) -> None:
    engine = os.environ.get("SERVEGATE_TEST_ENGINE") or missing("SERVEGATE_TEST_ENGINE (a vllm executable)")
    if not SOUND.exists() or not damaged(SOUND).exists():
        missing("the demo's model (`make engine`)")
    fault = next(fault for fault in FAULTS if fault.name == name)
    seen = gated(fault, engine, tmp_path)
    assert seen.outcome != "pass"
    assert seen.misses(fault) == [], seen
