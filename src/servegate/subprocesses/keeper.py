"""The keeper: a tiny process between servegate and a child, whose only job is that nothing of the child outlives it.

It is run by path with the standard library alone: `python keeper.py STATUS_FD GRACE_S COMMAND...`. Why a process and
not a signal handler:

- It is a *child subreaper* (prctl(2), PR_SET_CHILD_SUBREAPER): whatever the command starts, in however many sessions and
  process groups, under whatever name, stays the keeper's descendant, so `waitpid` saying "no children" is proof that
  nothing is left. An environment tag alone is none: vLLM renames its workers with setproctitle, which overwrites the
  memory that /proc/<pid>/environ shows.
- Its standard input is a pipe that only servegate writes to. End of file means "stop", and comes from the kernel when
  servegate is killed with SIGKILL, crashes, or is interrupted twice while it cleans up.
- PR_SET_PDEATHSIG would reach the direct child only, and fires when the *thread* that started it ends.

It reports on STATUS_FD, one line each: `started PID`, `failed ERRNO`, `exited CODE` (negative: the signal), `left PIDS`.
On systems without subreapers (macOS) the process groups are killed all the same, without the proof.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
KILL_WAIT_S = 10.0
"""How long processes may take to disappear after SIGKILL; one in an uninterruptible wait can take longer."""


def main(arguments: list[str]) -> int:
    """Run the command, stop everything of it when standard input ends or the command does."""
    status, grace_s, command = int(arguments[0]), float(arguments[1]), arguments[2:]
    os.set_inheritable(status, False)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    wake_read, wake_write = os.pipe()
    for descriptor in (wake_read, wake_write):
        os.set_blocking(descriptor, False)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    asked_to_stop: list[int] = []
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.signal(signal.SIGTERM, lambda number, _frame: asked_to_stop.append(number))

    child = _start(command, status)
    if child is None:
        return 1
    _say(status, f"started {child}")
    exited = False
    while not exited and not asked_to_stop:
        ready, _, _ = select.select([0, wake_read], [], [])
        if wake_read in ready:
            os.read(wake_read, 4096)
            exited = _reap(child, status)
        if 0 in ready and os.read(0, 1) == b"":
            break
    return _end(child, status, grace_s, exited)


def _start(command: list[str], status: int) -> int | None:
    """Start the command in its own session; report why it could not be started."""
    error_read, error_write = os.pipe()  # closed by exec: end of file means that the command runs
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            signal.set_wakeup_fd(-1)
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, 0)
            os.execvp(command[0], command)  # noqa: S606
        except OSError as error:
            os.write(error_write, str(error.errno).encode())
        finally:
            os._exit(127)
    os.close(error_write)
    failure = os.read(error_read, 16)
    os.close(error_read)
    if failure:
        os.waitpid(child, 0)
        _say(status, f"failed {failure.decode()}")
        return None
    return child


def _reap(child: int, status: int) -> bool:
    """Collect every process that ended; return whether the command itself did, and report its code."""
    ended = False
    while True:
        try:
            pid, code = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        if pid == child:
            ended = True
            _say(status, f"exited {os.waitstatus_to_exitcode(code)}")


def _end(child: int, status: int, grace_s: float, exited: bool) -> int:
    """SIGTERM to the group, time to leave, SIGKILL to the group, then to every descendant until there is none."""
    _signal_group(child, signal.SIGTERM)
    deadline = time.monotonic() + (grace_s if not exited else min(grace_s, 1.0))
    while time.monotonic() < deadline and (_group_exists(child) or not exited):
        exited = _reap(child, status) or exited
        time.sleep(0.01)
    _signal_group(child, signal.SIGKILL)
    deadline = time.monotonic() + KILL_WAIT_S
    while True:
        exited = _reap(child, status) or exited
        left = _descendants(os.getpid())
        if not left and not _has_children():
            return 0
        if time.monotonic() > deadline:
            _say(status, f"left {' '.join(map(str, sorted(left)))}")
            return 1
        for pid in left:
            _signal(pid, signal.SIGKILL)
        time.sleep(0.005)


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _group_exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _has_children() -> bool:
    """A child that has ended but is not reaped counts: only "no children at all" is proof."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _descendants(root: int) -> set[int]:
    """Return the pids below a process, from /proc; ended ones that wait to be reaped are left out."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            # pid (comm) state ppid ...; comm may hold anything, so read from its last parenthesis
            state, parent = entry.read_bytes().rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        if state != b"Z":
            parents[int(entry.parent.name)] = int(parent)
    found: set[int] = set()
    grown = True
    while grown:
        new = {pid for pid, parent in parents.items() if (parent == root or parent in found) and pid not in found}
        grown = bool(new)
        found |= new
    return found


def _say(status: int, line: str) -> None:
    with contextlib.suppress(OSError):  # servegate may be gone; what is left to do is to stop
        os.write(status, line.encode() + b"\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
