"""Comparing: pairing by id and hash, the ladder of classes, noise, and where two answers part."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servegate.checks.contract import ArmEvidence, Evidence
from servegate.checks.prompts import CHECK
from servegate.checks.prompts.classes import AnswerClass
from servegate.checks.prompts.divergence import Certainty, certainty_of
from servegate.checks.prompts.settings import PromptsSettings
from servegate.checks.prompts.tally import ContractState, Counts, contract_state
from servegate.domain.evidence import NotMeasured, Reason
from servegate.domain.judgement import Comparison
from tests.unit.checks.prompts_evidence import Said, compared, contracts_only, evidence, item, judged

JSON = {"json": True}
LOOP = "and so on " * 20


def classed(
    left: Said | str, right: Said | str, expect: dict[str, object] | None = None, category: str = "test"
) -> tuple[str, str]:
    """Return class and reason of one pair."""
    found = evidence({"p": [left]}, {"p": [right]}, {"p": expect} if expect else {}, filler=0, categories={"p": category})
    one = item(compared(found), "p")
    return one["class"], one["reason"]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("same", "same", "identical"),
        ("caf\u00e9", "cafe\u0301", "encoding"),
        ("\ufeffhello", "hello", "encoding"),
        ("a\r\nb", "a\nb", "whitespace"),
        ("a  b\n", "a b", "whitespace"),
        ("The transfer was approved.", "The transfer was not approved.", "changed_fact"),
        ("x\u00b2", "x2", "changed_fact"),
        ("pay\u200bload", "payload", "changed_fact"),
        ("ok \ud83d", "ok \ud83e", "changed_fact"),
        ("It is a fine day outside.", "Outside it is a lovely day.", "wording"),
        ("a sound answer", LOOP, "degenerate"),
        ("a sound answer", "!" * 64, "degenerate"),
        ("a sound answer", Said("", "empty"), "degenerate"),
        ("a sound answer", " \n", "degenerate"),
        (Said("", "empty"), Said("", "empty"), "not_comparable"),
        (Said("", "empty"), "an answer", "not_comparable"),
        (Said("", "failed"), Said("", "failed"), "not_comparable"),
        ("an answer", Said("", "timeout"), "not_comparable"),
        (Said("", "skipped"), "an answer", "not_comparable"),
        (Said("<think>x</think>", "reasoning_only"), Said("<think>x</think>", "reasoning_only"), "not_comparable"),
        (Said("cut here", "truncated"), Said("cut here", "truncated"), "identical"),
        (Said("it was cut here", "truncated"), Said("it was cut there", "truncated"), "wording"),
        ("whole", Said("whole and on", "truncated"), "not_comparable"),
        ("whole", Said("whole", "truncated"), "not_comparable"),
        ("a sound answer", Said(LOOP, "truncated"), "degenerate"),
    ],
)
def test_class_of_one_pair(left: Said | str, right: Said | str, expected: str) -> None:
    assert classed(left, right)[0] == expected


@pytest.mark.parametrize(
    ("left", "right", "expect", "expected"),
    [
        ('{"a": 1}', '{"a": 2}', JSON, "changed_fact"),
        ('{"a": 1, "b": 2}', '{"b": 2, "a": 1}', JSON, "wording"),
        ('{"a": 1}', 'Here it is: {"a": 1}', JSON, "contract_broken"),
        ('{"a": 1}', '{"a": 1, "a": 2}', JSON, "contract_broken"),
        ("no json in this", "there is no json here", JSON, "wording"),
        ("no json", '{"a": 1}', JSON, "changed_fact"),
        ('{"a": 1}', Said('{"a": 1, "b', "truncated"), JSON, "not_comparable"),
        ('{"a": 1}', Said("Sure! Here is the JSON you asked for: {", "truncated"), JSON, "contract_broken"),
        ('{"a": 1}', Said("<think>first I should", "truncated"), JSON, "not_comparable"),
        ("<think>so</think>42", "<think>hm, 41?</think>42", {"number": 42}, "wording"),
        ("<think>so</think>42", "<think>42</think>41", {"number": 42}, "contract_broken"),
        ("so 42</think>42", "so 42</think>41", {"regex": "42"}, "contract_broken"),
        ("Well: <think>42</think>42", "Well: <think>42</think>none", {"number": 42}, "contract_broken"),
        ('{"a": 1}', '</think>{"a": 1}', JSON, "contract_broken"),
    ],
)
def test_class_with_a_contract(left: Said | str, right: Said | str, expect: dict[str, object], expected: str) -> None:
    assert classed(left, right, expect)[0] == expected


def test_indentation_counts_in_code_and_not_in_prose() -> None:
    left, right = "def f():\n    return 1", "def f():\n  return 1"
    assert classed(left, right)[0] == "whitespace"
    assert classed(left, right, category="code") == ("changed_fact", "indentation")
    assert classed(left, right, {"code": "python"})[0] == "changed_fact"
    assert classed(left + " \r\n", left, category="code")[0] == "whitespace"


def test_reasons_say_which_arm() -> None:
    assert classed("a", Said("", "timeout"))[1] == "candidate: timeout"
    assert classed(Said("", "failed"), "a")[1] == "baseline: failed"
    assert classed(Said("a b", "truncated"), "a")[1] == "cap hit in the baseline only"
    assert classed("x", LOOP)[1].startswith("loop: ends in 19 repeats of")


def test_identical_arms_differ_in_nothing() -> None:
    said = {"a": ["one", "one"], "b": [Said("cut", "truncated"), Said("cut", "truncated")]}
    comparison = compared(evidence(said, said))
    assert comparison.n == 26
    assert comparison.candidate["classes"] == {**dict.fromkeys(AnswerClass, 0), "identical": 26}
    assert comparison.candidate["cut"] == 1
    assert comparison.unpaired.total == 0
    assert comparison.noise is not None
    assert comparison.noise.baseline is not None
    assert comparison.noise.baseline["differing"] == 0


def test_estimates_count_prompts_and_carry_intervals() -> None:
    baseline = {"p": ["x", "x"], "q": ["sound", "sound"]}
    candidate = {"p": ["y", "x"], "q": [LOOP, "sound"]}
    estimates = compared(evidence(baseline, candidate)).estimates
    differing = estimates["differing"]
    assert (differing.value, differing.n) == (2 / 26, 26)
    assert (differing.low, differing.high) == pytest.approx((0.0214, 0.2414), abs=1e-4)
    increase, strict = estimates["degenerate_increase"], estimates["degenerate_increase_99"]
    assert increase.value == pytest.approx(100 * 0.5 / 26)
    assert (increase.unit, increase.n, increase.level, strict.level) == ("points", 26, 0.9, 0.98)
    assert increase.high == pytest.approx(100 * (0.5 / 26 + 1 - 0.05 ** (1 / 26)))
    assert strict.low is not None
    assert increase.low is not None
    assert strict.low < increase.low < 0
    assert estimates["cap_hits_increase"].value == 0.0


def test_pairs_by_id_never_by_position() -> None:
    comparison = compared(evidence({"a": ["1"], "b": ["2"], "c": ["3"]}, {"c": ["3"], "a": ["1"]}, filler=0))
    assert comparison.n == 2
    assert (comparison.unpaired.baseline_only, comparison.candidate["classes"]["identical"]) == (1, 2)
    assert comparison.candidate["unpaired_ids"] == [["b", 0]]


@pytest.mark.parametrize("name", ["prompt_sha256", "token_ids_sha256", "sampling_sha256"])
def test_a_pair_that_was_asked_differently_is_counted_and_not_compared(name: str) -> None:
    other = Said("same", overrides={name: "other"})
    comparison = compared(evidence({"p": ["same", "same"]}, {"p": [other, "same"]}))
    assert comparison.unpaired.hash_differs == 1
    assert [one["round"] for one in item(comparison, "p")["by_round"]] == [1]


def test_both_arms_asked_something_else_than_the_recorded_prompt_says() -> None:
    other = Said("same", overrides={"prompt_sha256": "other"})
    assert compared(evidence({"p": [other]}, {"p": [other]})).unpaired.hash_differs == 1


def test_an_answer_that_neither_arm_has_is_missing() -> None:
    comparison = compared(evidence({"p": ["x", None]}, {"p": ["x", None]}))
    assert comparison.candidate["missing"] == 1
    assert comparison.unpaired.total == 0


def test_a_round_of_one_arm_alone_is_unpaired() -> None:
    comparison = compared(evidence({"p": ["x", "x"]}, {"p": ["x"]}))
    assert comparison.unpaired.baseline_only == 1


def test_noise_compares_one_round_with_one_round_in_either_direction() -> None:
    baseline = {"p": ["x", "x"], "q": ['{"a": 1}', '{"a": 1}'], "r": ["fine", "fine"]}
    candidate = {"p": ["x", "y"], "q": ["none", '{"a": 1}'], "r": [LOOP, "fine"]}
    comparison = compared(evidence(baseline, candidate, {"q": JSON}))
    noise = comparison.noise
    assert noise is not None
    assert noise.baseline is not None
    assert noise.candidate is not None
    assert noise.baseline["differing"] == 0
    assert noise.candidate["differing"] == 3
    assert {name: count for name, count in noise.candidate["classes"].items() if count} == {
        "identical": 24, "changed_fact": 1, "contract_broken": 1, "degenerate": 1,
    }  # fmt: skip
    assert comparison.candidate["differing"] == 2, "the headline compares round 0 with round 0"
    assert comparison.candidate.keys() > noise.candidate.keys() - {"rounds"}


def test_one_round_has_no_noise_and_says_why() -> None:
    comparison = compared(evidence({"p": ["x"]}, {"p": ["y"]}))
    assert comparison.noise is None
    assert comparison.noise_reason
    assert not item(comparison, "p")["beyond_noise"]


def test_beyond_noise_needs_both_arms_to_agree_with_themselves() -> None:
    baseline = {"p": ["x", "x"], "q": ["x", "x"], "r": ["x", "z"], "s": ["x", "x"]}
    candidate = {"p": ["y", "y"], "q": ["y", "w"], "r": ["y", "y"], "s": ["x ", "x"]}
    comparison = compared(evidence(baseline, candidate))
    assert [one["prompt_id"] for one in comparison.items if one["beyond_noise"]] == ["p"]
    assert comparison.candidate["unread"] == 1


def test_a_contract_settles_a_changed_fact_only_when_it_states_the_right_answer() -> None:
    form = evidence({"p": ['{"a":1}'] * 2}, {"p": ['{"a":2}'] * 2}, {"p": JSON})
    assert item(compared(form), "p")["contract"]["state"] == "kept"
    assert item(compared(form), "p")["unread"], "valid JSON with another value is not right for being valid"
    right = evidence({"p": ["So 5 and 4 make 9"] * 2}, {"p": ["It is 9"] * 2}, {"p": {"number": 9}})
    one = item(compared(right), "p")
    assert (one["class"], one["stable_fact_change"], one["unread"]) == ("changed_fact", True, False)


def test_a_fact_that_an_arm_changes_against_itself_is_noise_and_not_to_be_read() -> None:
    said = {"p": ["It costs 5 euros", "It costs 6 euros"], "q": ["It costs 5 euros", "The cost is 5 euros"]}
    other = {"p": ["It costs 7 euros"] * 2, "q": ["It costs 7 euros"] * 2}
    comparison = compared(evidence(said, other))
    assert [item(comparison, name)["unread"] for name in "pq"] == [False, True], "q only changes its wording by itself"
    assert item(comparison, "q")["changes"] == [{"kind": "number", "left": "5 euros", "right": "7 euros"}]


def test_a_round_of_contracts_alone_leaves_nothing_missing_and_stays_out_of_the_noise() -> None:
    said = {"p": ["x", "x", None, None], "q": ['{"a":1}'] * 4}
    found = evidence(said, said, {"q": JSON}, filler=24)
    arms = [
        ArmEvidence(None, None, contracts_only(side.measurement, {"q"}, (2, 3))) for side in (found.baseline, found.candidate)
    ]
    comparison = compared(Evidence(*arms, inputs=found.inputs))
    assert (comparison.candidate["missing"], comparison.unpaired.total) == (0, 0)
    assert comparison.candidate["full_rounds"] == [0, 1]
    assert [one["pairs"] for one in comparison.candidate["by_round"]] == [26, 26, 1, 1]
    assert comparison.noise is not None
    assert comparison.noise.baseline is not None
    assert (comparison.noise.baseline["rounds"], comparison.noise.baseline["pairs"]) == ([0, 1], 26)
    assert item(comparison, "q")["contract"]["candidate"] == {"kept": 4, "broken": 0, "open": 0}
    assert CHECK.judge(comparison, PromptsSettings.model_validate({"limits": {"unseen_increase_points": 15}})) == ()
    shown = CHECK.present(comparison, found, PromptsSettings(), ())
    assert shown.n == "26 prompts x 2 rounds, contracts 4 rounds"
    lost = contracts_only(found.candidate.measurement, {"q"}, (2, 3), lose=("q", 3))
    short = compared(Evidence(arms[0], ArmEvidence(None, None, lost), inputs=found.inputs))
    assert short.unpaired.baseline_only == 1, "a lost answer of an extra round is still counted"


def test_one_full_round_and_more_of_contracts_have_no_noise_floor() -> None:
    found = evidence({"p": ["x", None], "q": ['{"a":1}'] * 2}, {"p": ["y", None], "q": ['{"a":1}'] * 2}, {"q": JSON})
    arms = [
        ArmEvidence(None, None, contracts_only(side.measurement, {"q"}, (1,))) for side in (found.baseline, found.candidate)
    ]
    comparison = compared(Evidence(*arms, inputs=found.inputs))
    assert comparison.noise is None
    assert "prompts/no-noise-floor" in {one.code for one in CHECK.judge(comparison, PromptsSettings())}


def test_the_most_serious_round_is_the_one_to_read() -> None:
    found = evidence({"p": ['{"a":1}', '{"a":1}']}, {"p": ['{"a":2}', "broken"]}, {"p": JSON})
    one = item(compared(found), "p")
    assert (one["round"], one["class"]) == (1, "contract_broken")
    assert [pair["class"] for pair in one["by_round"]] == ["changed_fact", "contract_broken"]


A = (1, -0.5, {1: -0.5, 2: -0.625, 3: -0.75, 4: -1.5, 5: -3.0})


@pytest.mark.parametrize(
    ("other", "gap", "certainty"),
    [(2, 0.125, "coin_flip"), (3, 0.25, "coin_flip"), (4, 1.0, "lean"), (5, 2.5, "hard"), (9, None, "hard")],
)
def test_where_two_answers_part_and_how_sure_the_baseline_was(other: int, gap: float | None, certainty: str) -> None:
    shared = (8, -0.1, {8: -0.1})
    baseline = {"p": [Said("a b", tokens=[shared, A, (7, -0.2, {7: -0.2})])]}
    candidate = {"p": [Said("a c", tokens=[shared, (other, -0.3, {other: -0.3}), (6, -0.2, {6: -0.2})])]}
    comparison = compared(evidence(baseline, candidate))
    parting = item(comparison, "p")["divergence"]
    assert (parting["token"], parting["baseline_id"], parting["candidate_id"]) == (1, 1, other)
    assert parting["certainty"] == certainty
    assert (parting["gap_nats"] is None) == (gap is None)
    if gap is not None:
        assert math.isclose(parting["gap_nats"], gap, abs_tol=1e-6)
    else:
        assert parting["gap_reason"] == "not among the baseline's 5 likeliest"
    assert comparison.candidate["divergence"] == {certainty: 1}
    assert comparison.candidate["median_first_token"] == 1.0


def test_an_unknown_gap_is_a_reason_and_never_a_number() -> None:
    shorter = {"p": [Said("a", tokens=[A])]}
    longer = {"p": [Said("a b", tokens=[A, A])]}
    parting = item(compared(evidence(shorter, longer)), "p")["divergence"]
    assert (parting["gap_nats"], parting["certainty"]) == (None, "unknown")
    assert parting["gap_reason"] == "one answer ends where the other goes on"
    missing = (1, math.nan, {1: -0.5, 2: -0.6})
    other = {"p": [Said("b", tokens=[(2, -0.1, {2: -0.1})])]}
    parting = item(compared(evidence({"p": [Said("a", tokens=[missing])]}, other)), "p")["divergence"]
    assert parting["gap_reason"] == "the logprob is missing there"
    bare = item(compared(evidence({"p": ["a"]}, {"p": ["b"]})), "p")
    assert bare["divergence"] is None


def test_gap_classes_at_their_edges() -> None:
    cases = {-0.5: "coin_flip", 0.25: "coin_flip", 0.2500001: "coin_flip", 0.26: "lean", 1.0: "lean", 1.01: "hard"}
    assert {gap: certainty_of(gap).value for gap in cases} == cases
    assert certainty_of(math.inf) is Certainty.HARD


@pytest.mark.parametrize(
    ("baseline", "candidate", "state"),
    [
        (Counts(2, 0, 0), Counts(0, 2, 0), "confirmed"),
        (Counts(4, 0, 0), Counts(0, 4, 0), "confirmed"),
        (Counts(1, 0, 0), Counts(0, 1, 0), "unstable"),
        (Counts(2, 0, 0), Counts(1, 1, 0), "unstable"),
        (Counts(2, 0, 0), Counts(0, 1, 1), "unstable"),
        (Counts(1, 0, 1), Counts(0, 2, 0), "unstable"),
        (Counts(3, 1, 0), Counts(1, 3, 0), "unstable"),
        (Counts(4, 0, 0), Counts(1, 3, 0), "unstable"),
        (Counts(4, 0, 0), Counts(2, 2, 0), "noise"),
        (Counts(2, 2, 0), Counts(0, 4, 0), "noise"),
        (Counts(4, 0, 0), Counts(0, 3, 1), "unstable"),
        (Counts(4, 0, 0), Counts(3, 1, 0), "noise"),
        (Counts(1, 1, 0), Counts(0, 2, 0), "noise"),
        (Counts(2, 0, 0), Counts(2, 0, 0), "kept"),
        (Counts(0, 2, 0), Counts(2, 0, 0), "mended"),
        (Counts(0, 2, 0), Counts(0, 2, 0), "baseline_broken"),
        (Counts(2, 0, 0), Counts(0, 0, 2), "not_judged"),
        (Counts(0, 0, 2), Counts(0, 2, 0), "not_judged"),
        (Counts(2, 0, 0), Counts(1, 0, 1), "not_judged"),
    ],
)
def test_contract_over_all_rounds(baseline: Counts, candidate: Counts, state: str) -> None:
    assert contract_state(baseline, candidate, 2).value == state


def test_a_cut_contract_is_never_a_confirmed_break() -> None:
    for kept, broken, open_rounds in [(0, 1, 1), (0, 0, 2)]:
        assert contract_state(Counts(2, 0, 0), Counts(kept, broken, open_rounds), 1) is not ContractState.CONFIRMED


def test_nothing_is_compared_when_an_arm_or_the_inputs_are_missing() -> None:
    good = evidence({"p": ["x"]}, {"p": ["x"]})
    gone = NotMeasured(reason=Reason(code="start-failed", message="the engine did not start"))
    missing = CHECK.compare(
        Evidence(baseline=good.baseline, candidate=ArmEvidence(None, None, gone), inputs=good.inputs), PromptsSettings()
    )
    assert isinstance(missing, NotMeasured)
    assert missing.reason.message == "candidate: the engine did not start"
    bare = CHECK.compare(Evidence(baseline=good.baseline, candidate=good.candidate), PromptsSettings())
    assert isinstance(bare, NotMeasured)
    assert bare.reason.code == "inputs-absent"


TEXTS = st.sampled_from(["x", "x ", "y", "caf\u00e9", "cafe\u0301", '{"a": 1}', LOOP, "", "\ud83d", "!" * 64, "<script>\u2028"])
SAID = st.builds(Said, TEXTS, st.sampled_from(["ok", "truncated", "empty", "failed", "timeout", "reasoning_only"]))
ARM = st.dictionaries(st.sampled_from(["p", "q", "r"]), st.lists(st.one_of(st.none(), SAID), max_size=3), max_size=3)


@settings(deadline=None, max_examples=60)  # the machine may be busy
@given(ARM, ARM)
def test_any_evidence_is_compared_judged_and_shown_and_survives_strict_json(left: dict, right: dict) -> None:
    found = evidence(left, right, {"p": JSON, "q": {"max_words": 1}}, filler=30)
    comparison = compared(found)
    text = json.dumps(comparison.to_json(), allow_nan=False, ensure_ascii=True)
    again = Comparison.model_validate(json.loads(text))
    assert json.dumps(again.to_json(), allow_nan=False, ensure_ascii=True) == text
    limits = PromptsSettings()
    findings = CHECK.judge(again, limits)
    assert findings == CHECK.judge(comparison, limits)
    assert CHECK.present(again, found, limits, findings) == CHECK.present(comparison, found, limits, findings)
    lost = comparison.unpaired.total + comparison.candidate["missing"]
    recorded = {(a.prompt_id, a.round) for side in (found.baseline, found.candidate) for a in side.measurement.answers}
    pairs = sum(one["pairs"] for one in comparison.candidate["by_round"])
    assert pairs + comparison.unpaired.total == len(recorded), "every recorded answer is paired or counted"
    if lost or any(
        status not in ("ok", "truncated") for one in comparison.items for s in one["by_round"] for status in s["statuses"]
    ):
        assert any(one.severity != "info" for one in findings), "missing evidence is never a PASS"


@settings(deadline=None, max_examples=60)  # the machine may be busy
@given(ARM)
def test_an_arm_against_itself_never_loses(said: dict) -> None:
    found = evidence(said, said, {"p": JSON, "q": {"max_words": 1}})
    comparison = compared(found)
    assert not {"wording", "changed_fact", "contract_broken", "degenerate", "encoding", "whitespace"} & {
        one["class"] for one in comparison.items
    }
    assert not any(one.severity == "fail" for one in judged(found).values())
