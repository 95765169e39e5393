"""Scoring given texts: every way in which an answer can mislead is a failed score or a counted gap, never a number."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from servegate.domain.evidence import ItemStatus
from servegate.domain.workload import PromptScore, ScoreRequest
from servegate.errors import EngineError, MeasurementError
from servegate.http import Reply
from servegate.probes.prompt_logprobs import HttpPromptLogprobs
from servegate.probes.prompt_logprobs_replies import score_of, score_payload
from tests.fakes.completions_server import CompletionsServer, Fault, answer, hangs, says

SENT = (5, 6, 7)


def entry(logprob: Any, rank: Any = 1, text: str = "x") -> dict[str, Any]:
    return {"logprob": logprob, "rank": rank, "decoded_token": text}


def body(positions: Any, ids: Any = SENT, **more: Any) -> bytes:
    choice = {"index": 0, "text": "a", "prompt_logprobs": positions, "prompt_token_ids": list(ids) if ids else ids}
    return json.dumps({"id": "cmpl", "choices": [choice], **more}).encode()


def scored(content: bytes, *, ids: tuple[int, ...] = SENT, top_k: int = 1, status: int = 200) -> PromptScore:
    return score_of(ScoreRequest(id="w0", token_ids=ids), Reply(status, content, 0.1), top_k)


GOOD = [None, {"6": entry(-0.5)}, {"7": entry(-2.0, 3), "9": entry(-0.25, 1)}]


def test_a_text_becomes_columns() -> None:
    score = scored(body(GOOD))
    assert score.status is ItemStatus.OK
    assert np.isnan(score.logprob[0])
    assert score.logprob[1:].tolist() == [-0.5, -2.0]
    assert score.rank.tolist() == [-1, 1, 3]
    assert score.top_id[:, 0].tolist() == [-1, 6, 9]
    assert score.top_logprob[1:, 0].tolist() == [-0.5, -0.25]
    assert (score.clamped, score.missing) == (0, 0)
    assert [column.dtype for column in (score.logprob, score.rank, score.top_id)] == [np.float32, np.int32, np.int32]


def test_gaps_among_good_numbers_take_nothing_from_their_neighbours() -> None:
    """Numbers are laid out at once where all are there; one gap must not shift, cut or round another's."""
    whole = [None, {"6": entry(-0.1, 2), "8": entry(-1e-7)}, {"7": entry(-0.30000000000000004), "9": entry(-3, 2)}]
    expected = scored(body(whole))
    assert (expected.logprob[1:].tolist(), expected.rank[1:].tolist()) == (np.float32([-0.1, -0.3]).tolist(), [2, 1])
    for other, missing in (
        ([None, whole[1], {**whole[2], "4": entry(None, None)}], 0),
        ([None, whole[1], {**whole[2], "4": entry(-1, 2**64)}], 0),
        ([None, whole[1], {**whole[2], "4": {"logprob": -1}}], 0),
        ([None, whole[1], None], 1),
        ([None, whole[1], {}], 1),
    ):
        score = scored(body(other))
        assert score.status is ItemStatus.OK
        assert score.missing == missing
        kept = len(SENT) - missing
        for column in ("logprob", "rank", "top_id", "top_logprob"):
            assert getattr(score, column)[:kept].tobytes() == getattr(expected, column)[:kept].tobytes(), (other, column)


def test_d2_another_number_of_positions_rejects_the_text() -> None:
    score = scored(body(GOOD[:2]))
    assert (score.status, len(score.logprob)) == (ItemStatus.FAILED, 0)
    assert score.error == "2 positions were scored of 3 tokens"
    assert "shifted" in str(scored(body([GOOD[1], *GOOD[1:]])).error)


@pytest.mark.parametrize("number", ["-9999.0", "-9990", "-1e999", "-Infinity"])
def test_d3_minus_infinity_is_counted_and_never_a_number(number: str) -> None:
    content = body([None, {"6": entry(-0.2)}, {"7": entry("HERE", 900)}]).replace(b'"HERE"', number.encode())
    score = scored(content)
    assert score.status is ItemStatus.OK
    assert score.clamped + score.missing == 1
    assert score.clamped == 1
    assert np.isnan(score.logprob[2])
    assert score.logprob[1] == np.float32(-0.2)


