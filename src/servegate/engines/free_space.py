"""Room on the disks, looked at before anything starts: a disk that fills up in the second hour costs both hours.

What a run will write is not known beforehand (columns of long answers, the log of an engine that fails again and again), so
these are floors, chosen and not measured: they find a disk that is full, not one that is a little small. A quota is not seen
here. Places on one file system share its room, so their floors are added up.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from servegate.domain.arms import Arm
from servegate.engines.compile_cache import VARIABLE, home
from servegate.engines.paths import path_of
from servegate.engines.preflight import LEAST_SHARED_BYTES, SHARED_MEMORY, hub_cache
from servegate.errors import UsageError

MIB = 1 << 20
RUN_BYTES = 512 * MIB
COMPILED_BYTES = 512 * MIB
DOWNLOAD_BYTES = 2048 * MIB
"""For a model that is not there yet. How large it is only the hub knows, so this finds a full disk and not a small one."""
TEMPORARY_BYTES = 256 * MIB
SHARED_BYTES = 32 * MIB
"""Queues between one engine's processes; several cards need `LEAST_SHARED_BYTES`."""


@dataclass(frozen=True)
class Need:
    """So many bytes are needed at a place; `what` names it in the message."""

    what: str
    path: Path
    least_bytes: int


def needs(run_root: Path, arms: Sequence[Arm], environments: Sequence[Mapping[str, str]]) -> tuple[Need, ...]:
    """Return what a run of the arms needs, each arm with the whole environment that it is served with."""
    found = {
        Need("the run directory", run_root, RUN_BYTES),
        Need("temporary files", Path(tempfile.gettempdir()), TEMPORARY_BYTES),
    }
    several = False
    for arm, environment in zip(arms, environments, strict=True):
        model = str(arm.config.options.get("model", ""))
        cache = hub_cache(environment)
        local = "://" in model or path_of(model).exists()
        if not local and not (cache / f"models--{model.replace('/', '--')}" / "snapshots").is_dir():
            found.add(Need("the hub cache, to download the model", cache, DOWNLOAD_BYTES))
        found.add(Need("compiled graphs", Path(environment.get(VARIABLE) or home(environment)), COMPILED_BYTES))
        several |= str(arm.config.options.get("tensor-parallel-size", 1)) not in ("1", "None")
    if SHARED_MEMORY.exists():
        found.add(Need("shared memory", SHARED_MEMORY, LEAST_SHARED_BYTES if several else SHARED_BYTES))
    return tuple(sorted(found, key=lambda need: (need.what, need.path)))


def free_at(path: Path) -> tuple[int, int] | None:
    """Return (file system, free bytes for this user) where a path is or will be; None when that cannot be told."""
    existing = next((each for each in (path, *path.absolute().parents) if each.exists()), None)
    try:
        return None if existing is None else (existing.stat().st_dev, shutil.disk_usage(existing).free)
    except OSError:
        return None


def check_free_space(wanted: Sequence[Need], look: Callable[[Path], tuple[int, int] | None] = free_at) -> None:
    """Check that every file system has room for what is needed there together.

    Raises:
        UsageError: one has not; names every place on it, what each needs and what there is.
    """
    by_system: dict[int, list[Need]] = {}
    free: dict[int, int] = {}
    for need in wanted:
        seen = look(need.path)
        if seen is not None:
            by_system.setdefault(seen[0], []).append(need)
            free[seen[0]] = seen[1]
    short = [
        "; ".join(f"{need.what} ({need.path}) needs {need.least_bytes // MIB} MiB" for need in each)
        + f": {sum(need.least_bytes for need in each) // MIB} MiB in all, and {free[system] // MIB} MiB are free"
        for system, each in by_system.items()
        if free[system] < sum(need.least_bytes for need in each)
    ]
    if short:
        raise UsageError(
            f"not enough free space: {short[0]}",
            why="\n".join((*short[1:], "The run would end in its middle with a full disk, after the cards had worked for it.")),
            advice="Free some, or give --output, TMPDIR, HF_HOME or SERVEGATE_CACHE_DIR a place on another disk; in a "
            "container, mount one there or raise --shm-size.",
        )
