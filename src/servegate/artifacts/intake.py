"""What a run directory may consist of. It may come from another job, or from an archive that a stranger filled.

Folders and regular files, and no endless number of them: a link would let a report show a file of the machine that judges,
and a named pipe would keep its reader waiting for ever.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from servegate.errors import RunDirectoryError

MOST_FILES = 20_000
MOST_BYTES = 16 << 30

_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def regular_files(root: Path) -> Iterator[tuple[str, Path]]:
    """Yield (path inside of the directory, path) of every regular file, sorted; nothing is opened and no link followed."""
    for name, path, kind in sorted(_entries(root)):
        if kind is None:
            yield name, path


def irregular(root: Path) -> tuple[str, ...]:
    """Return a line for everything that is neither a folder nor a regular file."""
    return tuple(f"{name}: {kind}" for name, _path, kind in sorted(_entries(root)) if kind is not None)


def ensure_regular(root: Path) -> None:
    """Raise RunDirectoryError when the directory holds anything else, too many files, or too many bytes."""
    files = size = 0
    for name, path, kind in _entries(root):
        if kind is not None:
            raise RunDirectoryError(
                f"{root} holds {kind}: {name[:200]!r}",
                why="A run directory consists of folders and regular files.",
                advice="Remove it, or take the run from where it was measured.",
            )
        files, size = files + 1, size + path.lstat().st_size
        if files > MOST_FILES or size > MOST_BYTES:
            raise RunDirectoryError(
                f"{root} holds more than {MOST_FILES} files or {MOST_BYTES >> 30} GiB, which no run of ours does",
                advice="Take the run from where it was measured.",
            )


def _entries(root: Path) -> Iterator[tuple[str, Path, str | None]]:
    """Yield (path inside, path, what it is when it is no regular file); folders are walked, links to folders are not."""
    for folder, folders, files in os.walk(root):
        for each in (*folders, *files):
            path = Path(folder, each)
            mode = path.lstat().st_mode
            if not stat.S_ISDIR(mode):
                kind = None if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "something unknown")
                yield path.relative_to(root).as_posix(), path, kind
