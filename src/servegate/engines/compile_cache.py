"""A compile cache for each arm: kept apart by what is served, and used again by the next run that serves the same.

vLLM keeps compiled graphs under VLLM_CACHE_ROOT, one cache for everything; graphs of another config taken from there have
ended starts and spoiled answers (https://github.com/vllm-project/vllm/issues/53366, .../28759). Whoever sets the variable
(for an arm, or for the whole machine) keeps it.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

from servegate.domain.arms import Arm

VARIABLE = "VLLM_CACHE_ROOT"
HOME = "SERVEGATE_CACHE_DIR"
"""Where servegate keeps what it may lose; XDG_CACHE_HOME/servegate (or ~/.cache/servegate) by default."""


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Return where servegate keeps what it may lose."""
    named = environment.get(HOME)
    return Path(named) if named else Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "servegate"


def home(environment: Mapping[str, str]) -> Path:
    """Return the directory of all compile caches."""
    return cache_directory(environment) / "compiled"


def key_of(arm: Arm, executable: str, cards: Sequence[str]) -> str:
    """Return the key of an arm's cache: arguments, environment, the engine's file and its time, the kinds of cards."""
    real = os.path.realpath(executable)
    try:
        version = Path(real).stat().st_mtime_ns
    except OSError:
        version = 0
    parts = [list(arm.argv[1:]), sorted(arm.environment.items()), real, version, sorted(cards)]
    return hashlib.sha256(json.dumps(parts).encode("ascii")).hexdigest()[:16]


def cache_for(arm: Arm, executable: str, environment: Mapping[str, str], cards: Sequence[str]) -> dict[str, str]:
    """Return the variable that gives an arm its own cache; nothing when somebody has set it, or the place is not ours."""
    if VARIABLE in environment:
        return {}
    root = home(environment)
    existing = next((each for each in (root, *root.parents) if each.exists()), root)
    if not os.access(existing, os.W_OK | os.X_OK):
        return {}
    return {VARIABLE: str(root / key_of(arm, executable, cards))}


def shared(environments: Sequence[Mapping[str, str]]) -> str | None:
    """Return the cache that all arms are given alike, or None when each has its own."""
    named = {environment.get(VARIABLE) for environment in environments}
    return next(iter(named)) if len(named) == 1 and len(environments) > 1 else None


def size_bytes(directory: Path) -> int:
    """Return the bytes of all files below a directory; what cannot be seen counts as nothing."""
    total = 0
    for folder, _directories, files in os.walk(directory):
        for name in files:
            try:
                found = os.lstat(os.path.join(folder, name))  # noqa: PTH118 - thousands of files, and Path is slow
            except OSError:
                continue
            total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total
