"""The chat route: what is sent, and what of an answer's parts is kept. The answers have vLLM 0.32's shape."""

from __future__ import annotations

import json
from typing import Any

import pytest

from servegate.domain.evidence import ItemStatus
from servegate.domain.workload import Chat, Completion, CompletionRequest
from servegate.http import Reply
from servegate.probes.chat_replies import chat_completion, chat_payload

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
MESSAGES = ({"role": "user", "content": "Weather in Paris?"},)
CHAT = Chat(messages=MESSAGES, tools=(TOOL,), chat_template_kwargs={"enable_thinking": False})
REQUEST = CompletionRequest(id="p", token_ids=(1, 2), max_tokens=3, top_logprobs=2, cache_salt="s", chat=CHAT)
CALL = {"id": "chatcmpl-tool-1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}


def row(token: int, *others: int) -> dict[str, Any]:
    tops = [{"token": f"token_id:{one}", "logprob": -0.5 - n, "bytes": [1]} for n, one in enumerate((token, *others))]
    return {"token": f"token_id:{token}", "logprob": -0.5, "bytes": [1], "top_logprobs": tops}


def document(message: dict[str, Any], /, **changes: Any) -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": None, "reasoning": None, "tool_calls": [], **message},
        "logprobs": {"content": [row(7, 9, 8), row(2, 4)]},
        "finish_reason": "stop",
        "token_ids": [7, 2],
    }
    usage = {"prompt_tokens": 4, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 3}}
    return {"object": "chat.completion", "choices": [{**choice, **changes}], "usage": usage, "prompt_token_ids": [1, 5, 6, 2]}


def judged(message: dict[str, Any], /, **changes: Any) -> Completion:
    return chat_completion(REQUEST, Reply(200, json.dumps(document(message, **changes)).encode(), 0.25))


def test_messages_tools_and_every_sampling_parameter_are_sent_and_nothing_is_streamed() -> None:
    body = chat_payload("m", REQUEST, CHAT)
    assert (body["messages"], body["tools"], body["tool_choice"]) == ([*MESSAGES], [TOOL], "auto")
    assert (body["logprobs"], body["top_logprobs"], body["stream"], body["return_token_ids"]) == (True, 2, False, True)
    assert (body["temperature"], body["seed"], body["repetition_penalty"], body["cache_salt"]) == (0.0, 0, 1.0, "s")
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert "prompt" not in body
    plain = chat_payload("m", REQUEST.model_copy(update={"top_logprobs": 0}), Chat(messages=MESSAGES))
    assert not {"tools", "tool_choice", "chat_template_kwargs", "top_logprobs"} & plain.keys()
    assert plain["logprobs"] is False


def test_an_answer_keeps_what_the_engine_was_given_its_tokens_and_their_logprobs() -> None:
    found = judged({"content": "Sunny."})
    assert (found.status, found.text, found.tool_calls, found.reasoning) == (ItemStatus.OK, "Sunny.", (), None)
    assert (found.prompt_token_ids, found.token_ids, found.logprobs) == ((1, 5, 6, 2), (7, 2), (-0.5, -0.5))
    assert found.top_ids == ((7, 9), (2, 4))
    assert (found.prompt_tokens, found.completion_tokens, found.cached_tokens) == (4, 2, 3)
    assert (found.e2e_latency_s, found.ttft_ms, found.ttft_ms_reason) == (0.25, None, "the answer was not streamed")


def test_tool_calls_are_kept_without_their_ids_and_stand_in_the_text() -> None:
    found = judged({"tool_calls": [CALL, CALL]}, finish_reason="tool_calls")
    assert (found.status, found.finish_reason) == (ItemStatus.OK, "tool_calls")
    assert found.tool_calls == ({"name": "weather", "arguments": '{"city": "Paris"}'},) * 2
    assert found.text == '[tool call] weather {"city": "Paris"}\n' * 2
    both = judged({"content": "Let me see.", "tool_calls": [CALL]}, finish_reason="tool_calls")
    assert both.text == 'Let me see.\n[tool call] weather {"city": "Paris"}\n'