@pytest.mark.parametrize("number", ["NaN", "null", "0.7", "Infinity"])
def test_d3_what_is_no_logprob_is_missing(number: str) -> None:
    content = body([None, {"6": entry("HERE")}, {"7": entry(-1.0)}]).replace(b'"HERE"', number.encode())
    score = scored(content)
    assert (score.clamped, score.missing) == (0, 1)
    assert np.isnan(score.logprob[1])
    assert np.isnan(score.top_logprob[1, 0])


def test_d3_a_position_without_the_own_token_is_missing() -> None:
    score = scored(body([None, {"8": entry(-0.1)}, None]))
    assert (score.clamped, score.missing) == (0, 2)
    assert score.top_id[:, 0].tolist() == [-1, 8, -1]


def test_d4_the_own_entry_is_found_by_id_and_the_top_by_rank() -> None:
    score = scored(body([None, {"12": entry(-6.0, 41), "8": entry(-0.2, 1)}], (3, 12)), ids=(3, 12))
    assert score.logprob[1] == np.float32(-6.0)
    assert score.rank[1] == 41
    assert score.top_id[1].tolist() == [8]
    turned = scored(body([None, {"8": entry(-0.2, 1), "12": entry(-6.0, 41)}], (3, 12)), ids=(3, 12))
    assert turned.top_id[1].tolist() == [8]


def test_d4_k_entries_and_one_more_when_the_own_token_is_outside() -> None:
    entries = {str(100 + rank): entry(-rank, rank) for rank in (3, 1, 2)}
    score = scored(body([None, {"7": entry(-9.0, 50), **entries}], (3, 7)), ids=(3, 7), top_k=3)
    assert score.top_id[1].tolist() == [101, 102, 103]
    assert score.top_logprob[1].tolist() == [-1.0, -2.0, -3.0]
    assert score.logprob[1] == -9.0


def test_of_two_tokens_of_one_rank_the_smaller_id_stays() -> None:
    score = scored(body([None, {"7": entry(-0.5, 1), "4": entry(-0.5, 1)}], (3, 7)), ids=(3, 7))
    assert score.top_id[1].tolist() == [4]


def test_no_top_token_is_kept_when_none_was_asked_for() -> None:
    score = scored(body([None, {"6": entry(-0.5, 7)}, {"7": entry(-1.5, 2)}]), top_k=0)
    assert score.top_id.shape == (3, 0)
    assert score.rank.tolist() == [-1, 7, 2]


def test_d5_tokens_that_decode_alike_stay_two() -> None:
    entries = {"1565": entry(-1.0, 2, "true"), "3009": entry(-0.5, 1, "true")}
    score = scored(body([None, entries], (3, 1565)), ids=(3, 1565), top_k=2)
    assert score.top_id[1].tolist() == [3009, 1565]


def test_d7_other_ids_than_sent_reject_the_text() -> None:
    score = scored(body([None, *GOOD], (1, *SENT)))
    assert score.status is ItemStatus.FAILED
    assert score.error == "the engine scored another prompt: 4 tokens for 3 sent"
    assert "what it scored is not known" in str(scored(body(GOOD, None)).error)


def test_d9_a_request_over_the_cap_fails_with_the_servers_words() -> None:
    said = {"error": {"message": "Requested prompt logprobs of 50, which is greater than max allowed: 20", "code": 400}}
    score = scored(json.dumps(said).encode(), status=400, top_k=20)
    assert score.status is ItemStatus.FAILED
    assert "greater than max allowed: 20" in str(score.error)


