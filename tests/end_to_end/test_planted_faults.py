"""Two planted faults in one candidate on the real engine: one that servegate's own pinning hides, one that breaks answers.

`make faults` plants them all, each alone; two starts of the engine are what a test run can afford.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from scripts.planted_faults import CLOSING, SOUND, Fault, copied, gated

from tests.conftest import missing

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(900)]
TWO = Fault(
    "two-faults",
    lambda directory: copied(directory, generation_config__json={"repetition_penalty": 1.3, "eos_token_id": [2, *CLOSING]}),
    outcomes=("fail",),
    findings=("prompts/contract-broken", "arms/stop-ids-differ", "arms/generation-config-differs"),
    classes=("contract_broken", "identical"),
)
"""The penalty is pinned in every request, so answers that need no closing brace stay the same, and its finding is of a file."""


def test_both_planted_faults_are_found_with_their_classes_and_outcome(tmp_path: Path) -> None:
    engine = os.environ.get("SERVEGATE_TEST_ENGINE") or missing("SERVEGATE_TEST_ENGINE (a vllm executable)")
    if not SOUND.exists():
        missing("the demo's model (`make engine`)")
    seen = gated(TWO, engine, tmp_path)
    assert seen.misses(TWO) == [], seen
