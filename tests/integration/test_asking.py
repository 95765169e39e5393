"""Asking over both routes, streamed and not, against the fake engine as a program: the same evidence, and faults in time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servegate.domain.evidence import ItemStatus
from servegate.domain.workload import Chat, ChatPrompt, Completion, CompletionRequest
from servegate.engines.vllm import VllmEngine
from servegate.probes.completions import HttpCompletions
from tests.fakes import install
from tests.integration.test_engine_life import arm_of

TIMES = ("e2e_latency_s", "ttft_ms", "arrivals_ms", "ttft_ms_reason")
TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
ANSWERS = {
    "emoji": "naïve 🎉 – “so” 日本語",
    "Paris": 'Let me see.<tool_call>{"name": "weather", "arguments": {"city": "Paris"}}</tool_call>',
    "think": "<think>maybe 41</think>It is 42.",
    "ponder": "<think>maybe 41",
}


@pytest.fixture
def probe_of(tmp_path: Path):
    """Serve the fake engine with a fault and more of a serving config, and return a probe of it."""
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps(ANSWERS))
    open_: list[Any] = []

    def start(fault: str = "", config: str = "") -> HttpCompletions:
        arm = arm_of(install(tmp_path / "bin"), fault, f"model: some/model\n{config}", FAKE_VLLM_ANSWERS=str(answers))
        context = VllmEngine(gate="gate").session(arm, tmp_path / "server.log")
        session = context.__enter__()
        open_.append(context)
        return HttpCompletions(session.endpoint, request_timeout_s=20, ensure_alive=session.ensure_alive)

    yield start
    for context in open_:
        context.__exit__(None, None, None)


def asked(probe: HttpCompletions, *words: str, **more: Any) -> list[CompletionRequest]:
    prompts = [ChatPrompt(id=one, messages=({"role": "user", "content": f"Tell {one}"},)) for one in words]
    return [
        CompletionRequest(id=one.id, token_ids=one.token_ids, max_tokens=64, top_logprobs=5, **more)
        for one in probe.render(prompts)
    ]


def chatted(word: str, **more: Any) -> CompletionRequest:
    chat = Chat(messages=({"role": "user", "content": f"Tell {word}"},), **more)
    return CompletionRequest(id=word, token_ids=(1,), max_tokens=64, top_logprobs=5, chat=chat)


def complete(probe: HttpCompletions, requests: list[CompletionRequest]) -> tuple[Completion, ...]:
    return probe.complete(requests, 4, lambda _: None)


def test_streamed_or_not_the_evidence_is_the_same(probe_of) -> None:
    probe = probe_of()
    requests = asked(probe, "emoji", "2 and 3", "something else", "JSON 1 2")
    streamed = complete(probe, requests)
    plain = complete(probe, [one.model_copy(update={"stream": False}) for one in requests])
    for one, other in zip(streamed, plain, strict=True):
        assert one.status is ItemStatus.OK
        assert {name: getattr(one, name) for name in Completion.model_fields if name not in TIMES} == {
            name: getattr(other, name) for name in Completion.model_fields if name not in TIMES
        }
        assert other.ttft_ms_reason == "the answer was not streamed"
    assert streamed[0].text == ANSWERS["emoji"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [("stream-error-after-2", "an error inside the stream after "), ("stream-cut-after-2", "broke off")],
)
@pytest.mark.parametrize("stream", [True, False])
def test_half_an_answer_is_a_failure_with_its_reason(probe_of, fault: str, said: str, stream: bool) -> None:
    probe = probe_of(fault)
    requests = asked(probe, "one", "two", "three", stream=stream)
    found = probe.complete(requests, 1, lambda _: None)
    assert [one.status for one in found] == [ItemStatus.OK, ItemStatus.FAILED, ItemStatus.FAILED], "the start took one"
    assert {one.text for one in found[1:]} == {""}
    if stream or "cut" in fault:
        assert said in str(found[1].error)
    else:
        assert found[1].error == "HTTP 200: EngineCore encountered an issue."


def test_tool_calls_come_apart_on_the_chat_route_where_the_parser_is_on(probe_of) -> None:
    probe = probe_of(config="enable-auto-tool-choice: true\ntool-call-parser: hermes\n")
    called, silent = complete(probe, [chatted("Paris", tools=(TOOL,)), chatted("Paris 2", tools=(TOOL,), tool_choice="none")])
    assert (called.status, called.finish_reason) == (ItemStatus.OK, "tool_calls")
    assert called.tool_calls == ({"name": "weather", "arguments": '{"city": "Paris"}'},)
    assert called.text == 'Let me see.\n[tool call] weather {"city": "Paris"}\n'
    assert silent.tool_calls == ()
    assert "<tool_call>" in silent.text
    rendered = probe.render([ChatPrompt(id="x", messages=({"role": "user", "content": "Tell Paris"},), tools=(TOOL,))])
    assert called.prompt_token_ids == rendered[0].token_ids
    assert len(called.logprobs) == len(called.token_ids)


def test_reasoning_stands_apart_and_a_cut_thought_is_no_answer(probe_of) -> None:
    probe = probe_of(config="reasoning-parser: deepseek_r1\n")
    whole, cut, silent = complete(
        probe, [chatted("think"), chatted("ponder"), chatted("think 2", chat_template_kwargs={"enable_thinking": False})]
    )
    assert (whole.text, whole.reasoning, whole.reasoning_field) == ("It is 42.", "maybe 41", "reasoning")
    assert (cut.status, cut.text, cut.reasoning) == (ItemStatus.REASONING_ONLY, "", "maybe 41")
    assert silent.prompt_token_ids is not None
    assert whole.prompt_token_ids is not None
    assert len(silent.prompt_token_ids) > len(whole.prompt_token_ids) + 1, "the template honours the toggle, so the ids differ"
