"""SIGINT and SIGTERM become one exception, so that every `finally` on the way out stops its children."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from servegate.errors import Cancelled


@contextmanager
def converted() -> Iterator[None]:
    """Raise `Cancelled` in the main thread at the first signal; ignore further ones while children are stopped.

    Cleaning up has its own deadlines, so ignoring an impatient second Ctrl-C costs seconds and saves an orphan that
    would hold the card.
    """

    def handle(number: int, _frame: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise Cancelled(number)

    previous = {each: signal.signal(each, handle) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for each, handler in previous.items():
            signal.signal(each, handler)
