"""Is the process that wrote a run still at it? Only the same boot of the same host can say."""

from __future__ import annotations

import os
from pathlib import Path

from servegate.domain.records import Json


def is_running(pid: int, data: dict[str, Json]) -> bool:
    """A process of that number lives on the boot that wrote the file; elsewhere nothing can be said, so: no."""
    if data.get("host_boot_id") != boot_id():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def boot_id() -> str | None:
    """Return the kernel's boot id, which tells one host's uptime from another's; None where there is none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
