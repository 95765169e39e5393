"""The policy: PASS is earned, FAIL is sure, everything else says what would settle it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servegate.checks.accuracy.comparing import compare
from servegate.checks.accuracy.judging import judge
from servegate.checks.accuracy.old_rule import within_old_rule
from servegate.checks.accuracy.pairing import pair_arms, rounds_of
from servegate.checks.accuracy.presenting import present
from servegate.checks.accuracy.readings import Reading, drops
from servegate.checks.accuracy.record import AccuracyMeasurement, Pass
from servegate.checks.accuracy.settings import AccuracySettings, Limits
from servegate.domain.blocks import Facts, Fold, Pair, Section, Table
from servegate.domain.evidence import EngineFacts, ItemStatus
from servegate.domain.judgement import Comparison, Finding, Outcome, Severity, outcome_of
from tests.unit.checks.accuracy_samples import FLEXIBLE, arm, evidence, flipped, merged, pattern, recorded, renamed, row, task
from tests.unit.samples import engine_facts

CUT = ItemStatus.TRUNCATED

SETTINGS = AccuracySettings()


def judged(
    baseline: AccuracyMeasurement,
    candidate: AccuracyMeasurement,
    settings: AccuracySettings = SETTINGS,
    facts: tuple[EngineFacts, EngineFacts] | None = None,
) -> tuple[Finding, ...]:
    comparison = compare(evidence(baseline, candidate, facts), settings)
    assert isinstance(comparison, Comparison)
    return judge(comparison, settings)


def as_cut(
    whole: AccuracyMeasurement, scores: dict[int, float], statuses: dict[int, ItemStatus] | None = None
) -> AccuracyMeasurement:
    """Give some documents another score and say that their answers were cut (or what else became of them)."""
    known = statuses or {}
    return whole.model_copy(
        update={
            "rows": tuple(
                one.model_copy(update={"score": scores[one.doc_id]}) if one.doc_id in scores else one for one in whole.rows
            ),
            "responses": tuple(
                one.model_copy(update={"status": known.get(one.doc_id, CUT)}) if one.doc_id in scores else one
                for one in whole.responses
            ),
        }
    )


def codes(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.code.removeprefix("accuracy/") for finding in findings]


def two_rounds(scores: list[float]) -> AccuracyMeasurement:
    return arm(scores, scores)


def test_identical_arms_of_enough_questions_pass() -> None:
    assert judged(two_rounds(pattern(500)), two_rounds(pattern(500))) == ()


def test_499_questions_are_a_smoke_test() -> None:
    (finding,) = judged(two_rounds(pattern(499)), two_rounds(pattern(499)))
    assert (finding.code, finding.severity) == ("accuracy/smoke-test", Severity.REVIEW)
    assert "n=499, cannot PASS" in finding.message


def test_fifty_questions_without_a_flip_say_what_they_do_not_exclude() -> None:
    findings = judged(two_rounds(pattern(50)), two_rounds(pattern(50)))
    assert codes(findings) == ["drop-open", "smoke-test"]
    assert "up to 5.8%" in findings[1].message


def test_a_large_drop_fails_and_names_questions() -> None:
    before = pattern(600)
    findings = judged(two_rounds(before), two_rounds(flipped(before, 40, 4)))
    (finding,) = [one for one in findings if one.severity is Severity.FAIL]
    assert finding.code == "accuracy/drop"
    assert finding.value is not None
    assert finding.limit == 0.5
    assert finding.value > 0.5
    assert len(finding.evidence) == 80
    assert finding.evidence[0].id.startswith("gsm8k/")


def test_a_small_real_drop_passes_and_is_named() -> None:
    """Both rules hold; the margin says which loss is acceptable, so PASS takes precedence."""
    before = pattern(1319)
    after = flipped(before, 22, 2)
    findings = judged(two_rounds(before), two_rounds(after), AccuracySettings(limits=Limits(fail_drop_points=0.3)))
    assert codes(findings) == ["small-drop"]
    assert outcome_of(findings) is Outcome.PASS


def test_the_limit_is_applied_to_raw_values() -> None:
    before = pattern(1319)
    comparison = compare(evidence(two_rounds(before), two_rounds(flipped(before, 30, 10))), SETTINGS)
    assert isinstance(comparison, Comparison)
    high = comparison.estimates["drop"].high
    assert high is not None
    just_above = AccuracySettings(limits=Limits(pass_drop_points=high + 1e-9))
    assert judge(comparison, just_above) == ()
    assert codes(judge(comparison, AccuracySettings(limits=Limits(pass_drop_points=high)))) == ["drop-open"]


def test_an_open_drop_says_how_many_questions_would_settle_it() -> None:
    before = pattern(600)
    (finding,) = judged(two_rounds(before), two_rounds(flipped(before, 18, 10)))
    assert (finding.code, finding.severity) == ("accuracy/drop-open", Severity.REVIEW)
    assert "more questions would settle it" in finding.message


def test_a_smoke_test_fails_only_on_overwhelming_evidence() -> None:
    before = [1.0] * 40 + [0.0] * 20
    broken = judged(two_rounds(before), two_rounds([0.0] * 59 + [1.0]))
    assert outcome_of(broken) is Outcome.FAIL
    three_of_three = judged(two_rounds([1.0, 1.0, 1.0, 0.0]), two_rounds([0.0, 0.0, 0.0, 0.0]))
    assert outcome_of(three_of_three) is Outcome.REVIEW


@pytest.mark.parametrize("candidate", ["fp8", "kv"])
def test_recorded_smoke_runs_are_for_review(candidate: str) -> None:
    findings = judged(recorded("bf16"), recorded(candidate))
    assert "smoke-test" in codes(findings)
    assert outcome_of(findings) is Outcome.REVIEW


@pytest.mark.parametrize("score", [0.0, 1.0])
def test_the_same_score_everywhere_is_a_harness_fault(score: float) -> None:
    (finding,) = judged(two_rounds([score] * 600), two_rounds([score] * 600))
    assert (finding.code, finding.severity) == ("accuracy/uniform-score", Severity.ERROR)


def test_a_candidate_that_gets_everything_wrong_is_no_harness_fault() -> None:
    assert outcome_of(judged(two_rounds(pattern(600)), two_rounds([0.0] * 600))) is Outcome.FAIL


@pytest.mark.parametrize("change", [{"add_bos": True}, {"concurrency": 1}, {"lm_eval": "0.4.12"}, {"max_length": 4096}])
def test_arms_asked_differently_are_not_comparable(change: dict[str, object]) -> None:
    scores = pattern(600)
    findings = judged(two_rounds(scores), arm(scores, scores, tasks=(task(**change),)))
    assert codes(findings) == ["asked-differently"]
    assert findings[0].severity is Severity.NOT_COMPARABLE
    assert next(iter(change)) in findings[0].message


def test_f11_prompts_that_begin_with_other_tokens_withhold_pass() -> None:
    """One engine adds a beginning-of-text token, the other does not: nothing of how lm-eval asked shows it."""
    whole = two_rounds(pattern(600))

    def begun(*ids: int | None) -> AccuracyMeasurement:
        known = None if None in ids else ids
        return whole.model_copy(update={"passes": (Pass(task="gsm8k", round=0, first_token_ids=known),)})

    findings = judged(begun(1, 22, 5), begun(22, 5, 7))
    assert codes(findings) == ["other-first-tokens"]
    assert findings[0].severity is Severity.REVIEW
    assert "gsm8k: 1 22 5 and 22 5 7" in findings[0].message
    assert judged(begun(1, 22, 5), begun(1, 22, 5)) == judged(begun(None), begun(None)) == ()
    for silent in (begun(None), whole):  # what one arm alone says is no proof that both begin alike
        for arms, said in (((begun(1, 22, 5), silent), "gsm8k: candidate"), ((silent, begun(1, 22, 5)), "gsm8k: baseline")):
            [remark] = judged(*arms)
            assert (remark.code, remark.severity) == ("accuracy/first-tokens-unknown", Severity.INFO)
            assert f"({said} did not say)" in remark.message


def test_missing_and_other_questions_withhold_pass() -> None:
    whole = two_rounds(pattern(600))
    missing = whole.model_copy(update={"rows": whole.rows[:-2]})
    assert codes(judged(whole, missing)) == ["missing-questions"]
    other = whole.model_copy(update={"rows": (*whole.rows[:-1], whole.rows[-1].model_copy(update={"doc_hash": "x"}))})
    assert outcome_of(judged(whole, other)) is Outcome.NOT_COMPARABLE


def test_answers_that_never_came_must_not_decide() -> None:
    scores = pattern(1319)
    right = [doc_id for doc_id, score in enumerate(scores) if score]
    lost = {(number, doc_id): ItemStatus.EMPTY for number in (0, 1) for doc_id in right[:25]}
    findings = judged(two_rounds(scores), arm(scores, scores, lost=lost))
    assert codes(findings) == ["no-answer-decides", "no-answer-candidate"]
    assert outcome_of(findings) is Outcome.REVIEW


@pytest.mark.parametrize("becomes", [CUT, ItemStatus.EMPTY, ItemStatus.FAILED])
def test_answers_that_the_baseline_gave_before_it_was_cut_are_not_lost_unseen(becomes: ItemStatus) -> None:
    """Cut in both arms, right in the baseline and wrong (or gone) in the candidate: no PASS, whatever came whole."""
    scores = pattern(1319)
    right = [doc for doc in range(500) if scores[doc]]
    whole = arm(scores, scores)
    baseline = as_cut(whole, {doc: scores[doc] for doc in range(500)})
    worse = {doc: 0.0 if doc in right[:40] else scores[doc] for doc in range(500)}
    found = judged(baseline, as_cut(whole, worse, dict.fromkeys(right[:40], becomes)))
    assert outcome_of(found) is Outcome.REVIEW
    assert "no-answer-decides" in codes(found)
    found = judged(baseline, baseline)
    assert outcome_of(found) is Outcome.PASS


@given(
    before=st.sampled_from(list(ItemStatus)), after=st.sampled_from(list(ItemStatus)),
    scores=st.tuples(st.sampled_from((0.0, 0.4, 1.0)), st.sampled_from((0.0, 0.4, 1.0))),
)  # fmt: skip
def test_no_doubt_is_kinder_against_the_candidate_than_for_it(
    before: ItemStatus, after: ItemStatus, scores: tuple[float, float]
) -> None:
    left, right = (as_cut(arm([score]), {0: score}, {0: status}) for score, status in zip(scores, (before, after), strict=True))
    rounds = pair_arms(rounds_of(left), rounds_of(right))
    against, held = (drops(rounds, {"gsm8k": FLEXIBLE}, reading) for reading in (Reading.AGAINST, Reading.FOR))
    assert all(against[question] >= drop for question, drop in held.items())


def test_few_answers_that_never_came_pass_both_ways() -> None:
    scores = pattern(1319)
    lost = {(0, doc_id): ItemStatus.EMPTY for doc_id in range(6)}
    findings = judged(two_rounds(scores), arm(scores, scores, lost=lost))
    assert codes(findings) == ["no-answer-candidate"]
    assert outcome_of(findings) is Outcome.PASS


def test_an_arm_that_never_answers_is_for_review_not_wrong() -> None:
    scores = pattern(600)
    lost = {(number, doc_id): ItemStatus.EMPTY for number in (0, 1) for doc_id in range(600)}
    findings = judged(two_rounds(scores), arm(scores, scores, lost=lost))
    assert codes(findings) == ["no-answer-candidate", "no-pairs"]
    assert outcome_of(findings) is Outcome.REVIEW


def test_equal_answers_of_differently_served_arms_are_remarked() -> None:
    facts = engine_facts("baseline"), engine_facts("candidate", argv=("vllm", "serve", "m", "--quantization=fp8"))
    findings = judged(two_rounds(pattern(600)), two_rounds(pattern(600)), facts=facts)
    assert [(one.code, one.severity) for one in findings] == [("accuracy/all-identical", Severity.INFO)]


def test_format_flips_are_information() -> None:
    scores = pattern(600)
    strict = [0.0 if index < 30 else score for index, score in enumerate(scores)]
    findings = judged(two_rounds(scores), arm(scores, scores, strict=[strict, strict], texts="!"))
    assert codes(findings) == ["format-flips"]


# -- how it is shown -------------------------------------------------------------------------------------------


def shown(baseline: AccuracyMeasurement, candidate: AccuracyMeasurement) -> Section:
    arms = evidence(baseline, candidate)
    comparison = compare(arms, SETTINGS)
    assert isinstance(comparison, Comparison)
    return present(comparison, arms, SETTINGS, judge(comparison, SETTINGS))


def test_the_summary_is_numbers_and_fits_a_phone() -> None:
    before = pattern(1319)
    section = shown(arm(before, flipped(before, 5, 4)), two_rounds(flipped(before, 12, 9)))
    assert section.summary == (
        "60.0 % -> 59.8 %: 0.19 points lost, accuracy drop at most 0.66 (PASS < 2.5). 12 questions got worse, 9 better."
    )
    assert section.noise.startswith("Baseline against itself: 9 flips (")
    assert ", 5 to wrong and 4 to right)" in section.noise
    assert section.n == "1,319 questions x 2 rounds"


def test_flips_stand_beside_noise_in_one_table() -> None:
    before = pattern(600)
    section = shown(two_rounds(before), two_rounds(flipped(before, 3, 1)))
    folded = [block for fold in section.blocks if isinstance(fold, Fold) for block in fold.blocks]
    tables = {block.name: block for block in (*section.blocks, *folded) if isinstance(block, Table)}
    names = [line[0] for line in tables["accuracy-flips"].rows]
    assert names == ["candidate against baseline"] * 2 + ["baseline against itself", "candidate against itself"]
    assert len(tables["accuracy-changed-answers"].rows) == 8


def test_each_arm_against_itself_and_every_kind_of_flip_stand_in_one_table() -> None:
    before = pattern(600)
    noisy, after = flipped(before, 2, 0), flipped(before, 4, 1)
    section = shown(arm(before, noisy), arm(after, after, strict=[before, before], texts="!"))
    (table,) = [block for block in section.blocks if isinstance(block, Table) and block.name == "accuracy-flips"]
    titles = [column.title for column in table.columns]
    rows = [dict(zip(titles, line, strict=True)) for line in table.rows]
    assert [(row["Right to wrong"], row["Wrong to right"], row["of these suspect"]) for row in rows] == [
        (4, 1, 4), (2, 1, 2), (2, 0, 0), (0, 0, 0),
    ]  # fmt: skip
    assert rows[3]["Format flips"] == 0
    assert rows[0]["Same text"] == 0


def test_several_tasks_are_shown_each_by_itself() -> None:
    before = merged(two_rounds(pattern(600)), renamed(two_rounds(pattern(40)), "small"))
    after = merged(two_rounds(pattern(600)), renamed(two_rounds(flipped(pattern(40), 2, 0)), "small"))
    (table,) = [block for block in shown(before, after).blocks if isinstance(block, Table) and block.name == "accuracy-tasks"]
    assert [(line[0], line[1], line[4]) for line in table.rows] == [("gsm8k", 600, 0.0), ("small", 40, pytest.approx(5.0))]
    assert not [
        block
        for block in shown(two_rounds(pattern(600)), two_rounds(pattern(600))).blocks
        if getattr(block, "name", "") == "accuracy-tasks"
    ]


def test_the_rule_of_thumb_is_shown_with_its_error_rate_and_decides_nothing() -> None:
    """Flips at 2.5 times the baseline's own and no drop: the rule stops it, the policy passes it."""
    before = pattern(1319)
    section = shown(arm(before, flipped(before, 10, 10)), arm(flipped(before, 25, 25), flipped(before, 25, 25)))
    (fact,) = [
        fact
        for block in section.blocks
        if isinstance(block, Facts)
        for fact in block.facts
        if fact.name.startswith("Rule of thumb")
    ]
    assert fact.value == "would not ship: 50 flips in round 1, 20 of its own"
    assert "benchmarks/old_rule.py" in fact.note
    assert section.outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("candidate", "flips", "ships"), [(0.80, 40, True), (0.80, 41, False), (0.7891, 40, True), (0.7888, 40, False)]
)
def test_the_rule_of_thumb(candidate: float, flips: int, ships: bool) -> None:
    """80 % of 1,319 has a standard error of 1.10 points."""
    assert within_old_rule(0.80, candidate, 1319, flips, 20) is ships


def test_changed_answers_can_be_read_beside_their_question() -> None:
    before = pattern(600)
    section = shown(two_rounds(before), two_rounds(flipped(before, 3, 0)))
    (pair, *_) = [
        inner for fold in section.blocks if isinstance(fold, Fold) for inner in fold.blocks if isinstance(inner, Pair)
    ]
    assert pair.left != pair.right
    assert "what is" in pair.note


def test_hostile_text_stays_text() -> None:
    nasty = "\ud800\u2028<script>|`" + "x" * 10_000
    before = two_rounds(pattern(60))
    responses = tuple(one.model_copy(update={"text": nasty}) for one in before.responses)
    rows = tuple(row(one.doc_id, 1 - one.score, round_=one.round, filter_=one.filter, extracted=nasty) for one in before.rows)
    section = shown(before, before.model_copy(update={"responses": responses, "rows": rows}))
    (pair, *_) = [
        inner for fold in section.blocks if isinstance(fold, Fold) for inner in fold.blocks if isinstance(inner, Pair)
    ]
    assert len(pair.right) < 5000
    assert section.model_dump()