def test_d9_scoring_never_streams_and_pins_sampling() -> None:
    sent = json.loads(score_payload("m", ScoreRequest(id="a", token_ids=SENT, cache_salt="s"), 20))
    assert (sent["stream"], sent["max_tokens"], sent["prompt_logprobs"], sent["prompt"]) == (False, 1, 20, [5, 6, 7])
    assert (sent["temperature"], sent["top_p"], sent["top_k"], sent["cache_salt"]) == (1.0, 1.0, 0, "s")


def test_d10_a_500_fails_one_text_and_not_a_number_is_read() -> None:
    said = '{"error": {"message": "Out of range float values are not JSON compliant"}}'
    assert "Out of range float values" in str(scored(said.encode(), status=500).error)
    assert scored(body([None, {"6": entry(math.nan)}, {"7": entry(-1.0)}])).missing == 1


def test_d11_null_and_garbage_are_failures() -> None:
    assert scored(body(None)).error == "the answer holds no prompt_logprobs (null)"
    shapes = [
        [None, {"x": entry(-1)}, {}],
        [None, {"-4": entry(-1)}, {}],
        [None, [], []],
        [None, {"99999999999": entry(-1)}, {}],
        [None, {str(2**63): entry(-1)}, {}],
        [None, {"6": entry("-1")}, {"7": [-1.0, 1]}],
    ]
    texts = (b"", b"4226", b"[]", b'{"choices": []}', b'{"choices": 1}', b"\xff\xfe", b"[" * 100_000)
    stated = b'{"message": "4226", "object": "error"}'
    for content in (*texts, stated, *map(body, shapes)):
        score = scored(content)
        assert (score.status, len(score.logprob)) == (ItemStatus.FAILED, 0)
        assert score.error
        assert score.error.isprintable()


def test_a_lone_surrogate_in_a_decoded_token_does_no_harm() -> None:
    content = body([None, {"6": entry(-0.5, 1, "\ud83d")}, {"7": entry(-1.0, 1, "\u2028")}])
    assert b"\\ud83d" in content
    assert scored(content).logprob[1:].tolist() == [-0.5, -1.0]


def test_the_reading_of_msgspec_and_of_json_agree() -> None:
    content = body(GOOD)
    strict, lenient = scored(content), scored(content.replace(b'"decoded_token": "x"', b'"decoded_token": NaN'))
    for name in ("logprob", "rank", "top_id", "top_logprob"):
        assert np.array_equal(getattr(strict, name), getattr(lenient, name), equal_nan=True)


def test_a_recorded_answer_of_a_real_server(recorded: Path) -> None:
    record = json.loads((recorded / "api" / "prompt-logprobs-20.json").read_text())
    ids, answered = tuple(record["sent"]), record["answer"]
    content = json.dumps(answered).encode()
    assert "what it scored is not known" in str(scored(content, ids=ids, top_k=20).error)  # ids were not asked for
    answered["choices"][0]["prompt_token_ids"] = list(ids)
    score = scored(json.dumps(answered).encode(), ids=ids, top_k=20)
    assert score.status is ItemStatus.OK
    assert (score.top_id[1:] >= 0).all()
    assert score.logprob[1] == np.float32(-17.351964950561523)
    assert (score.rank[1], score.top_id[1, 0]) == (30929, 29)
    assert (np.diff(score.top_logprob[1:], axis=1) <= 0).all()


# -- over HTTP -------------------------------------------------------------------------------------------------


def probe(server: CompletionsServer, timeout_s: float = 20.0, alive: Callable[[], None] = lambda: None) -> HttpPromptLogprobs:
    return HttpPromptLogprobs(server.endpoint, request_timeout_s=timeout_s, ensure_alive=alive)


def texts(count: int) -> list[ScoreRequest]:
    return [ScoreRequest(id=f"w{number}", token_ids=(10 + number, 1, 2)) for number in range(count)]


def ignore(_: int) -> None:
    """Show no progress."""


def scores(change: Callable[[dict[str, Any]], None] = lambda _: None) -> Fault:
    async def fault(sent: dict[str, Any]) -> web.StreamResponse:
        made = answer(sent)
        made["choices"][0]["prompt_logprobs"] = [None, *({str(one): entry(-1.0)} for one in sent["prompt"][1:])]
        change(made["choices"][0])
        return web.json_response(made)

    return fault