@pytest.mark.parametrize(
    ("message", "finish", "status", "field"),
    [
        ({"content": "42", "reasoning": "hm"}, "stop", ItemStatus.OK, "reasoning"),
        ({"content": "42", "reasoning_content": "hm"}, "stop", ItemStatus.OK, "reasoning_content"),
        ({"content": "42", "reasoning": "", "reasoning_content": "hm"}, "stop", ItemStatus.OK, "reasoning_content"),
        ({"content": "<think>hm</think>42"}, "stop", ItemStatus.OK, "text"),
        ({"content": "", "reasoning": "the answer is 42"}, "stop", ItemStatus.REASONING_ONLY, "reasoning"),
        ({"content": None, "reasoning": "maybe 41, no 42"}, "length", ItemStatus.REASONING_ONLY, "reasoning"),
        ({"content": "<think>maybe 41"}, "length", ItemStatus.TRUNCATED, "text"),
        ({"content": None}, "stop", ItemStatus.EMPTY, None),
        ({"content": "", "tool_calls": None}, "length", ItemStatus.TRUNCATED, None),
        ({"content": "", "reasoning": "hm", "tool_calls": [CALL]}, "tool_calls", ItemStatus.OK, "reasoning"),
    ],
)
def test_e1_to_e4_reasoning_is_no_answer_whatever_its_field(
    message: dict[str, Any], finish: str, status: ItemStatus, field: str | None
) -> None:
    found = judged(message, finish_reason=finish)
    assert (found.status, found.reasoning_field) == (status, field)


def test_a_thought_that_was_cut_says_so() -> None:
    found = judged({"reasoning": "maybe 41"}, finish_reason="length")
    assert found.error == "cut at 2 tokens while it was thinking"


@pytest.mark.parametrize(
    ("message", "changes", "said"),
    [
        ({"content": "x"}, {"token_ids": None}, "token_ids is no list of token ids"),
        ({"content": "x"}, {"logprobs": None}, "logprobs were asked for and did not come"),
        ({"content": "x"}, {"logprobs": {"content": [row(7)]}}, "1 logprobs belong to other tokens than the 2 token_ids"),
        ({"content": "x"}, {"logprobs": {"content": [row(7), row(3)]}}, "belong to other tokens"),
        ({"content": "x"}, {"token_ids": [7], "logprobs": {"content": [row(7)]}}, "counts 2 generated tokens, 1 came"),
        ({"content": ["x"]}, {}, "content is list, not a string"),
        ({"content": "x"}, {"message": None}, "holds no message"),
        ({"content": "x"}, {"finish_reason": "abort"}, "finish_reason is 'abort'"),
        ({"tool_calls": {"name": "f"}}, {}, "tool_calls is dict, not a list"),
        ({"tool_calls": [{"function": {"name": None}}]}, {}, "a tool call has no name"),
        ({"tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}, {}, "arguments that are no text"),
        ({"tool_calls": ["f"]}, {}, "a tool call has no name"),
    ],
)
def test_an_answer_that_cannot_be_evidence_is_a_failure(message: dict[str, Any], changes: dict[str, Any], said: str) -> None:
    found = judged(message, **changes)
    assert found.status is ItemStatus.FAILED
    assert said in str(found.error)


def test_an_engine_that_does_not_say_what_it_was_given_proves_nothing() -> None:
    made = {**document({"content": "x"}), "prompt_token_ids": None}
    found = chat_completion(REQUEST, Reply(200, json.dumps(made).encode(), 0.1))
    assert (found.status, found.text) == (ItemStatus.FAILED, "")
    assert "did not return prompt_token_ids" in str(found.error)
    refused = chat_completion(REQUEST, Reply(400, b'{"error": {"message": "no tool parser"}}', 0.1))
    assert refused.error == "HTTP 400: no tool parser"


@pytest.mark.parametrize("ids", [[], [1], [1, 5, 6, 2, 9]])
def test_prompt_ids_that_are_none_or_not_as_many_as_the_engine_counts_prove_nothing(ids: list[int]) -> None:
    """Two arms that both return no ids would be "asked the same"."""
    made = {**document({"content": "Sunny."}), "prompt_token_ids": ids}
    found = chat_completion(REQUEST, Reply(200, json.dumps(made).encode(), 0.1))
    assert found.status is ItemStatus.FAILED
    assert f"returns {len(ids)} prompt_token_ids" in str(found.error)


def test_an_answer_without_its_tokens_is_no_evidence() -> None:
    made = {**document({"content": "Sunny."}, token_ids=[], logprobs={"content": []}), "usage": None}
    found = chat_completion(REQUEST, Reply(200, json.dumps(made).encode(), 0.1))
    assert (found.status, found.error) == (ItemStatus.FAILED, "there is an answer, and it came without the ids of its tokens")
