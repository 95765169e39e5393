"""What one check leaves open, another one may answer: never the other way round, and never what was seen."""

from __future__ import annotations

import pytest

from servegate.checks import discovered
from servegate.checks.accuracy.comparing import compare
from servegate.checks.accuracy.judging import judge
from servegate.checks.accuracy.record import AccuracyMeasurement
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.contract import finding
from servegate.checks.settling import settled
from servegate.checks.verdict import Judged, judged
from servegate.domain.evidence import ItemStatus, Reason
from servegate.domain.judgement import Comparison, Finding, Outcome, Severity
from tests.unit.checks.accuracy_samples import arm, evidence, pattern, task

SETTINGS = AccuracySettings()
CUT = ItemStatus.TRUNCATED
LONG = ", and this is how I came to think so, step by step, with nothing left out of it"
LOOP = "no " * 200


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
    candidate = arm(scores, scores, lost=lost, texts=LONG)
    if partial:
        candidate = candidate.model_copy(update={"partial": Reason(code="unfinished", message="a round was planned")})
    return answered(arm(scores, scores, texts=LONG), candidate)


def answered(baseline: AccuracyMeasurement, candidate: AccuracyMeasurement) -> Judged:
    found = evidence(baseline, candidate)
    comparison = compare(found, SETTINGS)
    assert isinstance(comparison, Comparison)
    return judged(discovered()["accuracy"], found, comparison, judge(comparison, SETTINGS))


def said(measurement: AccuracyMeasurement, docs: range, text: str, status: ItemStatus = ItemStatus.OK) -> AccuracyMeasurement:
    """The same scores, with other words for some documents."""
    words = {"text": text, "status": status}
    responses = tuple(one.model_copy(update=words) if one.doc_id in docs else one for one in measurement.responses)
    return measurement.model_copy(update={"responses": responses})


def test_a_thousand_answers_settle_what_twenty_four_leave_open() -> None:
    results = settled({"prompts": prompts(open_question()), "accuracy": accuracy(1319)})
    assert results["prompts"].outcome is Outcome.PASS
    (told,) = results["prompts"].findings
    assert told.severity is Severity.INFO
    assert "leave up to 11.7 points possible; accuracy leaves at most 0.23 points over 1319 questions with" in told.message


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


WHOLE = arm(pattern(1319), pattern(1319), texts=LONG)
ONE_DOCUMENT = {"doc_hash": "d", "target_hash": "t", "prompt_hash": "p"}


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [
        # As many answers are cut in both arms: in the baseline they were merely long, in the candidate they are loops.
        (said(WHOLE, range(500), f"so{LONG}", CUT), said(WHOLE, range(500), LOOP, CUT)),
        (said(WHOLE, range(500), f"so{LONG}", CUT), said(WHOLE, range(500), "", ItemStatus.EMPTY)),
        # As many are broken in both arms, by another defect.
        (said(WHOLE, range(30), f"so{LONG}", CUT), said(WHOLE, range(700, 730), LOOP)),
        # Answers of a letter have no room for a loop.
        (said(WHOLE, range(1319), "A"), said(WHOLE, range(1319), "A")),
        # One question, asked 1,319 times.
        tuple([WHOLE.model_copy(update={"rows": tuple(row.model_copy(update=ONE_DOCUMENT) for row in WHOLE.rows)})] * 2),
    ],
    ids=["loops among what was cut", "nothing where it was cut", "loops in place of cuts", "letters", "copies of one question"],
)
def test_answers_that_could_not_show_a_loop_or_do_show_one_settle_nothing(
    baseline: AccuracyMeasurement, candidate: AccuracyMeasurement
) -> None:
    results = settled({"prompts": prompts(open_question()), "accuracy": answered(baseline, candidate)})
    assert results["prompts"].outcome is Outcome.REVIEW


def test_a_check_that_is_not_comparable_settles_nothing() -> None:
    other = answered(WHOLE, WHOLE.model_copy(update={"tasks": (task(shots=4),)}))
    assert other.outcome is Outcome.NOT_COMPARABLE
    assert settled({"prompts": prompts(open_question()), "accuracy": other})["prompts"].outcome is Outcome.REVIEW


def test_a_loop_and_a_cut_are_counted_apart() -> None:
    scores = pattern(600)
    whole = arm(scores, scores, texts=LONG)
    result = answered(whole, said(said(whole, range(60), LOOP), range(60, 90), f"so{LONG}", CUT))
    assert isinstance(result.comparison, Comparison)
    assert result.comparison.estimates["degenerate_increase"].value == pytest.approx(10)
    assert result.comparison.estimates["cut_increase"].value == pytest.approx(5)


def test_loops_that_score_right_are_for_a_person() -> None:
    result = answered(WHOLE, said(WHOLE, range(60), "#### 7 " * 40))
    assert result.outcome is Outcome.REVIEW
    assert [item.code for item in result.findings if item.severity is Severity.REVIEW] == ["accuracy/degenerate-increase"]
    assert answered(WHOLE, said(WHOLE, range(3), "#### 7 " * 40)).outcome is Outcome.PASS
