"""A loopback proxy in front of an engine: it answers prompts whose answers are known and hands every other request on.

lm-eval draws worked examples in the order of the questions, so a pass over some questions of a task asks them in other
words than a pass over all of them; and it scores answers only at the end of a pass. Through this proxy a whole pass asks the
engine for the missing answers only: each question keeps its words, and all are scored by the task's own code.

A prompt is known by the SHA-256 of its text, which is lm-eval's `prompt_hash`. Known answers are given as they came,
null included; whatever the engine says to the others, errors included, goes back as it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import threading
from collections.abc import Iterator, Mapping

import aiohttp
from aiohttp import web

from servegate.domain.workload import Endpoint
from servegate.errors import MeasurementError
from servegate.http import KEEP_ALIVE_S

MAX_REQUEST_BYTES = 64 << 20


@contextlib.contextmanager
def relay(endpoint: Endpoint, known: Mapping[str, str | None], *, timeout_s: float) -> Iterator[str]:
    """Serve the proxy on a loopback port while the context is open; gives its base URL.

    `known` maps the SHA-256 of a prompt (UTF-8, hex) to its answer, None for a null; `timeout_s` limits one request to the
    engine. The proxy asks for the engine's own key: other users of the machine reach neither through it.
    """
    proxy = _Proxy(endpoint, known, timeout_s)
    thread = threading.Thread(target=proxy.run, name="servegate-relay", daemon=True)
    thread.start()
    proxy.ready.wait()
    try:
        if proxy.port is None:
            raise MeasurementError("no port could be opened in front of the engine", why=str(proxy.problem))
        yield f"http://127.0.0.1:{proxy.port}"
    finally:
        proxy.end()
        thread.join(5.0)


class _Proxy:
    """One server and one client, both in the loop of one thread."""

    def __init__(self, endpoint: Endpoint, known: Mapping[str, str | None], timeout_s: float) -> None:
        self._target, self._known, self._timeout_s = endpoint.base_url.rstrip("/"), known, timeout_s
        self._key = f"Bearer {endpoint.api_key}" if endpoint.api_key else ""
        self._loop, self._over = asyncio.new_event_loop(), asyncio.Event()
        self.ready = threading.Event()
        """Set once `port` is known, or `problem`."""
        self.port: int | None = None
        self.problem: Exception | None = None

    def run(self) -> None:
        """Answer until `end` is called; the thread's whole life."""
        try:
            self._loop.run_until_complete(self._serve())
        except Exception as error:  # told by whoever waits for the port
            self.problem = error
        finally:
            self.ready.set()
            self._loop.close()

    def end(self) -> None:
        """Stop answering."""
        with contextlib.suppress(RuntimeError):  # its loop is closed: it had ended by itself
            self._loop.call_soon_threadsafe(self._over.set)

    async def _serve(self) -> None:
        application = web.Application(client_max_size=MAX_REQUEST_BYTES)
        application.router.add_post("/{path:.*}", self._answer)
        runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        try:
            async with aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
                timeout=timeout,
                headers={"Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            ) as self._session:
                await runner.setup()
                await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
                self.port = runner.addresses[0][1]
                self.ready.set()
                await self._over.wait()
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        if self._key and not hmac.compare_digest(request.headers.get("Authorization", "").encode(), self._key.encode()):
            return web.json_response({"error": "Unauthorized"}, status=401)
        body = await request.read()
        prompt = _hash_of(body)
        if prompt is not None and prompt in self._known:
            choice = {"index": 0, "text": self._known[prompt], "logprobs": None, "finish_reason": "stop"}
            return web.json_response({"object": "text_completion", "choices": [choice]})
        headers = {"Content-Type": request.headers.get("Content-Type", "application/json")}
        headers |= {"Authorization": self._key} if self._key else {}
        try:
            async with self._session.post(self._target + request.path_qs, data=body, headers=headers) as answer:
                kind = answer.headers.get("Content-Type", "application/json")
                return web.Response(status=answer.status, body=await answer.read(), headers={"Content-Type": kind})
        except (aiohttp.ClientError, TimeoutError) as error:
            said = f"the engine gave no answer: {str(error) or type(error).__name__}"
            return web.json_response({"error": {"message": said, "code": 502}}, status=502)


def _hash_of(body: bytes) -> str | None:
    """Return the hash of a request's prompt, None where the request holds no prompt of text."""
    try:
        document = json.loads(body)
        prompt = document.get("prompt") if isinstance(document, dict) else None
        return prompt_hash(prompt) if isinstance(prompt, str) else None
    except (ValueError, RecursionError):
        return None


def prompt_hash(prompt: str) -> str:
    """Return the hash by which lm-eval names a prompt."""
    return hashlib.sha256(prompt.encode()).hexdigest()
