"""Both routes on a real vLLM: streamed answers are the same evidence as whole ones, and tool calls come apart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from servegate.domain.evidence import ItemStatus
from servegate.domain.workload import Chat, ChatPrompt, Completion, CompletionRequest
from servegate.engines.readiness import ask
from servegate.engines.vllm import VllmEngine, VllmSession
from servegate.probes.completions import HttpCompletions
from servegate.text.contracts import State, judge
from tests.conftest import missing
from tests.integration.test_engine_life import arm_of

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(600)]

MODEL = Path(__file__).resolve().parents[2] / ".demo/smollm2-135m-instruct"
TEMPLATE = """\
{% if tools %}<|im_start|>system
{% for tool in tools %}{{ tool.function | tojson }}
{% endfor %}<|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>
{% endif %}{% endif %}"""
CITY = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Weather of a city", "parameters": CITY}}
QUESTIONS = (
    "What is the capital of France?",
    "Write a haiku about snow 🎉",
    "Count from 1 to 20.",
    "日本語で挨拶してください。",
)
TIMES = ("e2e_latency_s", "ttft_ms", "arrivals_ms", "ttft_ms_reason")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VllmSession]:
    engine = os.environ.get("SERVEGATE_TEST_ENGINE") or missing("SERVEGATE_TEST_ENGINE (a vllm executable)")
    if not MODEL.exists():
        missing("the demo's model (`make engine`)")
    directory = tmp_path_factory.mktemp("asking")
    (directory / "template.jinja").write_text(TEMPLATE)
    text = (
        f"model: {MODEL.resolve()}\ndtype: bfloat16\nmax-model-len: 2048\nenforce-eager: true\ngpu-memory-utilization: 0.5\n"
        f"chat-template: {directory}/template.jinja\nenable-prompt-tokens-details: true\n"
        "enable-auto-tool-choice: true\ntool-call-parser: hermes\n"
    )
    with VllmEngine(gate="asking").session(arm_of(engine, text=text), directory / "server.log") as serving:
        yield serving


@pytest.fixture(scope="module")
def probe(session: VllmSession) -> HttpCompletions:
    return HttpCompletions(session.endpoint, request_timeout_s=120, ensure_alive=session.ensure_alive)


def test_a_process_without_the_key_gets_no_answer(session: VllmSession) -> None:
    body = {"model": session.endpoint.model, "prompt": "Hello", "max_tokens": 1}
    url, log = f"{session.endpoint.base_url}/v1/completions", session.server.log_path
    assert [ask(url, 30, body, api_key=key).status for key in ("", "sk-guessed", session.endpoint.api_key)] == [401, 401, 200]
    assert ask(f"{session.endpoint.base_url}/v1/models", 30).status == 401
    assert session.endpoint.api_key not in log.read_text() + " ".join(session.facts.argv)


def test_streamed_or_not_the_evidence_is_the_same(probe: HttpCompletions) -> None:
    prompts = [ChatPrompt(id=str(n), messages=({"role": "user", "content": one},)) for n, one in enumerate(QUESTIONS)]
    requests = [
        CompletionRequest(id=one.id, token_ids=one.token_ids, max_tokens=48, top_logprobs=5, cache_salt="a")
        for one in probe.render(prompts)
    ]
    streamed = probe.complete(requests, 1, lambda _: None)
    plain = probe.complete([one.model_copy(update={"stream": False, "cache_salt": "b"}) for one in requests], 1, lambda _: None)
    for one, other in zip(streamed, plain, strict=True):
        assert one.status in (ItemStatus.OK, ItemStatus.TRUNCATED)
        assert len(one.top_ids) == len(one.token_ids) > 1
        for name in Completion.model_fields:
            assert name in TIMES or getattr(one, name) == getattr(other, name), name
        assert one.e2e_latency_s is not None
        if one.ttft_ms is None:  # a busy machine's engine sends two tokens in one piece: then their times are not known
            assert "pieces, so times of single tokens are not known" in str(one.ttft_ms_reason)
        else:
            assert 0 < one.ttft_ms < one.arrivals_ms[-1] <= 1000 * one.e2e_latency_s
        assert other.ttft_ms is None


def test_a_required_tool_call_keeps_its_contract_or_is_open_where_it_was_cut(probe: HttpCompletions) -> None:
    """A model this small may fill the grammar of a call with white space until the limit; that is no broken contract."""
    messages = ({"role": "user", "content": "What is the weather in Paris?"},)
    chat = Chat(messages=messages, tools=(TOOL,), tool_choice="required")
    request = CompletionRequest(id="t", token_ids=(1,), max_tokens=128, top_logprobs=5, cache_salt="c", chat=chat)
    (found,) = probe.complete([request], 1, lambda _: None)
    assert found.status in (ItemStatus.OK, ItemStatus.TRUNCATED), found.error
    cut = found.status is ItemStatus.TRUNCATED
    contract = {"tool_call": {"name": "weather", "arguments": CITY}}
    ruling = judge(contract, "", cut=cut, tool_calls=found.tool_calls)
    assert ruling.state is (State.OPEN if cut and not found.tool_calls else State.KEPT), found
    assert "weather" in found.text
    assert len(found.logprobs) == len(found.token_ids)
    (rendered,) = probe.render([ChatPrompt(id="t", messages=messages, tools=(TOOL,))])
    assert found.prompt_token_ids == rendered.token_ids


def test_a_template_argument_changes_what_the_engine_says_it_was_given(probe: HttpCompletions) -> None:
    messages = ({"role": "user", "content": "Hello"},)
    given = []
    for arguments in ({}, {"enable_thinking": False}):
        chat = Chat(messages=messages, chat_template_kwargs=arguments)
        request = CompletionRequest(id="t", token_ids=(1,), max_tokens=8, top_logprobs=1, chat=chat)
        (found,) = probe.complete([request], 1, lambda _: None)
        (rendered,) = probe.render([ChatPrompt(id="t", messages=messages, chat_template_kwargs=arguments)])
        assert found.prompt_token_ids == rendered.token_ids
        given.append(found.prompt_token_ids)
    assert given[0] != given[1]


def test_cached_tokens_are_stated_and_a_salt_of_its_own_starts_from_nothing(probe: HttpCompletions) -> None:
    long = CompletionRequest(id="l", token_ids=tuple(range(100, 700)), max_tokens=2, top_logprobs=1, cache_salt="one")
    first, second = (probe.complete([long], 1, lambda _: None)[0].cached_tokens for _ in range(2))
    (other,) = probe.complete([long.model_copy(update={"cache_salt": "two"})], 1, lambda _: None)
    assert first == other.cached_tokens == 0
    assert second is not None
    assert second > 500
