"""Files that are whole or not there, and that mean one thing: atomic writing, strict JSON, columns with a hash.

A file is written beside its place, flushed to the disk and renamed over it, so that a reader at any moment sees either
the old or the new one. What is read back is bounded in size and trusted for nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec
import numpy as np

from servegate.domain.evidence import Columns
from servegate.domain.records import Json
from servegate.domain.strict_json import parse_json
from servegate.errors import RunDirectoryError, StorageError

MAX_JSON_BYTES = 1 << 30
"""A file larger than this is refused, since reading it would take the reader's memory before it was judged."""
MAX_COLUMN_BYTES = 4 << 30
UNREADABLE = (OSError, ValueError, TypeError, EOFError, SyntaxError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error)
"""What numpy and zipfile raise for an archive that somebody made up: a header that is no Python, a shape of a billion rows."""


@contextmanager
def stored(path: Path) -> Iterator[None]:
    """Turn what the file system says into one clear error."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{path} could not be written: {error.strerror or error}",
            why="What was written before is kept.",
            advice="Free some space, or give another --output.",
        ) from error


@contextmanager
def replacing(target: Path) -> Iterator[IO[bytes]]:
    """Write beside a file and put it in its place when it is on the disk; nothing is left when that fails."""
    with stored(target):
        stream = tempfile.NamedTemporaryFile(dir=target.parent, suffix=".part", delete=False)  # noqa: SIM115 - see below
        part = Path(stream.name)
        try:
            with stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            part.chmod(0o644)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)


def dump(value: Json) -> bytes:
    """Return strict JSON: ASCII, sorted keys, no NaN or Infinity, one final newline."""
    text = json.dumps(value, ensure_ascii=True, sort_keys=True, allow_nan=False, separators=(",", ":")).encode("ascii")
    try:  # to the same bytes as `indent=1`, for which the standard library leaves its C encoder
        return msgspec.json.format(text, indent=1) + b"\n"
    except (msgspec.DecodeError, RecursionError):  # a lone surrogate, which msgspec refuses
        return (json.dumps(value, ensure_ascii=True, sort_keys=True, allow_nan=False, indent=1) + "\n").encode("ascii")


def load(path: Path) -> Json:
    """Read strict JSON. Raises RunDirectoryError on repeated keys, NaN, wrong bytes, or a file over the size cap."""
    try:
        if path.stat().st_size > MAX_JSON_BYTES:
            raise RunDirectoryError(f"{path} is larger than {MAX_JSON_BYTES} bytes and was not read")
        return parse_json(path.read_bytes())
    except FileNotFoundError:
        raise RunDirectoryError(f"{path} is missing", advice="The run is incomplete: measure again.") from None
    except (OSError, ValueError) as error:
        raise RunDirectoryError(f"{path} is not strict JSON: {error}", advice="Restore the file or measure again.") from error


def sha256_of_file(path: Path) -> str:
    """Return the sha256 of a file's bytes, lower-case hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def write_columns(target: Path, columns: Columns) -> Json:
    """Write columns as one uncompressed `.npz`; returns what its JSON says of it: name, sha256, bytes."""
    for name, column in columns.items():
        if column.dtype == object:
            raise ValueError(f"column {name!r} has no fixed type")
    with replacing(target) as stream:
        np.savez(stream, allow_pickle=False, **columns)
    return {"file": target.name, "sha256": sha256_of_file(target), "bytes": target.stat().st_size}


def read_columns(stated: Json, json_path: Path) -> Columns:
    """Read the columns that a JSON file names, from beside it. Raises RunDirectoryError when they are not those."""
    name = stated.get("file") if isinstance(stated, dict) else None
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9_-]+\.npz", name):
        raise RunDirectoryError(f"{json_path} names no readable column file: {name!r}")
    target = json_path.parent / name
    if not target.is_file():
        raise RunDirectoryError(f"{target} is missing", why=f"{json_path} refers to it.", advice="Measure again.")
    if target.stat().st_size > MAX_COLUMN_BYTES:
        raise RunDirectoryError(f"{target} is larger than {MAX_COLUMN_BYTES} bytes and was not read")
    try:
        with target.open("rb") as stream:  # once: what is read is the file that was hashed, and is in memory once
            if hashlib.file_digest(stream, "sha256").hexdigest() != stated.get("sha256"):
                raise RunDirectoryError(
                    f"{target} was changed after it was measured", advice="Restore the file or measure again."
                )
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as archive:
                if sum(each.file_size for each in archive.zip.infolist()) > MAX_COLUMN_BYTES:
                    raise RunDirectoryError(f"{target} holds more than {MAX_COLUMN_BYTES} bytes once unpacked and was not read")
                return {key: archive[key] for key in archive.files}
    except UNREADABLE as error:
        raise RunDirectoryError(
            f"{target} is not readable: {str(error)[:200]}", advice="Restore it or measure again."
        ) from error
