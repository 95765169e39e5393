"""Input files that are fetched from the model hub, once, and then kept: `hub:wikitext-2`.

WikiText-2 (Merity and others, 2016; CC BY-SA) is what most published perplexities are of. It does not ship with servegate:
the raw test split comes from the archive that llama.cpp's `scripts/get-wikitext-2.sh` names, and stays in the cache. What was
read is hashed into the plan like any input, so two runs on different bytes are seen to be different. Nothing here runs unless
a gate config names such a file.
"""

from __future__ import annotations

import io
import os
import urllib.error
import urllib.request
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from servegate.engines.compile_cache import cache_directory
from servegate.errors import UsageError

HUB = "hub:"
DEFAULT_ENDPOINT = "https://huggingface.co"
TIMEOUT_S = 60
MAX_BYTES = 64 << 20
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Archive:
    """A zip of a data set's repository, and the file in it."""

    path: str
    member: str


KNOWN: Mapping[str, Archive] = {
    "hub:wikitext-2": Archive("datasets/ggml-org/ci/resolve/main/wikitext-2-raw-v1.zip", "wikitext-2-raw/wiki.test.raw")
}
"""Name in a gate config -> where it is (llama.cpp, scripts/get-wikitext-2.sh)."""


def from_hub(name: str, environment: Mapping[str, str] = os.environ) -> bytes:
    """Return a file of the hub, from the cache when it is there.

    `HF_ENDPOINT` names another hub, `HF_HUB_OFFLINE=1` forbids asking it, `SERVEGATE_CACHE_DIR` moves the cache.

    Raises:
        UsageError: no such name, offline, not to be had, or not what it should be; says how to do without.
    """
    archive = KNOWN.get(name)
    if archive is None:
        raise UsageError(f"{name} is not known", advice=f"Known: {', '.join(KNOWN)}. A path names a file of your own.")
    kept = cache_directory(environment) / "hub" / name.replace(":", "-")
    if kept.is_file():
        return kept.read_bytes()
    own = f"Name a UTF-8 text of your own instead (logprobs.corpus.file), or put {archive.member} of that archive at {kept}."
    if environment.get("HF_HUB_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise UsageError(f"{name} is not on this machine, and HF_HUB_OFFLINE forbids fetching it", advice=own)
    url = f"{environment.get('HF_ENDPOINT', DEFAULT_ENDPOINT).rstrip('/')}/{archive.path}"
    try:
        content = _member(_downloaded(url), archive.member)
    except (OSError, ValueError, zipfile.BadZipFile, KeyError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else str(error) or type(error).__name__
        raise UsageError(f"{name} could not be fetched from {url}: {reason}", advice=own) from None
    _keep(kept, content)
    return content


def _downloaded(url: str) -> bytes:
    if not url.startswith(("https://", "http://")):
        raise ValueError("HF_ENDPOINT must be an http(s) address")
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as reply:  # noqa: S310 - the scheme was looked at
        content = bytearray()
        while chunk := reply.read(CHUNK_BYTES):
            content += chunk
            if len(content) > MAX_BYTES:
                raise ValueError(f"longer than {MAX_BYTES >> 20} MiB")
    return bytes(content)


def _member(archive: bytes, name: str) -> bytes:
    with zipfile.ZipFile(io.BytesIO(archive)) as opened, opened.open(name) as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"{name} is longer than {MAX_BYTES >> 20} MiB")
    content.decode("utf-8")
    return content


def _keep(path: Path, content: bytes) -> None:
    """Keep a file for the next time; a cache that can not be written costs another download and nothing else."""
    part = path.with_suffix(f".{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(path)
    except OSError:
        return