def serve(server: CompletionsServer, count: int, **faults: Fault) -> None:
    server.faults = {10 + number: faults.get(f"w{number}", scores()) for number in range(count)}


def test_every_text_has_one_record_in_request_order(server: CompletionsServer) -> None:
    serve(server, 6, w1=says("{}", 500), w3=scores(lambda choice: choice.update(prompt_token_ids=[1])), w4=says("no"))
    done: list[int] = []
    found = probe(server).score(texts(6), 1, 2, done.append)
    assert [one.id for one in found] == [f"w{number}" for number in range(6)]
    assert [one.status is ItemStatus.OK for one in found] == [True, False, True, False, False, True]
    assert sum(done) == 6
    assert server.most_in_flight <= 2


def test_a_text_that_takes_too_long_is_a_timeout(server: CompletionsServer) -> None:
    serve(server, 2, w0=hangs())
    found = probe(server, timeout_s=0.3).score(texts(2), 1, 1, ignore)
    assert [one.status for one in found] == [ItemStatus.TIMEOUT, ItemStatus.OK]


def test_an_answer_beyond_the_bound_is_not_read(server: CompletionsServer) -> None:
    serve(server, 1, w0=says('{"choices": [' + " " * (2 << 20) + "]}"))
    found = probe(server).score(texts(1), 1, 1, ignore)
    assert found[0].status is ItemStatus.FAILED
    assert "longer than" in str(found[0].error)


def test_d8_what_was_scored_before_a_death_is_kept(server: CompletionsServer) -> None:
    """The engine dies of the seventh text: six scores stay, the rest says why it is missing."""
    serve(server, 10, w6=hangs())

    def alive() -> None:
        if any(sent["prompt"][0] == 16 for sent in server.bodies):
            raise EngineError("torch.OutOfMemoryError: CUDA out of memory")

    found = probe(server, alive=alive).score(texts(10), 1, 1, ignore)
    assert [one.status for one in found] == [ItemStatus.OK] * 6 + [ItemStatus.SKIPPED] * 4
    assert all("OutOfMemoryError" in str(one.error) for one in found[6:])


def test_d11_one_text_tells_whether_it_is_supported(server: CompletionsServer) -> None:
    serve(
        server, 3, w1=scores(lambda choice: choice.update(prompt_logprobs=None)), w2=says('{"object":"error","message":"4226"}')
    )
    assert probe(server).why_unsupported((10, 1, 2), 1) is None
    assert "null" in str(probe(server).why_unsupported((11, 1, 2), 1))
    assert "4226" in str(probe(server).why_unsupported((12, 1, 2), 1))


def test_a_dead_engine_is_no_missing_feature(server: CompletionsServer) -> None:
    def gone() -> None:
        raise EngineError("the engine is gone")

    serve(server, 1, w0=says("{}", 500))
    with pytest.raises(EngineError, match="the engine is gone"):
        probe(server, alive=gone).why_unsupported((10, 1, 2), 1)


def test_texts_are_tokenized_in_order(server: CompletionsServer) -> None:
    assert probe(server).tokenize(["ab", " ", "c"], special=False) == ((97, 98), (32,), (99,))


def test_a_text_that_cannot_be_tokenized_is_an_error(server: CompletionsServer) -> None:
    nowhere = server.endpoint.model_copy(update={"base_url": f"{server.base_url}/nowhere"})
    with pytest.raises(MeasurementError, match="could not be tokenized: HTTP 404"):
        HttpPromptLogprobs(nowhere, request_timeout_s=5, ensure_alive=lambda: None).tokenize(["a"], special=True)


def test_equal_ids_of_requests_are_refused(server: CompletionsServer) -> None:
    with pytest.raises(ValueError, match="unique"):
        probe(server).score([*texts(1), *texts(1)], 1, 1, ignore)
