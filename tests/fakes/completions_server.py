"""A small HTTP server that answers as vLLM 0.32 does on `/tokenize`, `/v1/completions` and `/metrics`, with faults on order.

It runs in a thread on a loopback port. A fault is chosen by the first token id of a prompt (or by words of a text
prompt), so that a test decides the fate of each request; everything else is answered in the form of the recordings
under `tests/recorded/api`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from servegate.domain.workload import Endpoint

MODEL = "baseline-7f3a"
REQUEST: ContextVar[web.Request] = ContextVar("request")
Fault = Callable[[dict[str, Any]], Awaitable[web.StreamResponse]]


@dataclass
class CompletionsServer:
    """What the server was sent, and how it shall misbehave."""

    base_url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    faults: dict[int, Fault] = field(default_factory=dict)
    text_faults: dict[str, Fault] = field(default_factory=dict)
    context: int = 2048
    pause_s: float = 0.0
    in_flight: int = 0
    most_in_flight: int = 0
    queries: float = 0.0
    hits: float = 0.0
    finished: float | None = None
    running: float = 0.0
    seen: set[tuple[str, int]] = field(default_factory=set)

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(base_url=self.base_url, model=MODEL, tokenizer="/models/tiny")

    async def tokenize(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        text = body.get("prompt") or "".join(message["content"] for message in body["messages"])
        tokens = list(text.encode("utf-8", "replace"))
        return web.json_response({"count": len(tokens), "max_model_len": self.context, "tokens": tokens, "token_strs": None})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        REQUEST.set(request)
        self.bodies.append(body)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            prompt = body["prompt"]
            if isinstance(prompt, list) and prompt[0] in self.faults:
                return await self.faults[prompt[0]](body)
            if isinstance(prompt, str):
                for words, fault in self.text_faults.items():
                    if words in prompt:
                        return await fault(body)
            await asyncio.sleep(self.pause_s)
            self._count(prompt, str(body.get("cache_salt")))
            return as_asked(answer(body), body)
        finally:
            self.in_flight -= 1

    def _count(self, prompt: Any, salt: str) -> None:
        self.queries += len(prompt)
        key = (salt, hash(str(prompt)))
        self.hits += len(prompt) if key in self.seen else 0
        self.seen.add(key)

    async def metrics(self, _: web.Request) -> web.StreamResponse:
        labels = f'{{engine="0",model_name="{MODEL}"}}'
        page = f"vllm:prefix_cache_queries_total{labels} {self.queries}\nvllm:prefix_cache_hits_total{labels} {self.hits}\n"
        if self.finished is not None:
            page += f"vllm:request_success_total{labels} {self.finished}\nvllm:num_requests_running{labels} {self.running}\n"
        return web.Response(text=page)


def answer(body: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return an answer to a request: its prompt's ids plus one as tokens; `changes` replace fields of the choice."""
    prompt = body["prompt"] if isinstance(body["prompt"], list) else list(body["prompt"].encode())
    tokens = [token + 1 for token in prompt[:3]] + [2]
    logprobs = None
    if body.get("logprobs"):
        logprobs = {
            "tokens": [f"token_id:{token}" for token in tokens],
            "token_logprobs": [-0.5 for _ in tokens],
            "top_logprobs": [{f"token_id:{token}": -0.5, "token_id:9": -1.5, "token_id:8": -1.5} for token in tokens],
            "text_offset": [0 for _ in tokens],
        }
    choice = {
        "index": 0,
        "text": f" answer to {prompt[:3]}",
        "logprobs": logprobs,
        "finish_reason": "stop",
        "token_ids": tokens,
        "prompt_token_ids": prompt,
    }
    usage = {"prompt_tokens": len(prompt), "completion_tokens": len(tokens), "prompt_tokens_details": {"cached_tokens": 0}}
    return {"id": "cmpl-1", "object": "text_completion", "choices": [{**choice, **changes}], "usage": usage}


def as_asked(document: dict[str, Any], body: dict[str, Any]) -> web.Response:
    """Answer as one document, or as the stream that the body asks for."""
    if not body.get("stream"):
        return web.json_response(document)
    return web.Response(body=b"".join(events_of(document)), content_type="text/event-stream")


def events_of(document: dict[str, Any]) -> list[bytes]:
    """Return an answer as the events of a stream in the shape of vLLM 0.32: one a token, usage, `[DONE]`."""
    (choice,) = document["choices"]
    head = {name: document[name] for name in ("id", "object")}
    count = len(choice["token_ids"] or [0])
    made = []
    for place in range(count):
        last = place == count - 1
        piece = {
            "index": 0,
            "text": choice["text"] if last else "",
            "logprobs": choice["logprobs"] and {name: col[place : place + 1] for name, col in choice["logprobs"].items()},
            "finish_reason": choice["finish_reason"] if last else None,
            "stop_reason": None,
            "prompt_token_ids": None if place else choice["prompt_token_ids"],
            "token_ids": choice["token_ids"] and choice["token_ids"][place : place + 1],
        }
        made.append({**head, "choices": [piece]})
    made.append({**head, "choices": [], "usage": document["usage"]})
    return [*(f"data: {json.dumps(one)}\n\n".encode() for one in made), b"data: [DONE]\n\n"]


def streams(cut: Callable[[list[bytes]], list[bytes]], *, whole: bool = True) -> Fault:
    """Stream the usual events, changed by `cut`; `whole`: the response itself ends as it should."""

    async def fault(body: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        response.enable_chunked_encoding()
        request = REQUEST.get()
        await response.prepare(request)
        for data in cut(events_of(answer(body))):
            await response.write(data)
            await asyncio.sleep(0.002)
        if not whole:
            assert request.transport is not None
            request.transport.abort()
        return response

    return fault


def replies(status: int = 200, **changes: Any) -> Fault:
    """Answer as usual, with another status or other fields of the choice."""

    async def fault(body: dict[str, Any]) -> web.StreamResponse:
        document = answer(body, **changes)
        return as_asked(document, body) if status == 200 else web.json_response(document, status=status)

    return fault


def says(text: str, status: int = 200) -> Fault:
    """Answer with exactly this body."""

    async def fault(_: dict[str, Any]) -> web.StreamResponse:
        return web.Response(text=text, status=status, content_type="application/json")

    return fault


def hangs() -> Fault:
    """Never answer."""

    async def fault(_: dict[str, Any]) -> web.StreamResponse:
        await asyncio.sleep(3600)
        raise AssertionError

    return fault


@contextlib.contextmanager
def completions_server() -> Iterator[CompletionsServer]:
    """Serve while the context is open."""
    server = CompletionsServer()
    app = web.Application(client_max_size=1 << 26)
    app.router.add_post("/tokenize", server.tokenize)
    app.router.add_post("/v1/completions", server.complete)
    app.router.add_get("/metrics", server.metrics)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> web.AppRunner:
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    runner = asyncio.run_coroutine_threadsafe(start(), loop).result(5)
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()
