"""Whole gates of the accuracy check with lm-eval and the fake engine: how often lm-eval is started, and who is asked what.

Needs lm-eval 0.4.13 (the extra `eval`) beside this Python; a start of it takes about 10 s.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import missing
from tests.integration.test_command_line import candidate, gate_in, nothing_left, run_json, started

CHECK = "accuracy: {tasks: [{file: sums.json, shots: 2, max_tokens: 48}], more_rounds: 0}"
CUT = (70, 71)
"""Questions whose answers are longer than the limit, in both arms and each time."""


def gate(directory: Path, questions: int, rounds: int) -> Path:
    if not Path(sys.executable).with_name("lm_eval").is_file():
        missing("lm_eval (the extra `eval`)")
    here = gate_in(directory)
    config = (here / "servegate.yaml").read_text().replace("prompts: {file: prompts.jsonl, max_tokens: 64}", CHECK)
    (here / "servegate.yaml").write_text(f"{config}rounds: {rounds}\n".replace("request_timeout_s: 5", "request_timeout_s: 20"))
    # the fake engine adds up the numbers of a question; every fifth reference is wrong, since 100 % in both arms is a fault
    rows = [{"question": f"What is {number} plus 2, item {number}?", "answer": f"#### {2 * number + 2 + (number % 5 == 0)}"}
            for number in range(questions)]  # fmt: skip
    shots = [{"question": "What is 1 plus 1?", "answer": "It is 2.\n#### 2"}] * 2
    (here / "sums.json").write_text(json.dumps({"fewshot": shots, "test": rows}))
    answers = {f"item {number}?\nAnswer:": "on and on " * 40 for number in CUT}
    (here / "answers.json").write_text(json.dumps(answers))
    return here


def run(here: Path, **environment: str) -> tuple[int, str]:
    with started(here, "run", **environment) as process:
        out, err = process.communicate(timeout=280)
    assert nothing_left(here)
    return process.returncode, out + err


def measured(here: Path, arm: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((here / f"servegate-runs/demo/arms/{arm}/accuracy.json").read_text())
    return found


def starts(here: Path, arm: str) -> list[str]:
    """Return the passes of lm-eval that an arm had, by what they left, in order."""
    logs = (here / "servegate-runs/demo/arms" / arm).rglob("lm_eval.log")
    return [path.parent.name for path in sorted(logs, key=os.path.getmtime)]


@pytest.mark.service
@pytest.mark.timeout(300)
def test_a_catastrophe_ends_after_64_questions(tmp_path: Path) -> None:
    here = gate(tmp_path, 600, 2)
    candidate(here, "garbage-text")
    code, told = run(here)
    assert code == 1, told
    assert starts(here, "baseline") == ["0-sums-round-0", "0-sums-round-1", "0-sums-round-1-again"]
    assert starts(here, "candidate") == ["0-sums-round-0-first"]
    found = measured(here, "candidate")
    assert (found["status"], found["reason"]["code"]) == ("partial", "stopped_early")
    assert sorted(one["doc_id"] for one in found["data"]["responses"]) == list(range(64))
    verdict = run_json(here, "verdict.json")["data"]
    assert verdict["outcome"] == "fail"
    assert "accuracy/drop" in {finding["code"] for finding in verdict["findings"]}


@pytest.mark.service
@pytest.mark.timeout(300)
def test_a_good_candidate_costs_one_start_for_the_look_and_one_for_what_did_not_come(tmp_path: Path) -> None:
    here = gate(tmp_path, 600, 1)
    code, told = run(here)
    assert code == 0, told
    assert starts(here, "baseline") == ["0-sums-round-0", "0-sums-round-0-again"]
    assert starts(here, "candidate") == ["0-sums-round-0-first", "0-sums-round-0", "0-sums-round-0-again"]
    said = "2 answers to 2 questions did not come whole, and these questions were asked again; 0 of the answers then came"
    for arm in ("baseline", "candidate"):
        found = measured(here, arm)
        assert found["status"] == "measured"
        assert [one["doc_id"] for one in found["data"]["responses"] if one["asked"] == 2] == list(CUT)
        assert found["data"]["passes"][-1]["warnings"][0] == said
        assert len(found["data"]["passes"][0]["first_token_ids"]) == 4
    stages = [(one["stage"], one["arm"]) for one in run_json(here, "run.json")["data"]["stages"] if one["check"]]
    assert stages == [
        (stage, arm) for arm in ("baseline", "candidate") for stage in ("measure", "finish")
    ]  # fmt: skip
