"""Whose a process is, and what it and the machine spent of the CPU."""

from __future__ import annotations

import psutil


def descendants() -> frozenset[int]:
    """Return the pids of this process and of everything that it started."""
    me = psutil.Process()
    return frozenset({me.pid, *(child.pid for child in me.children(recursive=True))})


def cpu_s(pid: int) -> float | None:
    """Return the CPU seconds that a process spent; None where it has gone or may not be asked."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return None
    return float(times.user + times.system)


def busy_s() -> float:
    """Return the CPU seconds that this machine spent, all cores together, since it was started."""
    times = psutil.cpu_times()
    # guest time is part of user time already
    return float(times.user + times.system + sum(getattr(times, name, 0.0) for name in ("nice", "irq", "softirq", "steal")))


def named(pid: int) -> str:
    """Return a pid with the name of its process, where it can be seen."""
    try:
        return f"{pid} {psutil.Process(pid).name()[:40]}"
    except psutil.Error:
        return str(pid)
