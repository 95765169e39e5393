"""One card, one gate: a lock file for each card, named after its UUID, that the kernel lets go when its holder dies.

The file lies where every user of the machine looks (`/run/lock`), and says who holds it. Containers that do not share
that directory do not see each other's locks; what they do on the card is seen through the driver (see `cards`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from servegate.domain.strict_json import parse_json
from servegate.errors import StorageError

SYSTEM_LOCKS = Path("/run/lock")
_MOST_BYTES = 4096


def lock_directory() -> Path:
    """Return where locks lie: the system's directory for them, else the one for temporary files."""
    return SYSTEM_LOCKS if os.access(SYSTEM_LOCKS, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def lock_path(directory: Path, uuid: str) -> Path:
    """Return the lock file of a card."""
    return directory / f"servegate-{re.sub(r'[^A-Za-z0-9-]', '_', uuid)[:80]}.lock"


@contextlib.contextmanager
def try_lock(path: Path, who: str) -> Iterator[str | None]:
    """Hold a lock while the context is open, without waiting; yields None when held, else who holds it.

    Raises:
        StorageError: the file can be neither opened nor made.
    """
    descriptor = _opened(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield _holder(descriptor)
            return
        note = json.dumps({"pid": os.getpid(), "who": who[:200]}).encode("ascii")
        with contextlib.suppress(OSError):  # a file of another user may be read-only to us; the lock holds all the same
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, note, 0)
        yield None
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    """Open without O_CREAT first: in a sticky directory the kernel refuses to "create" another user's file."""
    problem: OSError | None = None
    for flags in (os.O_RDWR, os.O_RDONLY, os.O_RDWR | os.O_CREAT | os.O_EXCL, os.O_RDWR):
        try:
            descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError as error:
            problem = error
            continue
        if flags & os.O_CREAT:
            with contextlib.suppress(OSError):
                os.fchmod(descriptor, 0o666)
        return descriptor
    raise StorageError(f"{path}: the card's lock cannot be opened: {problem.strerror if problem else 'unknown'}",
                       advice="Remove the file, or make its directory writable.") from problem  # fmt: skip


def _holder(descriptor: int) -> str:
    """Return who holds the lock, as its holder wrote it; another program may have written anything."""
    try:
        value = parse_json(os.pread(descriptor, _MOST_BYTES, 0))
        pid, who = int(value["pid"]), str(value["who"])
    except (OSError, ValueError, LookupError, TypeError):
        return "another servegate"
    shown = "".join(character if character.isprintable() else " " for character in who)[:200]
    return f"{shown}, pid {pid}"
