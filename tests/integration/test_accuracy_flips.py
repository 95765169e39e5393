"""Answers whose kind of change people got wrong, through lm-eval itself and the check: what each filter takes out of them.

Needs lm-eval 0.4.13 (the extra `eval`) beside this Python; two passes of about 10 s.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import pytest

from servegate.checks.accuracy.comparing import compare
from servegate.checks.accuracy.contrast import Contrast
from servegate.checks.accuracy.judging import judge
from servegate.checks.accuracy.measuring import finish, measure
from servegate.checks.accuracy.record import AccuracyInputs, AccuracyMeasurement, TaskInput
from servegate.checks.accuracy.settings import AccuracySettings, Task
from servegate.checks.contract import MeasureContext
from servegate.domain.evidence import ItemStatus
from servegate.domain.judgement import Comparison
from servegate.ports import Completions, LoadGenerator, Probes
from servegate.probes.evaluator import LmEval
from servegate.subprocesses import run
from tests.conftest import missing
from tests.fakes.completions_server import CompletionsServer, completions_server, replies
from tests.unit.checks.accuracy_samples import evidence
from tests.unit.samples import engine_facts

CASES = (
    # question, reference, what the baseline says, what the candidate says, kind
    ("format only", "18", "So it is 18.\n#### 18", "The answer is **18**.", "format"),
    ("a later number", "72", "#### 72", "#### 72 altogether, in 2 days", "suspect"),
    ("the hours of a day", "18", "#### 18", "The answer is 18 (out of 24 hours).", "lost"),
    ("a decimal comma", "3.5", "#### 3.5", "#### 3,50", "lost"),
    ("wrong twice", "7", "#### 8", "#### 9", "both wrong"),
    ("won", "6", "#### 5", "#### 6", "won"),
    ("a line separator", "4", "2\u2028and 2\u2029make\x85\n#### 4", "2\u2028and 2\u2029make\x85\n#### 4", "same"),
    ("nothing", "3", "#### 3", "", "no answer"),
    ("null", "3", "#### 3", None, "no answer"),
    ("too long", "9", "#### 9", "and so on " * 40, "cut"),
)
SETTINGS = AccuracySettings(tasks=(Task(name="kinds", file="kinds.json", shots=0, max_tokens=64),))


def measured(
    server: CompletionsServer, directory: Path, arm: str, texts: list[str | None], baseline: AccuracyMeasurement | None = None
) -> AccuracyMeasurement:
    executable = Path(sys.executable).with_name("lm_eval")
    if not executable.is_file():
        missing("lm_eval (the extra `eval`)")
    server.text_faults = {
        f"Question: {case[0]}?\n": replies(text=text) for case, text in zip(CASES, texts, strict=True)
    }  # fmt: skip
    rows = tuple({"question": f"{case[0]}?", "answer": f"#### {case[1]}"} for case in CASES)
    inputs = AccuracyInputs(tasks=(TaskInput(task="kinds", fewshot=(), questions=rows),))
    tool = LmEval(server.endpoint, str(executable), directory / arm, 200, run)
    context = MeasureContext[AccuracyMeasurement](arm, 0, engine_facts(arm), inputs, baseline, lambda _count: None)
    probes = Probes(cast(Completions, None), cast(LoadGenerator, None), tool)
    return finish(probes, SETTINGS, context, measure(probes, SETTINGS, context))


@pytest.mark.service
@pytest.mark.timeout(300)
def test_each_answer_is_of_the_kind_that_it_is(tmp_path: Path) -> None:
    with completions_server() as server:
        baseline = measured(server, tmp_path, "baseline", [case[2] for case in CASES])
        candidate = measured(server, tmp_path, "candidate", [case[3] for case in CASES], baseline)
    assert {one.status for one in baseline.responses} == {ItemStatus.OK}
    statuses = {CASES[one.doc_id][0]: (one.status, one.asked) for one in candidate.responses}
    assert {name: status for name, status in statuses.items() if status[0] is not ItemStatus.OK} == {
        "nothing": (ItemStatus.EMPTY, 2), "null": (ItemStatus.FAILED, 2), "too long": (ItemStatus.TRUNCATED, 2),
    }  # fmt: skip
    comparison = compare(evidence(baseline, candidate), SETTINGS)
    assert isinstance(comparison, Comparison)
    (flips,) = Contrast.model_validate(comparison.candidate).rounds
    assert (flips.n, flips.same_text, flips.no_answer_right) == (7, 1, 3)
    assert (flips.right_to_wrong, flips.wrong_to_right, flips.extraction_suspects) == (3, 1, 1)
    assert (flips.format_flips, flips.both_wrong_different) == (1, 1)
    kinds = {CASES[item["doc_id"]][0]: (item["kind"], item["extraction_suspect"]) for item in comparison.items}
    assert kinds == {
        "a later number": ("right_to_wrong", True), "the hours of a day": ("right_to_wrong", False),
        "a decimal comma": ("right_to_wrong", False), "wrong twice": ("both_wrong_different", False),
        "won": ("wrong_to_right", False),
        "too long": ("right_to_wrong_cut", False),
    }  # fmt: skip
    codes = {finding.code for finding in judge(comparison, SETTINGS)}
    assert {"accuracy/extraction-suspects", "accuracy/format-flips", "accuracy/no-answer-candidate"} <= codes
