"""Joining, counting and bounding: nothing by position, nothing silently left out, noise in the same shape."""

from __future__ import annotations

import pytest

from servegate.checks.accuracy.comparing import compare
from servegate.checks.accuracy.contrast import Contrast, Validity
from servegate.checks.accuracy.record import AccuracyMeasurement
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.domain.evidence import ItemStatus, NotMeasured, Reason
from servegate.domain.judgement import Comparison
from tests.unit.checks.accuracy_samples import FLEXIBLE, STRICT, arm, evidence, flipped, pattern, recorded, row, task
from tests.unit.samples import engine_facts

SETTINGS = AccuracySettings()


def compared(baseline: AccuracyMeasurement, candidate: AccuracyMeasurement) -> Comparison:
    comparison = compare(evidence(baseline, candidate), SETTINGS)
    assert isinstance(comparison, Comparison)
    return comparison


def shape(comparison: Comparison) -> Contrast:
    return Contrast.model_validate(comparison.candidate)


def validity(comparison: Comparison) -> Validity:
    found = shape(comparison).validity
    assert found is not None
    return found


@pytest.mark.parametrize(("candidate", "lost", "won"), [("fp8", 3, 2), ("kv", 1, 5)])
def test_recorded_cpu_run(candidate: str, lost: int, won: int) -> None:
    """54 word problems on vLLM 0.32.0: FP8 weights 3 right-to-wrong and 2 back, FP8 KV cache 1 and 5."""
    comparison = compared(recorded("bf16"), recorded(candidate))
    (flips,) = shape(comparison).rounds
    assert (flips.n, flips.right_to_wrong, flips.wrong_to_right) == (54, lost, won)
    assert comparison.unpaired.total == 0
    assert comparison.estimates["drop"].value == pytest.approx(100 * (lost - won) / 54)
    assert comparison.estimates["accuracy_baseline"].value == pytest.approx(100 * 22 / 54)
    assert comparison.noise is None
    assert comparison.noise_reason


def test_flips_that_accuracy_hides() -> None:
    before = pattern(1319)
    (flips,) = shape(compared(arm(before), arm(flipped(before, 41, 38)))).rounds
    assert (flips.right_to_wrong, flips.wrong_to_right) == (41, 38)
    assert flips.mcnemar_p == pytest.approx(0.82, abs=0.005)


def test_rows_are_joined_by_id_not_by_position() -> None:
    before = arm(pattern(40), pattern(40))
    shuffled = before.model_copy(update={"rows": before.rows[::-1], "responses": before.responses[::-1]})
    comparison = compared(before, shuffled)
    assert all(flips.flipped == 0 and flips.same_text == 40 for flips in shape(comparison).rounds)
    assert comparison.unpaired.total == 0


def test_each_filter_is_counted_for_itself() -> None:
    judged, strict = [0.0, 1.0, 1.0], [1.0, 1.0, 1.0]
    comparison = compared(arm(judged, strict=[strict]), arm(judged, strict=[[0.0, 1.0, 0.0]]))
    assert shape(comparison).filters[STRICT][0].right_to_wrong == 2
    assert shape(comparison).filters[FLEXIBLE][0].flipped == 0
    assert shape(comparison).rounds[0].flipped == 0
    assert shape(comparison).format_flips == 2


def test_a_flip_that_another_filter_denies_is_an_extraction_suspect() -> None:
    comparison = compared(arm([1.0, 1.0]), arm([0.0, 0.0], strict=[[1.0, 0.0]]))
    assert shape(comparison).rounds[0].extraction_suspects == 1
    assert [item["extraction_suspect"] for item in comparison.items] == [True, False]


def test_missing_questions_are_counted_on_their_side() -> None:
    comparison = compared(arm(pattern(5)), arm(pattern(4)))
    assert (comparison.n, comparison.unpaired.baseline_only, comparison.unpaired.candidate_only) == (4, 1, 0)


def test_a_missing_round_is_all_unpaired() -> None:
    comparison = compared(arm(pattern(6), pattern(6)), arm(pattern(6)))
    assert comparison.unpaired.baseline_only == 6
    assert comparison.n == 6


def test_a_missing_filter_is_a_missing_answer() -> None:
    whole = arm(pattern(3))
    part = whole.model_copy(update={"rows": tuple(one for one in whole.rows if (one.doc_id, one.filter) != (1, STRICT))})
    assert compared(whole, part).unpaired.baseline_only == 1
    assert compared(part, whole).unpaired.candidate_only == 1


@pytest.mark.parametrize("changed", ["doc_hash", "target_hash", "prompt_hash"])
def test_equal_ids_with_other_hashes_are_other_questions(changed: str) -> None:
    before = arm(pattern(8))
    rows = tuple(one.model_copy(update={changed: "other"}) if one.doc_id == 5 else one for one in before.rows)
    comparison = compared(before, before.model_copy(update={"rows": rows}))
    assert comparison.unpaired.hash_differs == 1
    assert comparison.n == 7


def test_a_repeated_row_counts_once_and_a_contradicting_one_not_at_all() -> None:
    before = arm(pattern(4))
    agreeing = before.model_copy(update={"rows": (*before.rows, before.rows[0])})
    assert compared(before, agreeing).unpaired.total == 0
    contradicting = before.model_copy(update={"rows": (*before.rows, row(0, 1.0 - before.rows[0].score))})
    assert compared(before, contradicting).unpaired.hash_differs == 1


def test_the_drop_is_per_question_over_rounds() -> None:
    comparison = compared(arm([1.0, 1.0, 0.0], [1.0, 0.0, 0.0]), arm([0.0, 1.0, 0.0], [1.0, 1.0, 0.0]))
    assert comparison.estimates["drop"].value == pytest.approx(100 * (0.5 - 0.5 + 0.0) / 3)
    assert (validity(comparison).worse_questions, validity(comparison).better_questions) == (1, 1)


