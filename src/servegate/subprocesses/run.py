"""Run a tool to its end: captured, bounded in time and output, with an error that says what it said last."""

from __future__ import annotations

import secrets
import shlex
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from servegate.errors import MeasurementError, ServegateError
from servegate.subprocesses.supervise import supervise

MAX_OUTPUT_BYTES = 64 << 20
_TAIL_LINES = 12
_LOOK_S = 0.2


@dataclass(frozen=True)
class Completed:
    """A tool that ended. Output is UTF-8 with replacement characters where it was none; `seconds` is wall time."""

    command: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float


def run(
    command: Sequence[str],
    *,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    check: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    echo: Callable[[str], None] | None = None,
    error: type[ServegateError] = MeasurementError,
) -> Completed:
    """Run a command and wait for it; whatever it started is gone afterwards.

    Raises:
        ServegateError: of the class `error`: it could not be executed, took longer than `timeout_s`, wrote more than
            `max_output_bytes`, or (with `check`) ended with a code other than 0; the last lines it wrote are in `why`.
    """
    started = time.monotonic()
    tool = Path(command[0]).name
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with supervise(
            command,
            tag=secrets.token_hex(8),
            stdout=out,
            stderr=err,
            environment=environment,
            directory=directory,
            grace_s=2.0,
            echo=echo,
            error=error,
        ) as child:
            while (code := child.wait(_LOOK_S)) is None:
                if time.monotonic() - started > timeout_s:
                    raise _failed(command, f"{tool!r} did not end within {timeout_s:g} s", out, err, error)
                if _size(out) + _size(err) > max_output_bytes:
                    raise _failed(command, f"{tool!r} wrote more than {max_output_bytes} bytes", out, err, error)
        if check and code != 0:
            how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
            raise _failed(command, f"{tool!r} {how}", out, err, error)
        texts = [_tail(file, max_output_bytes) for file in (out, err)]
    return Completed(tuple(command), code, texts[0], texts[1], time.monotonic() - started)


def _size(file: IO[bytes]) -> int:
    return file.seek(0, 2)


def _tail(file: IO[bytes], most: int) -> str:
    size = _size(file)
    file.seek(max(0, size - most))
    return file.read(most).decode("utf-8", "replace")


def _failed(command: Sequence[str], what: str, out: IO[bytes], err: IO[bytes], error: type[ServegateError]) -> ServegateError:
    said = [line for file in (out, err) for line in _tail(file, 8192).splitlines() if line.strip()]
    return error(what, why="\n".join(said[-_TAIL_LINES:]), advice=f"Run it by hand: {shlex.join(command)}")
