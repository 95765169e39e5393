"""One HTTP client for engines and probes: asynchronous inside, synchronous outside.

An event loop runs in a thread of its own for as long as the client is open, so that signals reach the caller at once
and parsing an answer never delays the clock of another request. `get` and `post` do one call; `results` keeps a bounded
number of calls in flight and yields each outcome as it arrives, as an iterator: leaving it early cancels what is left.

Only loopback engines are meant: proxies from the environment, redirects and cookies are ignored. A call is tried again
only when the connection failed before a byte of the answer was seen, and `Reply.retries` says how often that was.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import queue
import threading
import time
from collections.abc import Coroutine, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

import aiohttp

from servegate.domain.records import Json
from servegate.domain.strict_json import parse_json
from servegate.errors import ServegateError

T = TypeVar("T")

MAX_REPLY_BYTES = 64 << 20
"""Longest answer read, in bytes; a completion of 32,000 tokens with five logprobs each is about 10 MB."""
KEEP_ALIVE_S = 2.0
"""Shorter than uvicorn's 5 s, so that the server is never the one that closes an idle connection under a new request."""
RETRY_PAUSES_S = (0.05, 0.2)
"""Pauses before the second and third attempt to connect."""


class HttpError(ServegateError):
    """A call brought no usable answer."""


class ConnectionFailedError(HttpError):
    """Nobody answered at the address, or the connection broke."""


class DeadlineError(HttpError):
    """The answer did not come, or did not end, in time."""


class ReplyTooLargeError(HttpError):
    """The answer was longer than the cap and was not read to its end."""


class InvalidReplyError(HttpError):
    """The answer is not strict JSON, or not UTF-8 text."""


@dataclass(frozen=True)
class Reply:
    """A whole answer. `seconds` runs from writing the request to the last byte of the answer.

    `arrivals` is for answers that come in pieces: (length of the body so far, seconds since the request) of each piece as
    the socket gave it; a piece is no unit of the protocol and may end inside a character.
    """

    status: int
    body: bytes
    seconds: float
    retries: int = 0
    media_type: str = ""
    """`text/event-stream`, `application/json`, ...: lower case, without parameters; empty when the server named none."""
    arrivals: tuple[tuple[int, float], ...] = ()

    def json(self) -> Json:
        """Return the body as strict JSON. Raises InvalidReplyError."""
        try:
            return parse_json(self.body)
        except ValueError as error:
            raise InvalidReplyError(f"the answer is not strict JSON: {error}", why=self.excerpt()) from error

    def text(self) -> str:
        """Return the body as UTF-8 text. Raises InvalidReplyError."""
        try:
            return self.body.decode()
        except UnicodeDecodeError as error:
            raise InvalidReplyError(f"the answer is not UTF-8: {error}") from error

    def excerpt(self, limit: int = 300) -> str:
        """Return the start of the body for a message: printable, one line, at most `limit` characters."""
        shown = self.body[: 4 * limit].decode("utf-8", "replace")
        return "".join(char if char.isprintable() else " " for char in shown)[:limit]


@dataclass(frozen=True)
class Call:
    """One call to be made: a POST of JSON when there is a body, else a GET; bytes are JSON that is already written."""

    path: str
    body: Json | bytes = None


@dataclass
class _Pool:
    """Calls in flight and what became of them; shared by the loop's thread and the caller's."""

    calls: Iterator[tuple[int, Call]]
    outcomes: queue.SimpleQueue[tuple[int, Reply | HttpError] | None] = field(default_factory=queue.SimpleQueue)