def test_rounds_that_flip_and_flip_back_are_noise_in_the_same_shape() -> None:
    before = pattern(100)
    comparison = compared(arm(before, flipped(before, 3, 2)), arm(before, before))
    assert comparison.noise is not None
    assert comparison.noise.baseline is not None
    assert comparison.noise.candidate is not None
    own = Contrast.model_validate(comparison.noise.baseline)
    assert (own.rounds[0].left_round, own.rounds[0].right_round) == (0, 1)
    assert (own.rounds[0].right_to_wrong, own.rounds[0].wrong_to_right) == (3, 2)
    assert own.discordance == pytest.approx(0.05)
    assert Contrast.model_validate(comparison.noise.candidate).discordance == 0
    noisy = {item["doc_id"] for item in comparison.items if item["baseline_flips_itself"]}
    assert len(noisy) == 5


def test_both_wrong_in_another_way_is_counted() -> None:
    before = arm([0.0, 0.0])
    rows = tuple(one.model_copy(update={"extracted": "7"}) if one.doc_id == 0 else one for one in before.rows)
    comparison = compared(before, before.model_copy(update={"rows": rows}))
    assert shape(comparison).rounds[0].both_wrong_different == 1
    assert shape(comparison).rounds[0].both_wrong_same == 1


@pytest.mark.parametrize("status", [ItemStatus.EMPTY, ItemStatus.FAILED, ItemStatus.TRUNCATED])
def test_an_answer_that_never_came_is_neither_right_nor_wrong(status: ItemStatus) -> None:
    scores = [1.0] * 90 + [0.0] * 10
    comparison = compared(arm(scores), arm(scores, lost={(0, doc_id): status for doc_id in range(6)}))
    assert comparison.n == 94
    assert comparison.estimates["drop"].value == 0
    assert comparison.estimates["drop_against_candidate"].value == pytest.approx(6.0)
    assert shape(comparison).rounds[0].no_answer_right == 6
    assert shape(comparison).rounds[0].flipped == 0
    said = validity(comparison)
    assert said.no_answers_candidate + said.cut_candidate == 6
    assert said.cut_candidate == (6 if status is ItemStatus.TRUNCATED else 0)


def test_an_answer_that_only_the_baseline_lost_earns_nothing() -> None:
    scores = [1.0] * 10
    comparison = compared(arm(scores, lost={(0, 0): ItemStatus.EMPTY}), arm(scores))
    assert comparison.estimates["drop_against_candidate"].value == 0
    assert comparison.estimates["drop_against_candidate"].n == 10
    wrong = compared(arm(scores, lost={(0, 0): ItemStatus.EMPTY}), arm([0.0, *scores[1:]]))
    assert wrong.estimates["drop_against_candidate"].value == pytest.approx(10.0)


def test_an_answer_that_both_lost_is_no_change() -> None:
    lost = {(0, 0): ItemStatus.EMPTY}
    comparison = compared(arm([1.0] * 10, lost=lost), arm([1.0] * 10, lost=lost))
    assert (comparison.estimates["drop_against_candidate"].value, comparison.estimates["drop_against_candidate"].n) == (0, 10)


def test_tasks_are_pooled_and_never_mixed_up() -> None:
    first = arm(pattern(20))
    other = first.model_copy(
        update={
            "tasks": (task("other"),),
            "rows": tuple(one.model_copy(update={"task": "other"}) for one in first.rows),
            "responses": tuple(one.model_copy(update={"task": "other"}) for one in first.responses),
        }
    )
    both = first.model_copy(
        update={name: getattr(first, name) + getattr(other, name) for name in ("tasks", "rows", "responses")}
    )
    comparison = compared(both, both)
    assert comparison.n == 40
    assert validity(comparison).distinct_questions == 40
    assert compared(both, first).unpaired.baseline_only == 20


def test_repeated_documents_are_not_distinct_questions() -> None:
    before = arm(pattern(10))
    rows = tuple(one.model_copy(update={"doc_hash": "same"}) for one in before.rows)
    repeated = before.model_copy(update={"rows": rows})
    assert validity(compared(repeated, repeated)).distinct_questions == 1


def test_one_round_brings_tango() -> None:
    before = pattern(600)
    comparison = compared(arm(before), arm(flipped(before, 14, 4)))
    assert comparison.estimates["drop_tango"].value == pytest.approx(100 * 10 / 600)
    assert "drop_tango" not in compared(arm(before, before), arm(before, before)).estimates


def test_serving_differs_looks_past_what_every_start_draws_afresh() -> None:
    same = ("vllm", "serve", "m", "--host=127.0.0.1", "--port=1", "--served-model-name=a")
    other_port = ("vllm", "serve", "m", "--host=127.0.0.1", "--port=2", "--served-model-name=b")
    fp8 = (*other_port, "--quantization=fp8")
    for argv, differs in ((other_port, False), (fp8, True), ((), None)):
        facts = engine_facts("baseline", argv=same), engine_facts("candidate", argv=argv)
        comparison = compare(evidence(arm(pattern(4)), arm(pattern(4)), facts), SETTINGS)
        assert isinstance(comparison, Comparison)
        assert validity(comparison).serving_differs is differs


def test_not_measured_gives_its_reason() -> None:
    reason = NotMeasured(reason=Reason(code="engine_failed", message="died"))
    assert compare(evidence(arm(pattern(3)), reason), SETTINGS) == NotMeasured(
        reason=Reason(code="engine_failed", message="candidate: died")
    )


def test_nothing_paired_has_no_estimates() -> None:
    comparison = compared(arm(pattern(3)), arm())
    assert comparison.n == 0
    assert comparison.estimates == {}
