"""The files and processes around a start: the executable that is looked for, the log that is opened, a group that is ended."""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import IO

from servegate.errors import EngineError, UsageError


def find_executable(name: str, path: str | None) -> str:
    """Return the engine's executable as a path.

    Raises:
        UsageError: it is not there; says what was looked for and how to name another.
    """
    found = shutil.which(name, path=path)
    if found is None:
        where = f"the file {name!r}" if os.sep in name else f"{name!r} in the directories of PATH"
        raise UsageError(
            f"engine not found: looked for {where}",
            why="There is no such file, or it is not executable.",
            advice="Install vLLM, or set `engine.executable` in the gate config (or --engine) to the path of `vllm`.",
        )
    return found


def end_group(pid: int) -> None:
    """End a hung engine's process group; what has left the group ends with its keeper."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def set_aside(log_path: Path, failed: list[str]) -> None:
    """Keep the log of a start that failed under its own name, before the next start writes."""
    if failed:
        with suppress(OSError):
            log_path.rename(log_path.with_name(failed[-1]))


def log_file(path: Path) -> IO[bytes]:
    """Open the log for appending, so that the engine's processes never overwrite each other's lines."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        return path.open("ab")
    except OSError as error:
        raise EngineError(f"{path}: the engine's log cannot be written: {error.strerror}") from None
