"""What a request holds and what an answer means, on a recorded answer of vLLM 0.32.0 and on damaged ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servegate.domain.evidence import ItemStatus
from servegate.domain.workload import Completion, CompletionRequest
from servegate.http import Reply
from servegate.probes.completion_replies import completion, payload
from servegate.probes.reply_parts import UnusableReplyError, ranked_of, tops_of
from tests.fakes.completions_server import answer

REQUEST = CompletionRequest(id="p1", token_ids=(1, 9690, 198, 2683), max_tokens=4, top_logprobs=3)
SMALL = CompletionRequest(id="p2", token_ids=(5, 6, 7), max_tokens=4, top_logprobs=2)


def judged(request: CompletionRequest, document: Any, status: int = 200) -> Completion:
    return completion(request, Reply(status, json.dumps(document).encode(), 0.25))


def small(**changes: Any) -> Completion:
    return judged(SMALL, answer(payload("m", SMALL), **changes))


def logprobs(**changes: Any) -> dict[str, Any]:
    stated = answer(payload("m", SMALL))["choices"][0]["logprobs"]
    return {**stated, **changes}


def test_every_parameter_a_server_could_fill_in_is_sent() -> None:
    body = payload("m", SMALL)
    sampling = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed")
    assert {name: body[name] for name in sampling} == {
        "temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0,
        "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0, "seed": 0,
    }  # fmt: skip
    pinned = ("n", "stream", "ignore_eos", "add_special_tokens", "skip_special_tokens", "return_token_ids")
    assert [body[name] for name in pinned] == [1, True, False, False, True, True]
    assert body["prompt"] == [5, 6, 7]
    assert body["logprobs"] == 2
    assert "cache_salt" not in body  # vLLM refuses an empty one


def test_a_salt_and_no_logprobs() -> None:
    body = payload("m", CompletionRequest(id="a", token_ids=(1,), max_tokens=1, cache_salt="s"))
    assert (body["cache_salt"], body["logprobs"]) == ("s", None)


def test_a_recorded_answer(recorded: Path) -> None:
    reply = Reply(200, (recorded / "api" / "completion.json").read_bytes(), 0.25)
    result = completion(REQUEST, reply)
    assert (result.status, result.finish_reason, result.text) == (ItemStatus.TRUNCATED, "length", " are an AI assistant")
    assert result.token_ids == (359, 354, 5646, 11173)
    assert result.logprobs[0] == -0.7118450999259949
    assert result.top_ids[0] == (359, 2316, 416)
    assert result.top_logprobs[0][1] == -0.9618450999259949
    assert (result.prompt_tokens, result.completion_tokens, result.cached_tokens) == (4, 4, None)
    assert (result.e2e_latency_s, result.error) == (0.25, None)


def test_a_recorded_answer_that_the_engine_cut_short_says_so(recorded: Path) -> None:
    """vLLM lowers max_tokens to what the context leaves, and answers 200."""
    document = json.loads((recorded / "api" / "completion-clamped.json").read_bytes())
    document["choices"][0] |= {"prompt_token_ids": [5] * 2040, "token_ids": list(range(8))}
    result = judged(CompletionRequest(id="a", token_ids=(5,) * 2040, max_tokens=64), document)
    assert result.status is ItemStatus.TRUNCATED
    assert result.error == "the server stopped at 8 of 64 tokens"


@pytest.mark.parametrize(
    ("name", "status", "said"),
    [
        ("unknown-model.404.json", 404, "HTTP 404: The model `other` does not exist"),
        ("prompt-too-long.400.json", 400, "HTTP 400: This model's maximum context length is 2048"),
        ("unknown-model.404.json", 200, "HTTP 200: The model `other` does not exist"),
    ],
)
def test_recorded_errors_are_failures_whatever_the_status(recorded: Path, name: str, status: int, said: str) -> None:
    result = completion(SMALL, Reply(status, (recorded / "api" / name).read_bytes(), 0.1))
    assert result.status is ItemStatus.FAILED
    assert result.error is not None
    assert result.error.startswith(said)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"prompt_token_ids": [1, 5, 6, 7]}, "the engine saw another prompt: 4 tokens for 3 sent, first difference at 0"),
        ({"prompt_token_ids": [5, 6]}, "first difference at 2"),
        ({"prompt_token_ids": None}, "did not return prompt_token_ids"),
        ({"token_ids": None}, "token_ids is no list of token ids"),
        ({"token_ids": [6, True, 8, 2]}, "token_ids is no list of token ids"),
        ({"text": None}, "text is NoneType"),
        ({"finish_reason": "abort"}, "finish_reason is 'abort'"),
        ({"finish_reason": None}, "finish_reason is None"),
        ({"logprobs": None}, "did not come"),
        ({"logprobs": logprobs(tokens=["token_id:6"])}, "4 tokens came with 1/4/4 logprobs"),
        ({"logprobs": logprobs(tokens=["token_id:6", "token_id:7", "token_id:8", "token_id:3"])}, "other tokens"),
        ({"logprobs": logprobs(tokens=[" a", " b", " c", " d"])}, "keyed by ' a', not by token id"),
        ({"logprobs": logprobs(token_logprobs=["x", 0, 0, 0])}, "not a number"),
    ],
)
def test_an_answer_that_cannot_be_evidence_is_a_failure(changes: dict[str, Any], said: str) -> None:
    result = small(**changes)
    assert result.status is ItemStatus.FAILED
    assert result.error is not None
    assert said in result.error


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, ItemStatus.OK),
        ({"finish_reason": "length"}, ItemStatus.TRUNCATED),
        ({"finish_reason": "length", "text": ""}, ItemStatus.TRUNCATED),
        ({"finish_reason": "length", "text": "<think>maybe 41, no 42, let me"}, ItemStatus.TRUNCATED),
        ({"text": ""}, ItemStatus.EMPTY),
        ({"text": " \n"}, ItemStatus.EMPTY),
        ({"text": "<think>it is 42</think>\n"}, ItemStatus.REASONING_ONLY),
        ({"text": "<think>it is 42"}, ItemStatus.REASONING_ONLY),
        ({"text": "it is 42</think>"}, ItemStatus.REASONING_ONLY),
        ({"text": "", "reasoning_content": "hm"}, ItemStatus.REASONING_ONLY),
        ({"text": "", "reasoning": "hm"}, ItemStatus.REASONING_ONLY),
        ({"text": "<think></think>"}, ItemStatus.EMPTY),
        ({"text": "<think>hm</think>42"}, ItemStatus.OK),
        ({"text": "\ud83d lone"}, ItemStatus.OK),
    ],
)
def test_statuses(changes: dict[str, Any], status: ItemStatus) -> None:
    result = small(**changes)
    assert result.status is status
    assert result.text == changes.get("text", " answer to [5, 6, 7]")
    assert (result.error is None) == (status in (ItemStatus.OK, ItemStatus.TRUNCATED))


def test_reasoning_is_told_apart_and_the_text_is_kept_whole() -> None:
    result = small(text="<think>hm</think>42")
    assert (result.reasoning, result.text) == ("hm", "<think>hm</think>42")


def test_clamped_and_missing_logprobs_are_none_and_ties_go_by_id() -> None:
    tops = [{"token_id:6": -0.5, "token_id:9": -1.5, "token_id:8": -1.5}, {"token_id:7": -9999.0, "token_id:4": -1}, None, {}]
    result = small(logprobs=logprobs(token_logprobs=[-0.5, -9999.0, None, -1], top_logprobs=tops))
    assert result.status is ItemStatus.OK
    assert result.logprobs == (-0.5, None, None, -1.0)
    assert result.top_ids == ((6, 8), (4,), (), ())
    assert result.top_logprobs == ((-0.5, -1.5), (-1.0,), (), ())


@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b'{"choices": []}', b'{"choices": [{}, {}]}', b'{"a": NaN}'])
def test_bodies_that_are_no_answer(body: bytes) -> None:
    assert completion(SMALL, Reply(200, body, 0.1)).status is ItemStatus.FAILED


def test_a_megabyte_of_hostile_error_becomes_one_short_line() -> None:
    hostile = "::error::\n\x1b[31m<script>" * 50_000
    result = judged(SMALL, {"error": {"message": hostile}}, status=500)
    assert result.error is not None
    assert len(result.error) <= 300
    assert result.error.isprintable()


WRITTEN = st.integers(0, 30).map("token_id:{}".format)
HOSTILE = st.sampled_from(
    ("token_id:07", "7", "token_id:", "token_id:-1", "token_id:5,6", "token_id:5\n", "token_id:5\ntoken_id:6", "token_id: 5",
     "5token_id:", "token_id:token_id:5", "token_id:5.0", "token_id:\u0665", "token_id:9999999999", "token_id:99999999999")
)  # fmt: skip
USUAL = st.floats(-30.0, 0.0) | st.sampled_from((-0.0, 0.0, -1.5))
ODD = st.sampled_from((None, -9999.0, -9990.0, -3, True, "-1", float("nan")))
ROWS = st.dictionaries(WRITTEN, USUAL, min_size=3, max_size=7) | st.dictionaries(WRITTEN | HOSTILE, USUAL | ODD, max_size=4)


@given(st.lists(ROWS | st.none(), max_size=6), st.integers(1, 4))
def test_rows_that_are_sorted_at_once_are_sorted_as_one_by_one(rows: list[Any], k: int) -> None:
    try:
        ranked = [ranked_of(row.items() if row else (), k) for row in rows]
    except UnusableReplyError:
        with pytest.raises(UnusableReplyError):
            tops_of(rows, k)
        return
    ids, logprobs = tops_of(rows, k)
    assert ids == tuple(tuple(token for _, token in row) for row in ranked)
    assert repr(logprobs) == repr(tuple(tuple(-value for value, _ in row) for row in ranked))
