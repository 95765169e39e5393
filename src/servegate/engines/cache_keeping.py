"""Keeps servegate's cache from growing for ever, without taking anything from a gate that runs.

What lies there can all be made again: compiled graphs (one directory for each arm ever served), engine environments and models
that the examples made, fetched texts. Beside every entry stands a file `<entry>.used`: a gate holds a shared lock on it while
it serves and its time says when that last was. Removing takes the same lock alone, without waiting, so an entry in use stays.
An entry is renamed under the lock and deleted afterwards: a removal that was cut off never leaves half of one behind.

Compiled graphs are kept in bounds by every run; the rest costs a download, so only `servegate clean` removes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from servegate.engines.compile_cache import cache_directory, home, size_bytes

MOST_DAYS = 30
"""Graphs that no run used for longer are removed."""
MOST_GIB = 20.0
"""So much compiled graphs may take together; those that were unused the longest go first."""
GIB = 1 << 30
DAY_S = 86_400
USED = ".used"
REMOVING = ".removing-"
KINDS = ("compiled", "engines", "models", "hub")
"""Compiled graphs, engine environments (`engine-*`), model copies, files of the hub."""


OURS = {
    "compiled": re.compile(r"[0-9a-f]{16}"),
    "engines": re.compile(r"engine-[0-9a-f]{12}"),
    "models": re.compile(r"[a-z0-9.-]+-[0-9a-f]{12}"),
    "hub": re.compile(r"hub-[a-z0-9.-]+"),
}
"""Names that servegate gives, by kind. `SERVEGATE_CACHE_DIR` may be a folder that others use too: what has no such name
is theirs, also a model that a gate served from there, and is neither listed nor removed."""


@dataclass(frozen=True)
class Entry:
    """One thing in the cache: its kind, place, bytes, and when it was last used (seconds since the epoch)."""

    kind: str
    path: Path
    size_bytes: int
    used_s: float

    def idle_days(self, now_s: float) -> float:
        """Return the days since it was used; 0 for a time that lies ahead, as after a clock was set back."""
        return max(0.0, now_s - self.used_s) / DAY_S


@contextlib.contextmanager
def in_use(paths: Iterable[str | Path], environment: Mapping[str, str]) -> Iterator[None]:
    """Mark what lies in the cache as used now, and keep it from being removed while the context is open.

    `paths` are whatever an arm uses; those outside of the cache are none of its business. Where the cache cannot be written to
    nothing is marked, since nobody who cannot write there removes anything either.
    """
    with contextlib.ExitStack() as stack:
        for entry in sorted({found for path in paths if (found := _entry_of(Path(path), environment)) is not None}):
            with contextlib.suppress(OSError):
                entry.parent.mkdir(parents=True, exist_ok=True)
                # Waits for a removal, which only renames under its lock.
                os.utime(stack.enter_context(_locked(entry, fcntl.LOCK_SH)))
        yield


@contextlib.contextmanager
def _locked(entry: Path, operation: int) -> Iterator[int]:
    """Hold the lock of an entry; yields the descriptor of its mark.

    A removal takes the mark away with the entry, so a lock on a file that is not there any more is nobody's: it is taken anew.
    """
    while True:
        descriptor = os.open(_mark(entry), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, operation)
            if _same_file(descriptor, _mark(entry)):
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def entries(environment: Mapping[str, str], kinds: Iterable[str] = KINDS) -> list[Entry]:
    """Return what the cache holds, unused the longest first; links are somebody else's and are not looked at."""
    wanted = set(kinds)
    return sorted(
        (Entry(kind, path, _size(path), _last_used(path)) for kind, path in _places(environment) if kind in wanted),
        key=lambda each: (each.used_s, each.path),
    )


def surplus(found: Iterable[Entry], now_s: float, *, most_days: float, most_gib: float) -> list[Entry]:
    """Return the entries beyond the bounds: those idle for longer, then the longest idle until the rest is small enough."""
    ordered = sorted(found, key=lambda each: each.used_s)
    going = [each for each in ordered if each.idle_days(now_s) > most_days]
    staying = [each for each in ordered if each not in going]
    left = sum(each.size_bytes for each in staying)
    for each in staying:
        if left <= most_gib * GIB:
            break
        going.append(each)
        left -= each.size_bytes
    return going


def remove(entry: Entry) -> str | None:
    """Remove an entry; return None when it is gone, else why it stays."""
    aside = entry.path.with_name(f"{REMOVING}{entry.path.name}-{os.getpid()}")
    try:
        with _locked(entry.path, fcntl.LOCK_EX | fcntl.LOCK_NB):
            entry.path.rename(aside)
            _mark(entry.path).unlink()
    except BlockingIOError:
        return "in use by a gate"
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"cannot be removed: {error.strerror}"
    _delete(aside)
    return None


def keep_in_bounds(environment: Mapping[str, str], say: Callable[[str], None], now_s: float | None = None) -> None:
    """Remove compiled graphs beyond `MOST_DAYS` and `MOST_GIB`, and what a removal that was cut off left. Never raises."""
    place = home(environment)
    with contextlib.suppress(OSError):
        for rest in place.glob(f"{REMOVING}*"):
            _delete(rest)
    now = time.time() if now_s is None else now_s
    going = surplus(entries(environment, ("compiled",)), now, most_days=MOST_DAYS, most_gib=MOST_GIB)
    gone = [each for each in going if remove(each) is None]
    if gone:
        size = sum(each.size_bytes for each in gone) / GIB
        say(f"removed {len(gone)} compile caches that no run used lately ({size:.2f} GiB); see `servegate clean --list`")


def _places(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    root = cache_directory(environment)
    for kind, folder in (
        ("compiled", home(environment)),
        ("engines", root),
        ("models", root / "models"),
        ("hub", root / "hub"),
    ):
        for path in folder.glob("*"):
            known = path.is_dir() or (kind == "hub" and path.is_file())
            if known and not path.is_symlink() and OURS[kind].fullmatch(path.name):
                yield kind, path


def _entry_of(path: Path, environment: Mapping[str, str]) -> Path | None:
    """Return the entry that a path lies in, links followed (examples link to their model), or None."""
    root = Path(os.path.realpath(cache_directory(environment)))
    try:
        parts = Path(os.path.realpath(path)).relative_to(root).parts
    except ValueError:
        return None
    if parts and parts[0].startswith("engine-"):
        return root / parts[0]
    return root / parts[0] / parts[1] if len(parts) > 1 and parts[0] in KINDS else None


def _mark(entry: Path) -> Path:
    return entry.with_name(f"{entry.name}{USED}")


def _last_used(path: Path) -> float:
    """Return the time of its mark; without one, the time of the directory itself."""
    for each in (_mark(path), path):
        with contextlib.suppress(OSError):
            return each.stat().st_mtime
    return 0.0


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        return size_bytes(path) if path.is_dir() else path.stat().st_size
    return 0


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
