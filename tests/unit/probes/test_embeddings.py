"""Asking an embedding model: by index, one reason a pair, never an error. The server is a fake that speaks the protocol."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from servegate.probes.embeddings import HttpEmbeddings

VECTORS = {"up": [0.0, 2.0], "right": [1.0, 0.0], "steep": [3.0, 4.0], "down": [0.0, -1.0], "none": [0.0, 0.0], "long": [1.0]}


@dataclass
class Server:
    """An embedding server: what it was asked, and answers that it gives instead of its own."""

    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    instead: dict[str, Any] = field(default_factory=dict)

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        first = body["input"][0]
        if first == "too long":
            return web.json_response({"error": {"message": "maximum context length is 8 tokens", "code": 400}}, status=400)
        if first in self.instead:
            return web.json_response(self.instead[first])
        data = [{"object": "embedding", "index": n, "embedding": VECTORS[text]} for n, text in enumerate(body["input"])]
        return web.json_response({"object": "list", "data": data[::-1], "model": body["model"], "usage": {"prompt_tokens": 2}})


@pytest.fixture
def server() -> Iterator[Server]:
    found, loop, ready = Server(), asyncio.new_event_loop(), threading.Event()

    async def start() -> None:
        app = web.Application()
        app.router.add_post("/v1/embeddings", found.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.set()

    def serve() -> None:
        loop.run_until_complete(start())
        loop.run_forever()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert ready.wait(10)
    yield found
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)


def test_each_pair_gets_its_cosine_whatever_the_order_of_the_answer(server: Server) -> None:
    pairs = [("up", "steep"), ("up", "right"), ("up", "down"), ("up", "up")]
    found = HttpEmbeddings().cosines(f"{server.url}/", "e5", pairs)
    assert found == ((0.8, None), (0.0, None), (-1.0, None), (1.0, None))
    assert {tuple(body) for body in server.bodies} == {("model", "input", "encoding_format")}
    assert {body["encoding_format"] for body in server.bodies} == {"float"}


def test_what_is_no_embedding_has_a_reason_and_stops_nothing(server: Server) -> None:
    server.instead = {
        "text": {"data": [{"index": 0, "embedding": "AACAPw=="}, {"index": 1, "embedding": "AACAPw=="}]},
        "one": {"data": [{"index": 0, "embedding": [1.0]}]},
        "list": [],
        "huge": {"data": [{"index": n, "embedding": [1e308, 1e308, 1e308]} for n in (0, 1)]},
    }
    names = ("too long", "text", "one", "list", "huge", "none", "long", "up")
    found = HttpEmbeddings().cosines(server.url, "e5", [(name, "up") for name in names])
    assert [cosine for cosine, _ in found] == [None] * 7 + [1.0]
    reasons = [reason or "" for _, reason in found]
    assert "maximum context length" in reasons[0]
    assert all("no two embeddings" in reasons[place] for place in (1, 2, 3, 6))
    assert all("no direction" in reasons[place] for place in (4, 5))


@pytest.mark.parametrize(
    "first",
    [
        {"index": [0], "embedding": [1.0]},
        {"index": {}, "embedding": [1.0]},
        {"index": True, "embedding": [1.0]},
        {"index": 0, "embedding": [10**400]},
        {"index": 0, "embedding": [True]},
    ],
)
def test_an_answer_of_the_right_shape_with_wrong_values_is_a_reason(server: Server, first: dict[str, Any]) -> None:
    server.instead = {"odd": {"data": [first, {"index": 1, "embedding": [1.0]}]}}
    assert HttpEmbeddings().cosines(server.url, "e5", [("odd", "up"), ("up", "up")]) == (
        (None, "the answer holds no two embeddings of one length"),
        (1.0, None),
    )


def test_a_server_that_is_not_there_costs_a_few_calls_and_no_error() -> None:
    found = HttpEmbeddings().cosines("http://127.0.0.1:9", "e5", [("up", "down")] * 40)
    assert [cosine for cosine, _ in found] == [None] * 40
    assert all(reason for _, reason in found)
