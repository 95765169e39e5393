"""Answers that came because somebody asked again: counted, and read where the candidate needs it more often."""

from __future__ import annotations

import random

import pytest

from servegate.checks import discovered
from servegate.checks.accuracy.comparing import compare
from servegate.checks.accuracy.judging import judge
from servegate.checks.accuracy.record import AccuracyMeasurement, Pass
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.contract import finding
from servegate.checks.settling import settled
from servegate.checks.verdict import Judged
from servegate.domain.judgement import Comparison, Finding, Outcome, Severity, outcome_of
from tests.unit.checks.accuracy_samples import arm, evidence, pattern

SCORES = pattern(1000)
SETTINGS = AccuracySettings()
LONG = ", and this is how I came to think so, step by step, with nothing left out of it"


def late(share: float, seed: int = 1) -> AccuracyMeasurement:
    """An arm that lost this share of its answers at first, each by chance; all came at the second asking."""
    chance = random.Random(seed)
    whole = arm(SCORES, SCORES, texts=LONG)
    return whole.model_copy(
        update={
            "responses": tuple(
                one.model_copy(update={"asked": 2}) if chance.random() < share else one for one in whole.responses
            )
        }
    )


def repeating(attempts: int) -> AccuracyMeasurement:
    """An arm whose requests failed so often, all of which lm-eval made again with success."""
    return arm(SCORES, SCORES).model_copy(update={"passes": (Pass(task="gsm8k", round=0, repeated=attempts),)})


def judged(baseline: AccuracyMeasurement, candidate: AccuracyMeasurement) -> tuple[Comparison, tuple[Finding, ...]]:
    comparison = compare(evidence(baseline, candidate), SETTINGS)
    assert isinstance(comparison, Comparison)
    return comparison, judge(comparison, SETTINGS)


@pytest.mark.parametrize("share", [0.02, 0.05, 0.5])
def test_a_candidate_that_has_to_be_asked_twice_is_no_pass(share: float) -> None:
    comparison, findings = judged(arm(SCORES, SCORES, texts=LONG), late(share))
    (found,) = [item for item in findings if item.severity is not Severity.INFO]
    assert (found.code, found.severity) == ("accuracy/late-increase", Severity.REVIEW)
    assert found.value is not None
    assert found.value > 1.0
    assert "of 2,000 answers of the candidate and 0 of 2,000 of the baseline came only when" in found.message
    assert comparison.estimates["drop"].value == 0


@pytest.mark.parametrize(("before", "after"), [(0.05, 0.05), (0.3, 0.05), (0.002, 0.004)])
def test_a_server_that_stumbles_in_both_arms_is_told_and_judged(before: float, after: float) -> None:
    _, findings = judged(late(before), late(after, seed=2))
    assert outcome_of(findings, len(SCORES)) is Outcome.PASS
    assert "accuracy/came-late" in [item.code for item in findings]


def test_answers_that_came_late_do_not_settle_what_other_checks_leave_open() -> None:
    question = finding("prompts", "increase-not-ruled-out", Severity.REVIEW, "none was seen; n is small",
                       rule="upper 95 %", value=11.7, operator=">=", limit=1.0)  # fmt: skip
    nothing = Comparison(candidate={}, noise=None, noise_reason="one round", n=24, items=())
    prompts = Judged(discovered()["prompts"], nothing, (question,))
    for share, severity in ((0.0, Severity.INFO), (0.01, Severity.REVIEW)):
        found = Judged(discovered()["accuracy"], *judged(arm(SCORES, SCORES, texts=LONG), late(share)))
        (told,) = settled({"prompts": prompts, "accuracy": found})["prompts"].findings
        assert told.severity is severity


@pytest.mark.parametrize(
    ("before", "after", "code", "outcome"),
    [
        (0, 0, None, Outcome.PASS),
        (0, 19, "repeated", Outcome.PASS),
        (100, 100, "repeated", Outcome.PASS),
        (100, 20, "repeated", Outcome.PASS),
        (0, 60, "repeated-increase", Outcome.REVIEW),
        (100, 300, "repeated-increase", Outcome.REVIEW),
    ],
)
def test_requests_that_failed_and_were_made_again_are_counted(
    before: int, after: int, code: str | None, outcome: Outcome
) -> None:
    _, findings = judged(repeating(before), repeating(after))
    assert [item.code for item in findings if "repeated" in item.code] == ([f"accuracy/{code}"] if code else [])
    assert outcome_of(findings, len(SCORES)) is outcome


@pytest.mark.parametrize(("asked", "severity"), [(250, Severity.INFO), (1000, Severity.REVIEW)])
def test_attempts_are_held_against_the_answers_that_each_arm_was_asked_for(asked: int, severity: Severity) -> None:
    """60 failures of 2,000 answers are many beside 8 of 2,000, and no surprise beside 8 of 500: the share decides."""
    short = arm(SCORES[:asked], SCORES[:asked]).model_copy(update={"passes": (Pass(task="gsm8k", round=0, repeated=8),)})
    _, findings = judged(short, repeating(60))
    (told,) = [item for item in findings if "repeated" in item.code]
    assert told.severity is severity
