"""What a drop may be claimed to be: of a baseline that can do the tasks, of each task, whichever way doubts are counted."""

from __future__ import annotations

import pytest

from servegate.checks.accuracy.comparing import compare
from servegate.checks.accuracy.contrast import Contrast
from servegate.checks.accuracy.judging import judge, stop
from servegate.checks.accuracy.record import AccuracyMeasurement
from servegate.checks.accuracy.settings import AccuracySettings, Limits, Task
from servegate.domain.evidence import ItemStatus
from servegate.domain.judgement import Comparison, Finding, Outcome, Severity, outcome_of
from tests.unit.checks.accuracy_samples import FLEXIBLE, STRICT, arm, evidence, flipped, merged, pattern, renamed, task

SETTINGS = AccuracySettings()


def judged(
    baseline: AccuracyMeasurement, candidate: AccuracyMeasurement, settings: AccuracySettings = SETTINGS
) -> tuple[Comparison, dict[str, Finding], Outcome]:
    comparison = compare(evidence(baseline, candidate), settings)
    assert isinstance(comparison, Comparison)
    findings = judge(comparison, settings)
    return comparison, {one.code.removeprefix("accuracy/"): one for one in findings}, outcome_of(findings, comparison.n)


def two_rounds(scores: list[float], strict: list[float] | None = None) -> AccuracyMeasurement:
    return arm(scores, scores, strict=[strict, strict] if strict else None)


# -- a metric that means something -----------------------------------------------------------------------------


def test_a_metric_that_is_better_when_lower_is_not_judged() -> None:
    """A rising error rate would pass as a gain."""
    errors, more = pattern(600, 0.2), pattern(600, 0.9)
    lower = (task(higher_is_better=False),)
    _, found, outcome = judged(arm(errors, errors, tasks=lower), arm(more, more, tasks=lower))
    assert found["lower-is-better"].severity is Severity.ERROR
    assert "gsm8k" in found["lower-is-better"].message
    assert outcome is Outcome.ERROR


@pytest.mark.parametrize("scale", [100.0, -1.0])
def test_scores_that_are_no_shares_are_not_judged(scale: float) -> None:
    scores = [scale * score for score in pattern(600)]
    _, found, outcome = judged(two_rounds(scores), two_rounds(scores))
    assert found["scores-outside"].severity is Severity.ERROR
    assert outcome is Outcome.ERROR


def test_a_run_recorded_before_directions_were_kept_is_judged() -> None:
    assert task().higher_is_better is None
    assert judged(two_rounds(pattern(600)), two_rounds(pattern(600)))[2] is Outcome.PASS


# -- a baseline that can do the task ---------------------------------------------------------------------------


def test_a_baseline_that_gets_hardly_anything_right_proves_nothing() -> None:
    """3 of 520 against 0: the drop is below any margin, and everything was lost."""
    _, found, outcome = judged(two_rounds([1.0] * 3 + [0.0] * 517), two_rounds([0.0] * 519 + [1.0]))
    assert outcome is Outcome.REVIEW
    assert found["weak-baseline"].limit == pytest.approx(10.0)
    assert "gsm8k: the baseline gets 0.6% right" in found["weak-baseline"].message


def test_a_task_that_the_baseline_cannot_do_lends_no_weight_to_another() -> None:
    """Two thousand questions that nobody can lose would make up the number that a policy asks for."""
    strong, weak = two_rounds(pattern(600)), renamed(two_rounds([1.0] * 12 + [0.0] * 1988), "weak")
    _, found, outcome = judged(merged(strong, weak), merged(strong, weak))
    assert found["weak-baseline"].message.startswith("weak: ")
    assert outcome is Outcome.REVIEW


@pytest.mark.parametrize(
    ("right", "chance", "margin", "weak"),
    [
        (120, 0.0, 2.5, True),  # 9.1 %: the margin is 27 % of it
        (190, 0.0, 2.5, False),  # 14.4 %, surely above 10
        (440, 0.25, 2.5, True),  # one of four letters: 33 % is 8 above guessing
        (520, 0.25, 2.5, False),
        (60, 0.0, 0.6, True),  # 4.5 %: within reach of always saying 5
        (95, 0.0, 0.6, False),  # 7.2 %, surely above 5
    ],
)
def test_the_margin_is_small_beside_what_the_baseline_can_do(right: int, chance: float, margin: float, weak: bool) -> None:
    settings = AccuracySettings(
        tasks=(Task(chance=chance),), limits=Limits(pass_drop_points=margin, fail_drop_points=margin / 5)
    )
    scores = [1.0] * right + [0.0] * (1319 - right)
    _, found, outcome = judged(two_rounds(scores), two_rounds(scores), settings)
    assert ("weak-baseline" in found) is weak
    assert outcome is (Outcome.REVIEW if weak else Outcome.PASS)


