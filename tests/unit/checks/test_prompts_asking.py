"""Whether both arms were asked the same, and tool calls compared: the chat route, own templates, caches, toggles."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from servegate.checks.contract import ArmEvidence, Evidence
from servegate.checks.prompts import CHECK
from servegate.checks.prompts.records import PromptsInputs, PromptsMeasurement
from servegate.checks.prompts.settings import PromptsSettings
from servegate.domain.evidence import EngineFacts, EngineStatus, sha256_of_token_ids
from servegate.domain.judgement import Severity
from servegate.domain.workload import Completion, calls_as_text
from tests.unit.checks.prompts_evidence import Said, compared, evidence, item, judged
from tests.unit.checks.test_prompts_measure import Engine, inputs, measured, prepared, probes

PARIS, ROME = ({"name": "weather", "arguments": f'{{"city": "{city}"}}'} for city in ("Paris", "Rome"))


def calling(*calls: dict[str, Any], content: str = "", **overrides: Any) -> list[Said | str | None]:
    return [Said(content + calls_as_text(calls), overrides={"tool_calls": calls, **overrides})] * 2


def with_tools(found: Evidence[PromptsMeasurement], prompt_id: str, expect: Any = None) -> Evidence[PromptsMeasurement]:
    """Make one prompt of the evidence one that was asked on the chat route."""
    assert isinstance(found.inputs, PromptsInputs)
    made = tuple(
        one.model_copy(update={"route": "chat", "expect": expect}) if one.id == prompt_id else one
        for one in found.inputs.prompts
    )
    return Evidence(baseline=found.baseline, candidate=found.candidate, inputs=PromptsInputs(prompts=made))


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        (calling(PARIS), calling(PARIS), "identical"),
        (calling(PARIS), calling({**PARIS, "arguments": '{ "city":"Paris"}'}), "wording"),
        (calling(PARIS), calling(ROME), "changed_fact"),
        (calling(PARIS), calling({**PARIS, "name": "forecast"}), "changed_fact"),
        (calling(PARIS), calling(PARIS, PARIS), "changed_fact"),
        (calling(PARIS), ["I cannot look that up."] * 2, "changed_fact"),
        (calling(PARIS), [calls_as_text([PARIS])] * 2, "changed_fact"),
    ],
)
def test_another_call_is_a_changed_fact_also_when_text_looks_like_it(left: Any, right: Any, expected: str) -> None:
    made = with_tools(evidence({"t": left}, {"t": right}), "t")
    assert item(compared(made), "t")["class"] == expected


def test_a_call_that_the_contract_asks_for_and_the_candidate_loses_fails() -> None:
    contract = {"tool_call": {"name": "weather", "arguments": {"properties": {"city": {"const": "Paris"}}}}}
    for said in (calling(ROME), ["The weather is fine."] * 2, calling(PARIS, ROME)):
        made = with_tools(evidence({"t": calling(PARIS, content="Let me see.\n")}, {"t": said}), "t", contract)
        assert judged(made)["prompts/contract-broken"].severity is Severity.FAIL
    kept = with_tools(evidence({"t": calling(PARIS)}, {"t": calling(PARIS)}), "t", contract)
    assert item(compared(kept), "t")["contract"]["state"] == "kept"


def test_other_contracts_speak_of_the_content_and_not_of_the_calls() -> None:
    made = with_tools(
        evidence({"t": calling(PARIS, content="Yes.\n")}, {"t": calling(PARIS, content="Yes.\n")}), "t", {"max_words": 1}
    )
    assert item(compared(made), "t")["contract"]["state"] == "kept"


def test_c6_a_template_of_the_candidates_own_is_told_and_is_no_pass() -> None:
    def arm(sha256: str | None, why: str | None = None) -> list[Said | str | None]:
        own = {"own_token_ids_sha256": sha256, "own_token_ids_sha256_reason": why}
        return [Said("x", overrides=own), Said("x")]

    found = judged(evidence({"t": arm("a"), "u": arm("a")}, {"t": arm("b"), "u": arm("a")}))["prompts/template-differs"]
    assert found.severity is Severity.REVIEW
    assert "of 1 of 2 prompts, so its own users ask something else: t" in found.message.replace(
        "other tokens than the baseline's ", ""
    )
    unknown = judged(evidence({"t": arm("a")}, {"t": arm(None, "HTTP 404: Not Found")}))["prompts/template-unknown"]
    assert unknown.severity is Severity.REVIEW
    assert "HTTP 404" in unknown.message
    codes = (
        judged(evidence({"t": arm("a")}, {"t": arm("a")})).keys()
        | judged(evidence({"t": ["x", "x"]}, {"t": ["x", "x"]})).keys()
    )
    assert not {code for code in codes if "template" in code}, "equal templates and old runs say nothing"


def test_c4_unequal_cached_tokens_are_told_with_both_sums() -> None:
    def arm(*cached: int | None) -> list[Said | str | None]:
        return [Said("x", overrides={"cached_tokens": one}) for one in cached]

    found = judged(evidence({"t": arm(512, 0)}, {"t": arm(0, 0)}))["prompts/cached-tokens-differ"]
    assert found.severity is Severity.INFO
    assert "1 answer began from unequal cached prefixes (512 tokens in the baseline, 0 in the candidate)" in found.message
    for left, right in ((arm(16, 0), arm(16, 0)), (arm(None, None), arm(16, 16))):
        assert "prompts/cached-tokens-differ" not in judged(evidence({"t": left}, {"t": right}))


def test_c2_another_token_that_ends_answers_is_told() -> None:
    def arm(*last: int) -> list[Said | str | None]:
        return [Said("x", tokens=[(7, -1.0, {}), (one, -1.0, {})], overrides={"finish_reason": "stop"}) for one in last]

    found = judged(evidence({"t": arm(2, 2)}, {"t": arm(2, 0)}))["prompts/stop-ids-differ"]
    assert found.severity is Severity.INFO
    assert "token 2 in the baseline and token 0, 2 in the candidate" in found.message
    assert "prompts/stop-ids-differ" not in judged(evidence({"t": arm(2, 0)}, {"t": arm(0, 2)}))
    assert "prompts/stop-ids-differ" not in judged(evidence({"t": arm(2, 2)}, {"t": ["x", "x"]}))


def test_e3_reasoning_in_another_field_is_told() -> None:
    def arm(field: str | None) -> list[Said | str | None]:
        return [Said("x", overrides={"reasoning": "hm", "reasoning_field": field})] * 2

    found = judged(evidence({"t": arm("reasoning_content")}, {"t": arm("reasoning")}))["prompts/reasoning-moved"]
    assert found.severity is Severity.REVIEW
    assert "`reasoning_content` in the baseline and in `reasoning` in the candidate" in found.message
    assert "prompts/reasoning-moved" not in judged(evidence({"t": arm("reasoning")}, {"t": arm("reasoning")}))


@pytest.mark.parametrize(
    ("words", "told"), [("open /think/logs/a.txt", True), ("why? /no_think", True), ("a /thinkpad", False)]
)
def test_e6_a_thinking_toggle_in_the_words_of_a_user_is_told(words: str, told: bool) -> None:
    made = evidence({"t": ["x", "x"]}, {"t": ["x", "x"]})
    assert isinstance(made.inputs, PromptsInputs)
    prompts = tuple(
        one.model_copy(update={"messages": ({"role": "user", "content": words},)}) if one.id == "t" else one
        for one in made.inputs.prompts
    )
    found = judged(Evidence(baseline=made.baseline, candidate=made.candidate, inputs=PromptsInputs(prompts=prompts)))
    assert ("prompts/thinking-toggle" in found) is told


def engine_with(*argv: str) -> EngineFacts:
    return EngineFacts(role="baseline", session=0, status=EngineStatus.READY, version="0", argv=argv)


def test_a_reasoning_parser_of_the_baseline_or_tools_decide_the_route_of_both_arms() -> None:
    assert CHECK.prepare is not None
    asked = inputs()
    tooled = asked.model_copy(
        update={"prompts": (asked.prompts[0].model_copy(update={"tools": ({"x": 1},)}), *asked.prompts[1:])}
    )
    for argv, first, others in (((), "chat", "completions"), (("vllm", "--reasoning-parser=qwen3"), "chat", "chat")):
        made = CHECK.prepare(probes(Engine()), PromptsSettings(), tooled, engine_with(*argv))
        assert isinstance(made, PromptsInputs)
        assert [one.route for one in made.prompts] == [first, others, others]
        engine = Engine()
        measured(engine, made)
        by_id = {one.id: one for one in engine.sent[0]}
        assert by_id["p0"].chat is not None
        assert by_id["p0"].chat.messages == made.prompts[0].messages
        assert (by_id["p1"].chat is None) == (others == "completions")


def test_a_reasoning_parser_of_the_candidate_alone_was_not_measured() -> None:
    made = evidence({"t": ["x", "x"]}, {"t": ["x", "x"]})
    parser = engine_with("vllm", "serve", "--reasoning-parser=qwen3")
    for facts, told in ((parser, True), (engine_with("vllm"), False)):
        candidate = replace(made.candidate, engine=facts)
        found = judged(Evidence(baseline=made.baseline, candidate=candidate, inputs=made.inputs))
        assert ("prompts/parser-not-measured" in found) is told
    assert found.keys() == judged(made).keys()


def test_on_the_chat_route_the_hash_is_of_what_the_engine_says_it_was_given() -> None:
    """Equal in both arms or the pair is counted as asked differently; never as equal or changed."""
    made = prepared(Engine())
    made = made.model_copy(update={"prompts": tuple(one.model_copy(update={"route": "chat"}) for one in made.prompts)})

    def arm(ids: tuple[int, ...]) -> PromptsMeasurement:
        said = {one.id: Completion(id=one.id, status="ok", text="x", prompt_token_ids=ids) for one in made.prompts}
        return measured(Engine(said), made)

    same, other = arm((1, 2)), arm((1, 1, 2))
    assert {one.token_ids_sha256 for one in same.answers} == {sha256_of_token_ids((1, 2))}
    pairs = Evidence(
        baseline=ArmEvidence(engine=None, manifest=None, measurement=same),
        candidate=ArmEvidence(engine=None, manifest=None, measurement=other),
        inputs=made,
    )
    comparison = compared(pairs)
    assert (comparison.n, comparison.unpaired.hash_differs) == (0, 3)
    (finding,) = CHECK.judge(comparison, PromptsSettings())
    assert (finding.code, finding.severity) == ("prompts/other-requests", Severity.NOT_COMPARABLE)


def test_every_arm_renders_the_prompts_by_its_own_template_once() -> None:
    made = prepared(Engine())
    first, second = measured(Engine(), made, step=0), measured(Engine(), made, step=1)
    assert [one.own_token_ids_sha256 for one in first.answers] == [one.token_ids_sha256 for one in first.answers]
    assert {one.own_token_ids_sha256 for one in second.answers} == {None}
