"""What one check leaves open, another one may answer: never the other way round, and never what was seen."""

from __future__ import annotations

import pytest

from servegate.checks import discovered
from servegate.checks.accuracy.comparing import compare
from servegate.checks.accuracy.judging import judge
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.contract import finding
from servegate.checks.settling import settled
from servegate.checks.verdict import Judged, judged
from servegate.domain.evidence import ItemStatus, Reason
from servegate.domain.judgement import Comparison, Finding, Outcome, Severity
from tests.unit.checks.accuracy_samples import arm, evidence, pattern

SETTINGS = AccuracySettings()
CUT = ItemStatus.TRUNCATED


def open_question(limit: float = 1.0, severity: Severity = Severity.REVIEW, code: str = "increase-not-ruled-out") -> Finding:
    return finding(
        "prompts", code, severity, "cap hits did not increase, and 24 prompts leave up to 11.7 points possible; read on",
        rule="upper 95 %", value=11.7, operator=">=", limit=limit,
    )  # fmt: skip


def prompts(*findings: Finding) -> Judged:
    comparison = Comparison(candidate={}, noise=None, noise_reason="one round", n=24, items=())
    return Judged(discovered()["prompts"], comparison, findings)


def accuracy(questions: int, lost: dict[tuple[int, int], ItemStatus] | None = None, partial: bool = False) -> Judged:
    scores = pattern(questions)
    candidate = arm(scores, scores, lost=lost)
    if partial:
        candidate = candidate.model_copy(update={"partial": Reason(code="unfinished", message="a round was planned")})
    found = evidence(arm(scores, scores), candidate)
    comparison = compare(found, SETTINGS)
    assert isinstance(comparison, Comparison)
    return judged(discovered()["accuracy"], found, comparison, judge(comparison, SETTINGS))


def test_a_thousand_answers_settle_what_twenty_four_leave_open() -> None:
    results = settled({"prompts": prompts(open_question()), "accuracy": accuracy(1319)})
    assert results["prompts"].outcome is Outcome.PASS
    (told,) = results["prompts"].findings
    assert told.severity is Severity.INFO
    assert "leave up to 11.7 points possible; accuracy leaves at most 0.23 points over 1319 questions" in told.message


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (open_question(), accuracy(100)),  # a hundred questions leave 3 points open
        (open_question(limit=0.1), accuracy(1319)),
        (open_question(), accuracy(1319, lost={(number, doc): CUT for number in (0, 1) for doc in range(20)})),
        (open_question(), accuracy(1319, partial=True)),
        (open_question(code="cap-hit-increase"), accuracy(1319)),
    ],
    ids=["few questions", "a finer limit", "the other check saw an increase", "measured in part", "an increase that was seen"],
)
def test_what_is_not_answered_stays_open(question: Finding, answer: Judged) -> None:
    results = settled({"prompts": prompts(question), "accuracy": answer})
    assert results["prompts"].findings == (question,)
    assert results["prompts"].outcome is Outcome.REVIEW


def test_without_another_check_nothing_is_settled() -> None:
    assert settled({"prompts": prompts(open_question())})["prompts"].findings == (open_question(),)


def test_a_loop_counts_as_unsound_like_an_answer_that_was_cut() -> None:
    scores = pattern(600)
    looping = arm(scores, scores)
    broken = tuple(one.model_copy(update={"text": "no " * 200}) if one.doc_id < 60 else one for one in looping.responses)
    comparison = compare(evidence(arm(scores, scores), looping.model_copy(update={"responses": broken})), SETTINGS)
    assert isinstance(comparison, Comparison)
    assert comparison.estimates["unsound_increase"].value == pytest.approx(10)
