"""A watch on tokens: an engine whose HTTP server is well and whose engine is not is found out, and ended.

`/health` and `/v1/models` are answered by the API server, which outlives a dead or hung engine core
(https://github.com/vllm-project/vllm/issues/39863). What counts is whether tokens come. The watch reads the engine's own
counters now and then; when none moved for as long as one answer may take, it asks for a single token. An idle engine
gives it at once. One that does not is hung, dead or asleep: its processes are ended, so that every probe, lm-eval and the
load generator included, gets an end instead of a deadline of hours.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from servegate.engines.readiness import Answer, ask, fetch

LOOK_S = 5.0
"""Pause between two looks at `/metrics`; monitoring systems scrape it about as often."""
SHORT_S = 5.0
_COUNTERS = re.compile(r"^vllm:(?:prompt|generation)_tokens_total(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


@dataclass
class TokenWatch:
    """Watches one served model. `end` ends its processes; it is called at most once, from the watch's thread."""

    base_url: str
    model: str
    api_key: str = field(repr=False)
    stall_s: float
    """So long may no token come before one is asked for."""
    probe_s: float
    """So long may that one token take."""
    end: Callable[[], None]
    look_s: float = LOOK_S
    asleep: bool = False
    """Whether servegate itself put the engine to sleep; then no token is expected."""
    hung: str | None = None
    """Why the engine was ended, once it was."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while the context is open."""
        over = threading.Event()
        thread = threading.Thread(target=self._run, args=(over,), name="token-watch", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(0.1)  # it may be waiting for an answer; what it decides after `over` is not acted upon

    def _run(self, over: threading.Event) -> None:
        last, moved_at = self._counters(), time.monotonic()
        while not over.wait(self.look_s):
            now = self._counters()
            if self.asleep or (now is not None and now != last):
                last, moved_at = now, time.monotonic()
            if time.monotonic() - moved_at < self.stall_s:
                continue
            answer = self._probe()
            if over.is_set():
                return
            if tokens_of(answer) >= 1:
                moved_at = time.monotonic()
                continue
            if answer.refused:
                return  # its process is gone, which is told with its cause by whoever looks at the process
            self.hung = what_hangs(self.base_url, answer, f"for {self.stall_s:g} s and more")
            self.end()
            return

    def _counters(self) -> float | None:
        """Return the sum of the engine's token counters, or None when it does not tell."""
        page = fetch(f"{self.base_url}/metrics", SHORT_S)
        found = _COUNTERS.findall(page.decode("utf-8", "replace")) if page else []
        try:
            return sum(map(float, found)) if found else None
        except ValueError:
            return None

    def _probe(self) -> Answer:
        body = {"model": self.model, "prompt": "Hi", "max_tokens": 1, "temperature": 0.0, "cache_salt": f"{self.model}-watch"}
        return ask(f"{self.base_url}/v1/completions", self.probe_s, body, api_key=self.api_key)


def what_hangs(base_url: str, answer: Answer, how_long: str) -> str:
    """Return in words what is wrong with an engine that gave `answer` to a request of one token."""
    asleep = ask(f"{base_url}/is_sleeping", SHORT_S).value
    if isinstance(asleep, dict) and asleep.get("is_sleeping") is True:
        return f"it was put to sleep, and no token came {how_long}"
    alive = "its port answers" if fetch(f"{base_url}/health", SHORT_S) is not None else "its port is silent too"
    said = answer.problem or "an answer without a token"
    return f"no token came {how_long}, nor for a request of one token ({said}), while {alive}"


def tokens_of(answer: Answer) -> int:
    """Return how many tokens an answer brought; 0 for anything that is no good answer."""
    usage = answer.value.get("usage") if isinstance(answer.value, dict) else None
    count = usage.get("completion_tokens") if isinstance(usage, dict) else None
    return count if answer.status == 200 and isinstance(count, int) else 0
