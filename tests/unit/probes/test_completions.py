"""Rendering and completing against a server that speaks vLLM's interface and fails on order."""

from __future__ import annotations

import time

import pytest

from servegate.domain.evidence import ItemStatus
from servegate.domain.workload import ChatPrompt, CompletionRequest
from servegate.errors import EngineError, MeasurementError
from servegate.probes.completions import HttpCompletions
from tests.fakes.completions_server import CompletionsServer, hangs, replies, says


def requests(count: int, first: int = 10) -> list[CompletionRequest]:
    return [CompletionRequest(id=f"p{i}", token_ids=(first + i, 1, 2), max_tokens=4) for i in range(count)]


def probe(server: CompletionsServer, timeout_s: float = 20.0) -> HttpCompletions:
    return HttpCompletions(server.endpoint, request_timeout_s=timeout_s, ensure_alive=lambda: None)


def ignore(_: int) -> None:
    """Show no progress."""


def test_renders_in_order_with_the_generation_prompt(server: CompletionsServer) -> None:
    prompts = [ChatPrompt(id=name, messages=({"role": "user", "content": name},)) for name in ("b", "aa", "c")]
    rendered = probe(server).render(prompts)
    assert [(item.id, item.token_ids) for item in rendered] == [("b", (98,)), ("aa", (97, 97)), ("c", (99,))]


def test_a_prompt_that_cannot_be_rendered_is_named(server: CompletionsServer) -> None:
    with pytest.raises(MeasurementError, match="prompt 'bad' could not be rendered: HTTP 500"):
        probe(server).render([ChatPrompt(id="bad", messages=({"role": "user"},))])


def test_an_empty_rendering_is_an_error(server: CompletionsServer) -> None:
    with pytest.raises(MeasurementError, match="the answer holds no token ids"):
        probe(server).render([ChatPrompt(id="bad", messages=({"role": "user", "content": ""},))])


def test_one_record_a_request_in_request_order(server: CompletionsServer) -> None:
    asked = requests(20)
    server.faults = {10: says("not json"), 13: replies(finish_reason="length"), 15: replies(text=""), 17: replies(503)}
    done: list[int] = []
    results = probe(server).complete(asked, 4, done.append)
    assert [result.id for result in results] == [request.id for request in asked]
    expected = {0: ItemStatus.FAILED, 3: ItemStatus.TRUNCATED, 5: ItemStatus.EMPTY, 7: ItemStatus.FAILED}
    assert [result.status for result in results] == [expected.get(i, ItemStatus.OK) for i in range(20)]
    assert results[1].text == " answer to [11, 1, 2]"
    assert sum(done) == 20
    assert server.most_in_flight <= 4


def test_sixty_four_in_flight(server: CompletionsServer) -> None:
    server.pause_s = 0.05
    started = time.perf_counter()
    results = probe(server).complete(requests(192), 64, ignore)
    assert {result.status for result in results} == {ItemStatus.OK}
    assert server.most_in_flight == 64
    assert time.perf_counter() - started < 10


def test_equal_ids_are_refused(server: CompletionsServer) -> None:
    with pytest.raises(ValueError, match="unique"):
        probe(server).complete([requests(1)[0], requests(1)[0]], 1, ignore)


def test_one_hung_request_is_a_timeout_and_the_others_are_not(server: CompletionsServer) -> None:
    server.faults = {12: hangs()}
    results = probe(server, 0.5).complete(requests(8), 2, ignore)
    assert [result.status for result in results].count(ItemStatus.TIMEOUT) == 1
    assert results[2].status is ItemStatus.TIMEOUT
    assert results[2].error is not None
    assert "within 0.5 s" in results[2].error


def test_a_hung_engine_is_given_up(server: CompletionsServer) -> None:
    server.faults = {10 + i: hangs() for i in range(1, 40)}
    started = time.monotonic()
    results = probe(server, 0.3).complete(requests(40), 2, ignore)
    statuses = [result.status for result in results]
    assert statuses[0] is ItemStatus.OK
    assert 3 <= statuses.count(ItemStatus.TIMEOUT) <= 6
    assert statuses[-1] is ItemStatus.SKIPPED
    assert "the engine hangs" in str(results[-1].error)
    assert time.monotonic() - started < 5


def test_a_dead_engine_is_given_up_after_refusals(server: CompletionsServer) -> None:
    gone = server.endpoint.model_copy(update={"base_url": "http://127.0.0.1:1"})
    done: list[int] = []
    results = HttpCompletions(gone, request_timeout_s=20, ensure_alive=lambda: None).complete(requests(500), 8, done.append)
    statuses = [result.status for result in results]
    assert statuses.count(ItemStatus.FAILED) == 5
    assert statuses.count(ItemStatus.SKIPPED) == 495
    assert "did not answer 5 calls in a row" in str(results[-1].error)
    assert sum(done) == 500


def test_a_death_that_the_session_sees_ends_the_waiting(server: CompletionsServer) -> None:
    """The address may still accept connections (a child holds the socket) while the engine's own process is gone."""
    server.faults = {10: hangs(), 11: hangs()}

    def gone() -> None:
        raise EngineError("the engine died: RuntimeError: boom")

    started = time.monotonic()
    probe_ = HttpCompletions(server.endpoint, request_timeout_s=600, ensure_alive=gone)
    results = probe_.complete(requests(2), 2, ignore)
    assert [result.status for result in results] == [ItemStatus.SKIPPED, ItemStatus.SKIPPED]
    assert results[0].error == "not completed: the engine died: RuntimeError: boom"
    assert time.monotonic() - started < 5
