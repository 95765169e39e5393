"""Streams: the same evidence as one document, however the network cuts them; errors and missing ends are failures."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servegate.domain.evidence import ItemStatus
from servegate.domain.workload import Completion, CompletionRequest
from servegate.http import Reply
from servegate.probes.completion_replies import completion, payload
from servegate.probes.completions import HttpCompletions
from tests.fakes.completions_server import CompletionsServer, answer, events_of, streams

REQUEST = CompletionRequest(id="p", token_ids=(5, 6, 7), max_tokens=4, top_logprobs=2)
DOCUMENT = answer(payload("m", REQUEST), text="naïve 🎉 – “so”")
EVENTS = events_of(DOCUMENT)
DONE = EVENTS[-1]
TIMES = {"e2e_latency_s": None, "ttft_ms": None, "arrivals_ms": (), "ttft_ms_reason": None}


def reply(body: bytes, pieces: list[int] | None = None, media_type: str = "text/event-stream") -> Reply:
    """Cut a body at `pieces`; each piece comes 10 ms after the one before."""
    ends = sorted({*(pieces or []), len(body)})
    arrivals = tuple((end, 0.01 * (number + 1)) for number, end in enumerate(ends))
    return Reply(200, body, 1.0, media_type=media_type, arrivals=arrivals)


def judged(events: list[bytes], **more: Any) -> Completion:
    return completion(REQUEST, reply(b"".join(events), **more))


def test_a_stream_is_the_same_evidence_as_one_document() -> None:
    whole = completion(REQUEST, Reply(200, json.dumps(DOCUMENT).encode(), 1.0, media_type="application/json"))
    assert whole.status is ItemStatus.OK
    assert whole.ttft_ms_reason == "the answer was not streamed"
    assert judged(EVENTS).model_copy(update=TIMES) == whole.model_copy(update=TIMES)


@given(st.lists(st.integers(1, sum(map(len, EVENTS)) - 1), max_size=40), st.sampled_from([b"\n", b"\r\n", b"\r"]))
def test_any_cut_and_any_line_end_gives_the_same(cuts: list[int], line_end: bytes) -> None:
    body = b"".join(EVENTS).replace(b"\n", line_end)
    found = completion(REQUEST, reply(body, cuts))
    assert found.model_copy(update=TIMES) == judged(EVENTS).model_copy(update=TIMES)


def test_comments_other_fields_and_a_byte_order_mark_are_no_data() -> None:
    noisy = [b"\xef\xbb\xbf: hello\n\n", *(b": keep-alive\n\nevent: message\nid: 7\nretry: 5\n" + one for one in EVENTS)]
    assert judged(noisy).model_copy(update=TIMES) == judged(EVENTS).model_copy(update=TIMES)


def test_data_lines_of_one_event_belong_together() -> None:
    split = [one.replace(b', "choices"', b',\ndata: "choices"') for one in EVENTS]
    assert judged(split).text == DOCUMENT["choices"][0]["text"]


def test_halves_of_a_character_in_two_events_become_one() -> None:
    first, second = (json.loads(one[6:]) for one in EVENTS[:2])
    first["choices"][0]["text"], second["choices"][0]["text"] = "\ud83c", "\udf89 and \ud83d"
    made = [f"data: {json.dumps(one)}\n\n".encode() for one in (first, second)]
    assert judged([*made, *EVENTS[2:]]).text.startswith("🎉 and \ud83d")


ERROR = b'data: {"error": {"message": "EngineCore encountered an issue.", "type": "InternalServerError", "code": 500}}\n\n'


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda events: [*events[:2], ERROR, DONE], "an error inside the stream after 2 tokens: EngineCore enc"),
        (lambda events: [ERROR, DONE], "an error inside the stream after 0 tokens"),
        (lambda events: [*events[:-1], ERROR, DONE], "an error inside the stream after 4 tokens"),
        (lambda events: [*events[:2], b'data: {"error": "boom"}\n\n', DONE], "after 2 tokens: boom"),
        (lambda events: [*events[:2], b'event: error\ndata: {"code": 7}\n\n', DONE], "an event of the type error"),
        (lambda events: [*events[:2], b'data: {"object": "error", "message": "no"}\n\n', DONE], '{"object": "error"'),
        (lambda events: events[:2], "the stream ended after 2 tokens without [DONE]"),
        (lambda events: events[:-1], "the stream ended after 4 tokens without [DONE]"),
        (lambda events: [], "the stream ended after 0 tokens without [DONE]"),
        (lambda events: [*events[:2], events[2][:40]], "an event cannot be read"),
        (lambda events: [*events[:2], b"data: <html>\n\n", DONE], "an event cannot be read"),
        (lambda events: [*events[:2], b'data: {"choices": NaN}\n\n', DONE], "an event cannot be read"),
        (lambda events: [*events[:1], *events[2:]], "the engine counts 4 generated tokens, 3 came"),
        (lambda events: [*events, events[0]], "the stream went on after [DONE]"),
        (lambda events: [events[-2], DONE], "exactly one choice"),
        (lambda events: [events[0].replace(b'"index": 0', b'"index": 1'), *events[1:]], "exactly one choice"),
        (lambda events: [events[0].replace(b"[5, 6, 7]", b"[5, 6]"), *events[1:]], "the engine saw another prompt"),
    ],
)  # fmt: skip
def test_a_stream_that_is_no_whole_answer_is_a_failure_and_never_a_short_answer(
    change: Callable[[list[bytes]], list[bytes]], said: str
) -> None:
    found = judged(change(EVENTS))
    assert (found.status, found.text, found.token_ids) == (ItemStatus.FAILED, "", ())
    assert found.error is not None
    assert said in found.error


def test_a_stream_without_a_finish_reason_is_a_failure() -> None:
    found = judged([EVENTS[0], DONE])
    assert (found.status, found.error) == (ItemStatus.FAILED, "finish_reason is None")


def test_every_token_is_dated_by_the_piece_that_ended_its_event() -> None:
    ends = [sum(map(len, EVENTS[: n + 1])) for n in range(len(EVENTS))]
    found = judged(EVENTS, pieces=ends)
    assert found.ttft_ms == pytest.approx(10)
    assert found.arrivals_ms == pytest.approx((10, 20, 30, 40))
    late = judged(EVENTS, pieces=[ends[0] - 1, *ends])
    assert late.ttft_ms == pytest.approx(20), "the first event was not whole when its first piece came"


def test_e7_tokens_that_come_in_lumps_have_no_times() -> None:
    """A reasoning parser that holds text back, or a proxy that buffers: the first lump is not the first token."""
    found = judged(EVENTS)
    assert (found.status, found.ttft_ms, found.arrivals_ms) == (ItemStatus.OK, None, ())
    assert found.ttft_ms_reason == "4 tokens came in 1 pieces, so times of single tokens are not known"


def test_over_the_wire_cut_error_and_good_streams_stand_side_by_side(server: CompletionsServer) -> None:
    server.faults = {
        11: streams(lambda events: [*events[:2], ERROR, DONE]),
        12: streams(lambda events: events[:2], whole=False),
        13: streams(lambda events: events[:2]),
        14: streams(lambda events: [one[at : at + 7] for one in events for at in range(0, len(one), 7)]),
        15: streams(lambda events: events),
    }
    asked = [CompletionRequest(id=f"p{n}", token_ids=(10 + n, 1, 2), max_tokens=4, top_logprobs=2) for n in range(6)]
    probe = HttpCompletions(server.endpoint, request_timeout_s=20, ensure_alive=lambda: None)
    found = probe.complete(asked, 6, lambda _: None)
    assert [one.status.value for one in found] == ["ok", "failed", "failed", "failed", "ok", "ok"]
    assert ["EngineCore encountered" in str(one.error) for one in found].index(True) == 1
    assert "broke off" in str(found[2].error)
    assert "without [DONE]" in str(found[3].error)
    assert {one.text for one in found[1:4]} == {""}
    assert found[4].text == " answer to [14, 1, 2]"
    assert found[5].ttft_ms is not None
    assert list(found[5].arrivals_ms) == sorted(found[5].arrivals_ms)
    assert found[5].e2e_latency_s is not None
    assert found[5].ttft_ms < found[5].arrivals_ms[-1] <= 1000 * found[5].e2e_latency_s
    assert all(body["stream"] and body["stream_options"]["include_usage"] for body in server.bodies)