class HttpClient:
    """Calls one base URL. Open it as a context manager; `total_s` limits a whole call, `read_s` a silence within it.

    `api_key` goes with every call as a bearer token; empty: none is sent.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str = "",
        total_s: float,
        read_s: float | None = None,
        connect_s: float = 10.0,
        max_bytes: int = MAX_REPLY_BYTES,
    ) -> None:
        """Keep the settings; the thread starts on entering."""
        self._base_url = base_url.rstrip("/")
        self._authorization = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._timeout = aiohttp.ClientTimeout(total=total_s, sock_read=read_s, sock_connect=min(connect_s, total_s))
        self._max_bytes = max_bytes
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="servegate-http", daemon=True)
        self._session: aiohttp.ClientSession | None = None

    def __enter__(self) -> Self:
        """Start the loop's thread."""
        self._thread.start()
        self._session = self._wait(self._opened())
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel what is in flight, close every connection and end the thread."""
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(self._closed(), self._loop).result(timeout=5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self._loop.close()

    def get(self, path: str) -> Reply:
        """GET a path. Raises HttpError; a status other than 200 is not an error here."""
        return self._wait(self._call(Call(path)))

    def post(self, path: str, body: Json) -> Reply:
        """POST JSON to a path. Raises HttpError; a status other than 200 is not an error here."""
        return self._wait(self._call(Call(path, body)))

    def results(
        self, calls: Iterable[Call], concurrency: int, tick_s: float = 1.0
    ) -> Iterator[tuple[int, Reply | HttpError] | None]:
        """Make all calls, at most `concurrency` at once, started in order; yield `(index, outcome)` as each ends.

        Yields None whenever `tick_s` pass without an outcome, so that the caller can look after the server. Closing
        the iterator cancels the calls that have not ended; their outcomes never come.
        """
        listed = list(calls)
        pool = _Pool(iter(enumerate(listed)))
        workers = max(1, min(concurrency, len(listed)))
        running = asyncio.run_coroutine_threadsafe(self._work(pool, workers), self._loop)
        try:
            while True:
                try:
                    outcome = pool.outcomes.get(timeout=tick_s)
                except queue.Empty:
                    yield None
                    continue
                if outcome is None:
                    break
                yield outcome
            running.result()
        finally:
            running.cancel()

    # -- in the loop's thread --------------------------------------------------------------------------------

    async def _opened(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S, use_dns_cache=True),
            timeout=self._timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={
                "Accept": "application/json, text/event-stream, text/plain",
                "Accept-Encoding": "identity",
                **self._authorization,
            },
            json_serialize=lambda value: json.dumps(value, allow_nan=False),
            trust_env=False,
        )

    async def _closed(self) -> None:
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def _work(self, pool: _Pool, workers: int) -> None:
        async def worker() -> None:
            for index, call in pool.calls:
                try:
                    pool.outcomes.put((index, await self._call(call)))
                except HttpError as error:
                    pool.outcomes.put((index, error))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(workers):
                    group.create_task(worker())
        finally:
            pool.outcomes.put(None)

    async def _call(self, call: Call) -> Reply:
        failure: Exception | None = None
        for retries, pause in enumerate((0.0, *RETRY_PAUSES_S)):
            await asyncio.sleep(pause)
            try:
                return await self._once(call, retries)
            except (aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
                failure = error
        raise ConnectionFailedError(f"no answer from {self._base_url}{call.path}: {_reason(failure)}") from failure

    async def _once(self, call: Call, retries: int) -> Reply:
        if self._session is None:
            raise RuntimeError("an HttpClient is used inside `with`")
        method = "GET" if call.body is None else "POST"
        sent: dict[str, Any] = {"json": call.body}
        if isinstance(call.body, bytes):
            sent = {"data": call.body, "headers": {"Content-Type": "application/json"}}
        url = self._base_url + call.path
        started = time.perf_counter()
        try:
            async with self._session.request(method, url, **sent, allow_redirects=False) as response:
                body, arrivals = await self._read(response, url, started)
                media_type = response.content_type if aiohttp.hdrs.CONTENT_TYPE in response.headers else ""
        except TimeoutError as error:
            waited = time.perf_counter() - started
            raise DeadlineError(f"no complete answer from {url} within {waited:.1f} s") from error
        except (aiohttp.ClientConnectorError, aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            raise
        except aiohttp.ClientError as error:
            raise ConnectionFailedError(f"the answer from {url} broke off: {_reason(error)}") from error
        return Reply(response.status, body, time.perf_counter() - started, retries, media_type, arrivals)

    async def _read(
        self, response: aiohttp.ClientResponse, url: str, started: float
    ) -> tuple[bytes, tuple[tuple[int, float], ...]]:
        """Return the body and when its pieces came. Nothing is parsed here: other answers wait for this thread."""
        pieces, size, arrivals = [], 0, []
        try:
            async for piece in response.content.iter_any():
                pieces.append(piece)
                size += len(piece)
                arrivals.append((size, time.perf_counter() - started))
                if size > self._max_bytes:
                    response.close()
                    raise ReplyTooLargeError(f"the answer from {url} is longer than {self._max_bytes} bytes")
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            raise ConnectionFailedError(f"the answer from {url} broke off: {_reason(error)}") from error
        return b"".join(pieces), tuple(arrivals)

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        finally:
            running.cancel()


def _reason(error: Exception | None) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return str(error.os_error.strerror or error.os_error)
    return str(error) or type(error).__name__