def test_a_weak_baseline_can_still_fail() -> None:
    _, found, outcome = judged(two_rounds(pattern(1319, 0.09)), two_rounds([0.0] * 1318 + [1.0]))
    assert found["drop"].severity is Severity.FAIL
    assert outcome is Outcome.FAIL


@pytest.mark.parametrize(("lost", "ceiling"), [(2, False), (18, True)])
def test_near_the_ceiling_the_margin_is_what_the_baseline_gets_wrong(lost: int, ceiling: bool) -> None:
    """Of 99.2 % a drop of 2 points would nearly quadruple the wrong answers, inside the margin."""
    before = [1.0] * 1309 + [0.0] * 10
    _, found, outcome = judged(two_rounds(before), two_rounds(flipped(before, lost, 0)))
    assert ("ceiling" in found) is ceiling
    assert outcome is (Outcome.REVIEW if ceiling else Outcome.PASS)


# -- several tasks ---------------------------------------------------------------------------------------------


def test_the_collapse_of_a_small_task_fails_although_the_pool_passes() -> None:
    large, small = pattern(1319), pattern(30, 0.9)
    baseline = merged(two_rounds(large), renamed(two_rounds(small), "small"))
    candidate = merged(two_rounds(large), renamed(two_rounds([0.0] * 30), "small"))
    comparison, found, outcome = judged(baseline, candidate)
    high = comparison.estimates["drop"].high
    assert high is not None
    assert high < 2.7
    assert found["task-drop"].severity is Severity.FAIL
    assert found["task-drop"].message.startswith("small: accuracy fell by 90.00 points on 30 questions")
    assert outcome is Outcome.FAIL
    assert {one.id.split("/")[0] for one in found["task-drop"].evidence} == {"small"}


def test_a_small_task_that_lost_three_of_three_is_for_review() -> None:
    large = pattern(1319)
    baseline = merged(two_rounds(large), renamed(two_rounds([1.0] * 3), "small"))
    candidate = merged(two_rounds(large), renamed(two_rounds([0.0] * 3), "small"))
    _, found, outcome = judged(baseline, candidate)
    assert found["task-drop-open"].severity is Severity.REVIEW
    assert "drop" not in found
    assert outcome is Outcome.REVIEW


def test_a_small_task_that_never_answered_is_for_review() -> None:
    """Nothing of it is left to pool, so only the reading against the candidate sees it."""
    large = pattern(1319)
    lost = {(number, doc_id): ItemStatus.EMPTY for number in (0, 1) for doc_id in range(12)}
    baseline = merged(two_rounds(large), renamed(two_rounds([1.0] * 12), "small"))
    candidate = merged(two_rounds(large), renamed(arm([1.0] * 12, [1.0] * 12, lost=lost), "small"))
    _, found, outcome = judged(baseline, candidate)
    assert found["task-drop-open"].severity is Severity.REVIEW
    assert outcome is Outcome.REVIEW


def test_claims_about_tasks_are_corrected_for_their_number() -> None:
    """Fourteen lost of 40 is a claim of one task at 1 %, and no claim any more when it is the worst of many."""
    large, small = pattern(600), pattern(40)

    def arms(others: int) -> tuple[AccuracyMeasurement, AccuracyMeasurement]:
        before, after = merged(two_rounds(large), renamed(two_rounds(small), "small")), flipped(small, 9, 0)
        candidate = merged(two_rounds(large), renamed(two_rounds(after), "small"))
        for index in range(others):
            other = renamed(two_rounds(small), f"other{index}")
            before, candidate = merged(before, other), merged(candidate, other)
        return before, candidate

    assert "task-drop" in judged(*arms(0))[1]
    many = judged(*arms(6))[1]
    assert "task-drop" not in many
    assert many["task-drop-open"].severity is Severity.REVIEW


def test_equal_tasks_are_no_finding() -> None:
    both = merged(two_rounds(pattern(700)), renamed(two_rounds(pattern(40)), "small"))
    assert judged(both, both)[1] == {}


# -- doubtful answers ------------------------------------------------------------------------------------------


def test_a_fail_does_not_rest_on_extraction_suspects() -> None:
    """Every lost answer is right under another filter: `#### 72 altogether, in 2 days` gives 2."""
    before = pattern(1319)
    after = flipped(before, 60, 0)
    comparison, found, outcome = judged(two_rounds(before), two_rounds(after, strict=before))
    assert comparison.estimates["drop"].value == pytest.approx(100 * 60 / 1319)
    assert comparison.estimates["drop_for_candidate"].value == 0
    assert "120 flips are right under another filter (120 right to wrong)" in found["extraction-suspects"].message
    assert "drop" not in found
    assert outcome is Outcome.REVIEW
    assert judged(two_rounds(before), two_rounds(after))[2] is Outcome.FAIL


