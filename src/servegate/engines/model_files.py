"""What can be known of a model before an engine loads it: is it here, is it whole, what does its config say.

A directory of Git-LFS pointers looks like a model and fails deep inside the loader after a minute; a missing directory
is taken for a hub id and fails with a network error. Both are cheap to see at plan time. Hub ids pass: only the engine
knows its cache.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from servegate.domain.records import Json
from servegate.engines.paths import path_of
from servegate.errors import UsageError

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
MAX_CONFIG_BYTES = 16 << 20
SMALLEST_SHARD_BYTES = 1 << 10
_POINTER = b"version https://git-lfs"
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")


def local_config(source: str) -> Json | None:
    """Return the parsed `config.json` of a model directory, or None for a hub id, a URL or a directory without one.

    Raises:
        UsageError: a path that does not exist, weights that are Git-LFS pointers or cut short, or an unreadable config.
    """
    path = path_of(source)
    if not path.exists():
        if "://" in source or (HUB_ID.fullmatch(source) and not source.startswith((".", "/", "~"))):
            return None
        raise UsageError(
            f"model {source!r}: no such directory",
            why=f"Relative paths start from the working directory, {str(Path.cwd())!r}.",
            advice="Correct `model` in the serving config, or download the model first.",
        )
    if not path.is_dir():
        return None
    for pattern in _WEIGHTS:
        for shard in sorted(path.glob(pattern)):
            _check_shard(shard)
    return read_config(path / "config.json")


def _check_shard(shard: Path) -> None:
    try:
        size = shard.stat().st_size
        with shard.open("rb") as file:
            head = file.read(64)
    except OSError as error:
        raise UsageError(f"{shard}: cannot be read: {error.strerror}", advice="Check the file and its permissions.") from None
    if head.startswith(_POINTER):
        raise UsageError(
            f"{shard}: a Git-LFS pointer of {size} bytes, not weights",
            why="The repository was cloned without its large files.",
            advice=f"Run `git lfs pull` in {str(shard.parent)!r}.",
        )
    if shard.suffix != ".safetensors":
        return
    # A safetensors file begins with the length of its JSON header, little-endian u64, then the header itself.
    header = int.from_bytes(head[:8], "little")
    if size < SMALLEST_SHARD_BYTES or head[8:9] != b"{" or header + 8 > size:
        raise UsageError(
            f"{shard}: {size} bytes that are no whole safetensors file",
            why="The download was interrupted, or this is a placeholder.",
            advice="Download the file again and compare its size with the original.",
        )


def read_config(path: Path) -> Json | None:
    """Return a parsed `config.json`, or None when there is no such file.

    Raises:
        UsageError: the file is too large, can not be read, or is no JSON object.
    """
    if not path.is_file():
        return None
    try:
        if path.stat().st_size > MAX_CONFIG_BYTES:
            raise UsageError(f"{path}: larger than {MAX_CONFIG_BYTES} bytes", advice="This is no model config.")
        value = json.loads(path.read_bytes(), parse_constant=lambda _text: None)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}", advice="Download the model again.") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}", advice="Check its permissions.") from None
    if not isinstance(value, dict):
        raise UsageError(f"{path}: holds no JSON object", advice="Download the model again.")
    return value
