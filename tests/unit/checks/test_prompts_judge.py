"""Judging: which finding comes of what, and that no lack of evidence passes."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from servegate.checks.prompts import CHECK
from servegate.checks.prompts.records import PromptsInputs
from servegate.checks.prompts.settings import PromptsSettings
from servegate.domain.judgement import Outcome, Severity, outcome_of
from tests.unit.checks.prompts_evidence import Said, compared, evidence, item, judged

JSON = {"json": True}
GOOD, BAD = '{"a": 1}', "no JSON at all"
LOOP = "and so on " * 20


def severities(found: object) -> dict[str, str]:
    return {code: one.severity.value for code, one in found.items()}  # type: ignore[attr-defined]


def test_identical_arms_give_no_finding() -> None:
    said = {"a": [GOOD, GOOD], "b": ["same", "same"], "c": [Said("cut", "truncated")] * 2}
    assert judged(evidence(said, said, {"a": JSON})) == {}


def test_a_confirmed_contract_break_fails_and_names_its_prompt() -> None:
    found = judged(evidence({"p": [GOOD, GOOD]}, {"p": [BAD, BAD]}, {"p": JSON}))
    assert severities(found) == {"prompts/contract-broken": "fail"}
    one = found["prompts/contract-broken"]
    assert (one.rule, one.value, one.operator, one.limit) == ("confirmed contract breaks", 1.0, ">", 0.0)
    assert [(ref.check, ref.id, ref.step) for ref in one.evidence] == [("prompts", "p", 0)]
    assert "p" in one.message


def test_a_tolerated_number_of_breaks_does_not_fail() -> None:
    found = evidence({"p": [GOOD, GOOD]}, {"p": [BAD, BAD]}, {"p": JSON})
    assert "prompts/contract-broken" not in judged(found, contract_breaks=1)


@pytest.mark.parametrize("rounds", [([GOOD, GOOD], [GOOD, BAD]), ([GOOD], [BAD])])
def test_a_break_that_is_not_confirmed_asks_for_review(rounds: tuple[list[str], list[str]]) -> None:
    found = judged(evidence({"p": rounds[0]}, {"p": rounds[1]}, {"p": JSON}))
    assert found["prompts/contract-unstable"].severity is Severity.REVIEW
    assert "prompts/contract-broken" not in found


def test_a_contract_that_was_cut_in_the_candidate_is_not_judged_and_not_passed() -> None:
    cut = Said('{"a": [1, 2', "truncated")
    found = judged(evidence({"p": [GOOD, GOOD]}, {"p": [cut, cut]}, {"p": JSON}))
    assert found["prompts/contract-not-judged"].severity is Severity.REVIEW
    assert "prompts/contract-broken" not in found
    assert found["prompts/cap-hit-increase"].severity is Severity.REVIEW


def test_a_baseline_that_keeps_no_contract_proves_nothing() -> None:
    bad = {name: [BAD, BAD] for name in "pqrs"}
    found = judged(evidence(bad, bad, dict.fromkeys("pqrs", JSON)))
    assert severities(found) == {"prompts/baseline-unsound": "review"}


def test_a_baseline_that_is_mostly_cut_or_degenerate_proves_little() -> None:
    cut = {"p": [Said("a", "truncated")] * 2, "q": [Said("b", "truncated")] * 2}
    found = judged(evidence(cut, cut, filler=1), fewest_prompts=1)
    assert severities(found) == {"prompts/baseline-unsound": "review"}
    assert "4 of 6 answers hit max_tokens" in found["prompts/baseline-unsound"].message
    loops = {"p": [LOOP] * 2, "q": [LOOP] * 2}
    assert "degenerate" in judged(evidence(loops, loops, filler=1), fewest_prompts=1)["prompts/baseline-unsound"].message


@pytest.mark.parametrize(("broken", "severity"), [(1, "review"), (2, "review"), (6, "fail"), (24, "fail")])
def test_more_degenerate_answers_fail_only_beyond_doubt(broken: int, severity: str) -> None:
    names = [f"p{number}" for number in range(broken)]
    found = judged(evidence({n: ["sound"] * 2 for n in names}, {n: [LOOP] * 2 for n in names}, filler=24 - broken))
    one = found["prompts/degenerate-increase"]
    assert one.severity.value == severity
    assert one.limit == 1.0
    assert one.evidence


def test_many_prompts_show_a_small_increase_to_be_small() -> None:
    found = judged(evidence({"p": ["sound"] * 2}, {"p": [LOOP, "sound"]}, filler=999))
    assert "prompts/degenerate-increase" not in found


def test_fewer_degenerate_answers_are_no_finding_of_their_own() -> None:
    assert judged(evidence({"p": [LOOP] * 2}, {"p": ["sound"] * 2})) == {}


@pytest.mark.parametrize(
    ("filler", "limit", "withheld"), [(297, 1.0, True), (298, 1.0, False), (19, 1.0, True), (19, 15, False)]
)
def test_none_seen_among_few_is_not_none(filler: int, limit: float, withheld: bool) -> None:
    said = {"p": ["x", "x"]}
    found = judged(evidence(said, said, filler=filler), unseen_increase_points=limit)
    assert severities(found) == ({"prompts/increase-not-ruled-out": "review"} if withheld else {})
    if withheld and limit == 1.0:
        assert "299 prompts without one rule out 1" in found["prompts/increase-not-ruled-out"].message


def test_one_kind_that_rose_does_not_hide_that_the_other_is_not_ruled_out() -> None:
    found = judged(evidence({"p": ["x", "x"]}, {"p": [LOOP, LOOP]}), unseen_increase_points=1.0)
    assert found["prompts/increase-not-ruled-out"].message.startswith("cap hits did not increase")


HALF, NEVER = [GOOD, BAD, GOOD, BAD], [BAD] * 4


@pytest.mark.parametrize(
    ("lost", "gained", "asked"),
    [(1, 0, False), (2, 0, False), (3, 0, True), (5, 0, True), (6, 1, True), (5, 1, False), (5, 5, False), (2, 5, False)],
)
def test_contracts_kept_in_half_and_then_never_are_a_loss_when_there_are_several(lost: int, gained: int, asked: bool) -> None:
    """2 of 4 against 0 of 4 was noise for each prompt, and so for all of them, until they were counted together."""
    names = [f"p{number}" for number in range(lost + gained)]
    before = {name: HALF if number < lost else NEVER for number, name in enumerate(names)}
    after = {name: NEVER if number < lost else HALF for number, name in enumerate(names)}
    found = judged(evidence(before, after, dict.fromkeys(names, JSON)), baseline_sound_share=0)
    assert found.keys() == ({"prompts/contracts-lost"} if asked else set())
    if asked:
        one = found["prompts/contracts-lost"]
        assert (one.severity, one.operator) == (Severity.REVIEW, "<=")
        assert [ref.id for ref in one.evidence] == names[:lost]


def test_contracts_that_are_coins_in_both_arms_are_rarely_asked_about() -> None:
    random = Random(20)
    asked = 0
    for _ in range(150):
        said = [{f"p{number}": [random.choice((GOOD, BAD)) for _ in range(4)] for number in range(12)} for _arm in range(2)]
        found = judged(evidence(*said, dict.fromkeys(said[0], JSON), filler=9), baseline_sound_share=0)
        asked += "prompts/contracts-lost" in found
    assert asked <= 0.06 * 150 + 3 * (0.06 * 0.94 * 150) ** 0.5


def test_cap_hits_never_fail_by_themselves() -> None:
    names = [f"p{number}" for number in range(24)]
    found = judged(
        evidence({n: ["whole"] * 2 for n in names}, {n: [Said("on and on", "truncated")] * 2 for n in names}, filler=0)
    )
    assert found["prompts/cap-hit-increase"].severity is Severity.REVIEW
    assert outcome_of(tuple(found.values())) is Outcome.REVIEW


@pytest.mark.parametrize("status", ["failed", "timeout", "skipped"])
def test_failed_requests_in_either_arm_ask_for_review(status: str) -> None:
    lost = Said("", status, error="connection reset")
    for baseline, candidate in ((lost, "x"), ("x", lost), (lost, lost)):
        found = judged(evidence({"p": [baseline, "x"]}, {"p": [candidate, "x"]}))
        assert severities(found) == {"prompts/failed": "review"}
        assert found["prompts/failed"].evidence[0].id == "p"


def test_empty_answers_are_never_equal_and_leave_nothing_to_compare() -> None:
    empty = Said("", "empty")
    for baseline, candidate in ((empty, empty), (empty, "an answer"), (LOOP, empty)):
        found = judged(evidence({"p": [baseline, "x"]}, {"p": [candidate, "x"]}))
        assert found["prompts/empty-answers"].severity is Severity.REVIEW
    new = judged(evidence({"p": ["x", "x"]}, {"p": [empty, "x"]}))
    assert severities(new) == {"prompts/degenerate-increase": "review"}


def test_reasoning_without_an_answer_asks_for_review() -> None:
    silent = Said("<think>x</think>", "reasoning_only")
    found = judged(evidence({"p": [silent] * 2}, {"p": [silent] * 2}))
    assert severities(found) == {"prompts/reasoning-only": "review"}


@pytest.mark.parametrize("who", ["baseline", "candidate", "both"])
def test_an_arm_that_answered_nothing_is_an_error_of_the_harness(who: str) -> None:
    dead, alive = {"p": [Said("", "failed")] * 2}, {"p": ["x", "x"]}
    found = judged(evidence(alive if who == "candidate" else dead, alive if who == "baseline" else dead, filler=0))
    assert severities(found) == {"prompts/all-failed": "error"}


def test_unpaired_answers_ask_for_review_and_are_listed() -> None:
    found = judged(evidence({"p": ["x", "x"]}, {"p": ["x"]}))
    assert severities(found) == {"prompts/unpaired": "review"}
    assert [(ref.id, ref.step) for ref in found["prompts/unpaired"].evidence] == [("p", 1)]
    assert judged(evidence({"p": ["x", None]}, {"p": ["x", None]})).keys() == {"prompts/unpaired"}


def test_arms_that_were_asked_differently_throughout_are_not_comparable() -> None:
    other = Said("x", overrides={"token_ids_sha256": "other"})
    found = judged(evidence({"p": ["x"]}, {"p": [other]}, filler=0))
    assert severities(found) == {"prompts/other-requests": "not_comparable"}


def test_nothing_in_common_is_an_error() -> None:
    assert severities(judged(evidence({"p": ["x"]}, {"q": ["x"]}, filler=0))) == {"prompts/nothing-compared": "error"}
    assert severities(judged(evidence({}, {}, filler=0))) == {"prompts/nothing-compared": "error"}


def test_too_few_prompts_never_pass() -> None:
    said = {"p": ["x", "x"]}
    found = judged(evidence(said, said, filler=18))
    assert severities(found) == {"prompts/few-prompts": "review"}
    assert judged(evidence(said, said, filler=19)) == {}
    assert judged(evidence(said, said, filler=19), fewest_prompts=299).keys() == {"prompts/few-prompts"}


def test_differences_without_a_noise_floor_ask_for_review() -> None:
    assert severities(judged(evidence({"p": ["x"]}, {"p": ["y"]}))) == {"prompts/no-noise-floor": "review"}
    assert judged(evidence({"p": ["x"]}, {"p": ["x"]})) == {}


def test_changed_wording_never_blocks_and_asks_nobody_to_read() -> None:
    names = [f"p{number}" for number in range(24)]
    fine = "It is a fine day in the old town."
    found = evidence({n: [fine] * 2 for n in names}, {n: ["A lovely day is seen in that town."] * 2 for n in names}, filler=0)
    assert compared(found).candidate["classes"]["wording"] == 24
    assert judged(found) == {}


FACTS = evidence({"p": ["It costs 5 euros a day."] * 2}, {"p": ["It costs 6 euros a day."] * 2})


def test_stable_fact_changes_stand_in_the_headline_or_ask_for_review() -> None:
    one = judged(FACTS)["prompts/unread-fact-changes"]
    assert (one.severity, one.message) == (Severity.INFO, "1 unread fact change: p")
    assert outcome_of(tuple(judged(FACTS).values())) is Outcome.PASS
    assert judged(FACTS, fact_changes="review")["prompts/unread-fact-changes"].severity is Severity.REVIEW


@pytest.mark.parametrize(("before", "after", "ratio"), [(100, 89, "below"), (100, 90, ""), (100, 110, ""), (100, 111, "above")])
def test_the_length_of_the_answers_is_gated_on_its_raw_ratio(before: int, after: int, ratio: str) -> None:
    def said(count: int) -> Said:
        return Said("the same", overrides={"completion_tokens": count})

    names = [f"p{number}" for number in range(24)]
    found = judged(evidence({n: [said(before)] * 2 for n in names}, {n: [said(after)] * 2 for n in names}, filler=0))
    assert severities(found) == ({"prompts/length-ratio": "review"} if ratio else {})
    if ratio:
        assert found["prompts/length-ratio"].operator == ("<" if ratio == "below" else ">")
        assert found["prompts/length-ratio"].value == after / before


def test_copies_of_one_prompt_know_no_more_than_one() -> None:
    """Three hundred ids with the same words would rule out what one prompt can not."""
    copied = Said("The same answer.", overrides={"prompt_sha256": "c" * 64})
    names = [f"copy-{number:03}" for number in range(300)]
    asked = evidence({name: [copied] * 2 for name in names}, {name: [copied] * 2 for name in names}, filler=19)
    assert isinstance(asked.inputs, PromptsInputs)
    prompts = tuple(
        one.model_copy(update={"prompt_sha256": "c" * 64}) if one.id.startswith("copy") else one for one in asked.inputs.prompts
    )
    asked = replace(asked, inputs=PromptsInputs(prompts=prompts))
    found = judged(asked, unseen_increase_points=1, fewest_prompts=21)
    assert severities(found) == {"prompts/few-prompts": "review", "prompts/increase-not-ruled-out": "review"}
    assert found["prompts/few-prompts"].message.startswith("20 prompts were compared (319 with copies)")
    assert compared(asked).estimates["degenerate_increase"].n == 20


@pytest.mark.parametrize("uncounted", [24, 1])
def test_answers_of_unknown_length_are_no_answers_of_equal_length(uncounted: int) -> None:
    names = [f"p{number}" for number in range(24)]
    silent = {name: [Said("the same", overrides={"completion_tokens": None})] * 2 for name in names[:uncounted]}
    counted: dict[str, list[Said | str]] = {name: ["the same"] * 2 for name in names}
    found = judged(evidence(counted, {**counted, **silent}, filler=0))
    assert severities(found) == {"prompts/length-unknown": "review"}
    assert f"of {uncounted} of 24 pairs" in found["prompts/length-unknown"].message


def test_a_candidate_that_degenerates_beyond_doubt_stops_the_run_and_a_broken_contract_does_not() -> None:
    names = [f"p{number}" for number in range(24)]
    assert CHECK.stop is not None
    looping = evidence({n: ["sound"] * 2 for n in names}, {n: [LOOP] for n in names}, filler=0)
    early = CHECK.stop(looping, PromptsSettings())
    assert early is not None
    assert early.code == "prompts/degenerate-increase"
    broken = evidence({"p": [GOOD, GOOD]}, {"p": [BAD, BAD]}, {"p": JSON})
    assert CHECK.stop(broken, PromptsSettings()) is None


def test_differences_within_the_noise_are_no_finding() -> None:
    assert judged(evidence({"p": ["x", "y"]}, {"p": ["y", "x"]})) == {}


def test_a_candidate_that_only_improved_is_no_finding_but_a_difference_to_read() -> None:
    found = evidence({"p": [BAD, BAD]}, {"p": [GOOD, GOOD]}, {"p": JSON, "filler-000": {"max_words": 9}})
    assert item(compared(found), "p")["contract"]["state"] == "mended"
    assert severities(judged(found)) == {"prompts/unread-fact-changes": "info"}


def test_old_evidence_is_judged_again_under_other_limits() -> None:
    found = evidence({"p": ["sound"] * 2}, {"p": [LOOP] * 2})
    assert "prompts/degenerate-increase" in judged(found)
    assert "prompts/degenerate-increase" not in judged(found, degenerate_increase_points=50.0)


def test_damage_that_a_limit_tolerates_is_told_and_never_called_none() -> None:
    broken = evidence({"p": [GOOD, GOOD]}, {"p": [BAD, BAD]}, {"p": JSON})
    told = judged(broken, contract_breaks=1)["prompts/contract-broken-tolerated"]
    assert (told.severity, told.value, told.operator, told.limit) == (Severity.INFO, 1.0, "<=", 1.0)
    looping = evidence({"p": ["sound"] * 2}, {"p": [LOOP] * 2})
    told = judged(looping, degenerate_increase_points=50)["prompts/degenerate-increase-tolerated"]
    assert (told.severity, told.operator, told.limit) == (Severity.INFO, "<", 50)
