"""Asks an engine many things at once: an answer or a reason for each, and an end in sight when the engine is gone.

Probes differ in what they send and how they read a reply; that none goes missing, that a dead engine is noticed, and
that what was never asked is told from what failed is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from servegate.domain.workload import Endpoint
from servegate.errors import EngineError
from servegate.http import Call, ConnectionFailedError, DeadlineError, HttpClient, HttpError, Reply
from servegate.ports import Advance

REFUSALS_BEFORE_GIVING_UP = 5
"""So many calls in a row that found nobody at the address: the engine is gone, not busy."""
TIMEOUTS_BEFORE_GIVING_UP = 3
"""So many calls in a row (and at least as many as are in flight) that ran into their deadline: the engine hangs."""

R = TypeVar("R")


def client_of(endpoint: Endpoint, total_s: float, **limits: int) -> HttpClient:
    """Return a client of an engine that sends its key; without it `/v1` answers 401. `total_s` bounds each call."""
    return HttpClient(endpoint.base_url, api_key=endpoint.api_key, total_s=total_s, **limits)


def ask_all(
    client: HttpClient,
    calls: Sequence[Call],
    concurrency: int,
    *,
    read: Callable[[int, Reply | HttpError], R],
    skipped: Callable[[int, str], R],
    advance: Advance,
    ensure_alive: Callable[[], None],
) -> tuple[R, ...]:
    """Return one record a call, in the order of the calls, whatever happened to it.

    `read` makes the record of a reply or failure, `skipped` that of a call that was not completed, given the reason:
    the engine is known to be gone, refused several calls in a row, or let several run into their deadline.
    """
    done: dict[int, R] = {}
    watch = _Watch(concurrency)
    given_up = ""
    with client:
        for outcome in client.results(calls, concurrency):
            if outcome is not None:
                index, reply = outcome
                done[index] = read(index, reply)
                advance(1)
                given_up = watch.verdict_after(reply)
            if not given_up and (outcome is None or isinstance(outcome[1], HttpError)):
                given_up = _death(ensure_alive)
            if given_up:
                break
    for index in range(len(calls)):
        if index not in done:
            done[index] = skipped(index, given_up)
            advance(1)
    return tuple(done[index] for index in range(len(calls)))


def ensure_unique(ids: Sequence[str]) -> None:
    """Raise ValueError when two requests have the same id, so that their answers could not be told apart."""
    if len(set(ids)) != len(ids):
        raise ValueError("ids of requests must be unique")


def _death(ensure_alive: Callable[[], None]) -> str:
    """Return why the engine is known to be gone, or nothing. The session itself reports it once more, in full."""
    try:
        ensure_alive()
    except EngineError as error:
        return error.what
    return ""


class _Watch:
    """Counts failures in a row, and says when no further request is worth sending."""

    def __init__(self, concurrency: int) -> None:
        """Start with nothing seen; `concurrency` calls are in flight at once."""
        self._most_timeouts = max(TIMEOUTS_BEFORE_GIVING_UP, concurrency)
        self._refusals = 0
        self._timeouts = 0

    def verdict_after(self, reply: Reply | HttpError) -> str:
        """Return why to give up after this outcome, or nothing."""
        self._refusals = self._refusals + 1 if isinstance(reply, ConnectionFailedError) else 0
        self._timeouts = self._timeouts + 1 if isinstance(reply, DeadlineError) else 0
        if self._refusals >= REFUSALS_BEFORE_GIVING_UP:
            return f"the engine did not answer {self._refusals} calls in a row"
        if self._timeouts >= self._most_timeouts:
            return f"the engine hangs: {self._timeouts} calls in a row ran into their deadline"
        return ""
