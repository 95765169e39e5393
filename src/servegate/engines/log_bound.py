"""Keeps an engine's log from filling the disk: one that prints without end is cut in the middle.

The beginning stays, where the start stands, and what comes after the cut, where the end stands. Cutting is safe while the
engine writes, since its descriptor was opened for appending: every write goes to where the file ends at that moment.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MOST_BYTES = 256 << 20
"""A start of an engine writes 10 to 500 KB, and a day under load with a line a request some 100 MB."""
KEPT_BYTES = 64 << 20
LOOK_S = 0.5


@contextmanager
def bounded(path: Path, most_bytes: int = MOST_BYTES, kept_bytes: int = KEPT_BYTES, look_s: float = LOOK_S) -> Iterator[None]:
    """Look after a log while the context is open; between two looks it may be larger."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(look_s):
            cut(path, most_bytes, kept_bytes)

    thread = threading.Thread(target=look, name="log-bound", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(2.0)
        cut(path, most_bytes, kept_bytes)


def cut(path: Path, most_bytes: int, kept_bytes: int) -> None:
    """Cut a log that is too long back to its beginning, and say so in it; a log that is gone is nobody's trouble."""
    with suppress(OSError):
        size = path.lstat().st_size
        if size <= most_bytes:
            return
        with path.open("r+b") as file:
            file.truncate(kept_bytes)
        with path.open("ab") as file:
            file.write(b"\n[servegate: the log grew beyond %d MiB; what stood here is left out]\n" % (most_bytes >> 20))
