"""Keep one child running while a context is open; on leaving, nothing of it is left, and that is verified.

Durations come from the monotonic clock. The child gets its own session, the environment variable SERVEGATE_ARM with a
nonce, and nothing on its standard input.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

import psutil

from servegate.errors import EngineError, ServegateError
from servegate.subprocesses import keeper

TAG = "SERVEGATE_ARM"
"""Every process that servegate starts carries this variable; its value names the start."""
_SLACK_S = 5.0


class Supervised:
    """A child that runs under a keeper. `pid` is the command's own; it leads its session and process group."""

    def __init__(self, command: tuple[str, ...], status: int) -> None:
        """Watch the keeper's status pipe; `started` waits for its first line."""
        self.command, self.pid = command, 0
        self.error_number: int | None = None
        self.left: tuple[int, ...] = ()
        self._status, self._unread = status, b""
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the command's exit code (negative: the signal that ended it), or None while it runs."""
        return self.wait(0.0)

    def wait(self, timeout_s: float) -> int | None:
        """Wait at most so long for the command to end; return as `poll` does."""
        deadline = time.monotonic() + timeout_s
        while self._code is None and self._read(max(0.0, deadline - time.monotonic())):
            pass
        return self._code

    def started(self, timeout_s: float) -> bool:
        """Wait for the command to be executed; False when it could not be (see `error_number`) or the time is up."""
        deadline = time.monotonic() + timeout_s
        while not self.pid and self._code is None and self._read(max(0.0, deadline - time.monotonic())):
            pass
        return self.pid != 0

    def _read(self, timeout_s: float) -> bool:
        """Take in what the keeper says; False when it said nothing in time."""
        ready, _, _ = select.select([self._status], [], [], timeout_s)
        if not ready:
            return False
        received = os.read(self._status, 65536)
        if not received:  # the keeper is gone: after its work, or because something killed it
            self._code = -signal.SIGKILL if self._code is None else self._code
            return False
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            word, *values = line.decode().split()
            if word == "started":
                self.pid = int(values[0])
            elif word == "failed":
                self.error_number, self._code = int(values[0]), 127
            elif word == "exited":
                self._code = int(values[0])
            elif word == "left":
                self.left = tuple(map(int, values))
        return True


@contextlib.contextmanager
def supervise(  # noqa: PLR0913 - a process's whole surroundings
    command: Sequence[str],
    *,
    tag: str,
    stdout: IO[bytes],
    stderr: IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    grace_s: float = 10.0,
    echo: Callable[[str], None] | None = None,
    error: type[ServegateError] = EngineError,
) -> Iterator[Supervised]:
    """Run a command while the context is open.

    `stdout` (and `stderr`, by default the same file) receive its output. On leaving, SIGTERM goes to its process group,
    after `grace_s` seconds SIGKILL, then SIGKILL to every descendant and to whatever else carries the tag. `echo` gets
    the command as a line that can be pasted into a shell.

    Raises:
        ServegateError: of the class `error`: the command could not be executed, or (on leaving) something of it survives.
    """
    words = tuple(command)
    if echo is not None:
        echo(shlex.join(words))
    surroundings = {**(os.environ if environment is None else environment), TAG: tag}
    status_read, status_write = os.pipe()
    control_read, control_write = os.pipe()
    child = Supervised(words, status_read)
    process: subprocess.Popen[bytes] | None = None
    try:
        try:
            process = subprocess.Popen(
                (sys.executable, "-I", "-S", keeper.__file__, str(status_write), str(grace_s), *words),
                stdin=control_read,
                stdout=stdout,
                stderr=stdout if stderr is None else stderr,
                pass_fds=(status_write,),
                env=surroundings,
                cwd=directory,
                start_new_session=True,
            )
        except (OSError, ValueError) as problem:
            raise error(f"{words[0]!r} could not be started: {problem}", advice=f"Try: {shlex.join(words)}") from None
        finally:
            os.close(control_read)
            os.close(status_write)
        if not child.started(30.0):
            number = child.error_number
            reason = os.strerror(number) if number is not None else "its keeper did not answer"
            raise error(f"{words[0]!r} could not be executed: {reason}", advice=f"Try: {shlex.join(words)}")
        yield child
    finally:
        # Closing this pipe is what stops everything, and it cannot fail half-way: if a second signal interrupts the
        # waiting below, the keeper goes on alone.
        os.close(control_write)
        try:
            proven = process is None or _ended(process, child, grace_s)
            survivors = _swept(tag, child, proven)
        finally:
            os.close(status_read)
        if survivors:
            raise error(
                f"processes of {words[0]!r} could not be stopped: {', '.join(map(str, survivors))}",
                why="They may wait in the kernel for a device or a file system, and may hold the card's memory.",
                advice="Look at them with `ps`, and restart the machine if they stay.",
            )


def carriers(tag: str) -> tuple[int, ...]:
    """Return the pids of living processes whose environment carries the tag."""
    return tuple(sorted(process.pid for process in psutil.process_iter() if _carries(process, tag)))


def _carries(process: psutil.Process, tag: str) -> bool:
    try:
        return process.environ().get(TAG) == tag and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False


def _ended(process: subprocess.Popen[bytes], child: Supervised, grace_s: float) -> bool:
    """Wait for the keeper's end and return whether it proved that nothing is left.

    It has its own deadlines, so one that takes longer than all of them is stuck.
    """
    try:
        process.wait(grace_s + keeper.KILL_WAIT_S + _SLACK_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_SLACK_S)
    while child._read(0.0):  # its last words
        pass
    return process.returncode == 0


def _swept(tag: str, child: Supervised, proven: bool) -> tuple[int, ...]:
    """Kill what the keeper could not, or all of it if the keeper itself was killed; return what survives.

    Pids and sessions are looked at only without the keeper's proof: with it, a number may belong to a stranger by now.
    """
    deadline = time.monotonic() + _SLACK_S
    while True:
        found = set(carriers(tag))
        if not proven:
            found |= {pid for pid in child.left if psutil.pid_exists(pid)} | _session(child.pid)
        found.discard(os.getpid())
        if not found or time.monotonic() > deadline:
            return tuple(sorted(found))
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _session(leader: int) -> set[int]:
    """Return the living processes of the session that the command led."""
    found = set()
    for process in psutil.process_iter() if leader else ():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.add(process.pid)
    return found