def test_a_pass_does_not_rest_on_extraction_suspects() -> None:
    """The baseline was right under the strict filter all along: the candidate gained nothing, and lost thirty."""
    before = pattern(1319)
    after = flipped(before, 30, 60)
    strict = [max(pair) for pair in zip(before, after, strict=True)]
    comparison, found, outcome = judged(two_rounds(before, strict=strict), two_rounds(after))
    assert comparison.estimates["drop"].value < 0
    assert comparison.estimates["drop_against_candidate"].value == pytest.approx(100 * 30 / 1319)
    assert "no-answer-decides" in found
    assert outcome is Outcome.REVIEW


def test_kinds_of_flips_are_told_apart() -> None:
    comparison, _, _ = judged(
        arm([1.0, 1.0, 0.0, 1.0, 0.0], strict=[[1.0, 1.0, 0.0, 1.0, 0.0]]),
        arm([0.0, 0.0, 1.0, 1.0, 0.0], strict=[[0.0, 1.0, 1.0, 0.0, 0.0]]),
    )
    (flips,) = Contrast.model_validate(comparison.candidate).rounds
    assert (flips.flipped, flips.answer_flips, flips.extraction_suspects, flips.suspect_losses) == (3, 2, 1, 1)
    assert flips.format_flips == 1


def test_cut_answers_are_judged_both_ways() -> None:
    """25 of 1,319 answers cut in the candidate only (1.9 %): left out they pass, counted as wrong they do not."""
    scores = pattern(1319)
    right = [doc_id for doc_id, score in enumerate(scores) if score]
    lost = {(number, doc_id): ItemStatus.TRUNCATED for number in (0, 1) for doc_id in right[:25]}
    comparison, found, outcome = judged(two_rounds(scores), arm(scores, scores, lost=lost))
    assert comparison.estimates["drop"].value == 0
    assert comparison.estimates["drop_against_candidate"].value == pytest.approx(100 * 25 / 1319)
    assert "50 were cut at the limit" in found["no-answer-candidate"].message
    assert found["no-answer-candidate"].severity is Severity.INFO
    assert "no-answer-decides" in found
    assert outcome is Outcome.REVIEW


def test_a_candidate_that_rambles_until_it_is_cut_fails() -> None:
    """Nothing of it came whole, yet what it said was scored, and it was wrong."""
    scores = pattern(600)
    cut = {(number, doc_id): ItemStatus.TRUNCATED for number in (0, 1) for doc_id in range(600)}
    arms = two_rounds(scores), arm([0.0] * 600, [0.0] * 600, lost=cut)
    comparison, found, outcome = judged(*arms)
    assert comparison.n == 0
    assert found["drop"].severity is Severity.FAIL
    assert "cut as they were scored" in found["drop"].message
    assert len(found["drop"].evidence) == 100
    assert outcome is Outcome.FAIL
    stopped = stop(evidence(*arms), SETTINGS)
    assert stopped is not None
    assert stopped.code == "accuracy/drop"


def test_a_candidate_that_rambles_in_a_tenth_of_its_answers_fails_although_the_others_are_as_good() -> None:
    scores = pattern(1319)
    wrong = [0.0 if doc_id < 132 else score for doc_id, score in enumerate(scores)]
    cut = {(number, doc_id): ItemStatus.TRUNCATED for number in (0, 1) for doc_id in range(132)}
    comparison, found, outcome = judged(two_rounds(scores), arm(wrong, wrong, lost=cut))
    assert comparison.estimates["drop"].value == 0
    assert (found["drop"].severity, found["drop"].limit) == (Severity.FAIL, 2.5)
    assert {item["kind"] for item in comparison.items} == {"right_to_wrong_cut"}
    assert outcome is Outcome.FAIL


def test_a_baseline_that_never_answers_is_a_broken_baseline() -> None:
    scores = pattern(1319)
    lost = {(number, doc_id): ItemStatus.EMPTY for number in (0, 1) for doc_id in range(100)}
    both = arm(scores, scores, lost=lost)
    _, found, outcome = judged(both, both)
    assert found["no-answer-baseline"].severity is Severity.REVIEW
    assert outcome is Outcome.REVIEW


def test_both_filters_are_reported() -> None:
    comparison, _, _ = judged(two_rounds(pattern(600)), two_rounds(pattern(600)))
    assert set(Contrast.model_validate(comparison.candidate).filters) == {STRICT, FLEXIBLE}
