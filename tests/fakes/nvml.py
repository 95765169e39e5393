"""A driver without cards of its own: what it answers is set by the test, and may change while the test runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from servegate.nvml import Device, GpuProcess, Reading, Xid, lost

GIB = 1 << 30


def device(index: int = 0, name: str = "NVIDIA H200", *, mig: bool = False) -> Device:
    return Device(index=index, name=name, uuid=f"GPU-{index:08x}", compute_capability="9.0", memory_bytes=141 * GIB, mig=mig)


@dataclass
class FakeNvml:
    """`used` is by UUID: one number, or a list that is used up one a call (the last one stays)."""

    cards: tuple[Device, ...] = (device(),)
    used: dict[str, list[int | None]] = field(default_factory=dict)
    running: dict[str, tuple[GpuProcess, ...]] = field(default_factory=dict)
    xids: list[Xid] = field(default_factory=list)
    is_lost: bool = False
    watched: tuple[str, ...] = ()

    def _answer(self) -> None:
        if self.is_lost:
            raise lost("nvmlDeviceGetMemoryInfo: GPU is lost")

    def versions(self) -> tuple[str, str]:
        self._answer()
        return "580.65.06", "13.0"

    def devices(self) -> tuple[Device, ...]:
        self._answer()
        return self.cards

    def used_bytes(self, uuid: str) -> int | None:
        self._answer()
        values = self.used.get(uuid, [0])
        return values.pop(0) if len(values) > 1 else values[0]

    def processes(self, uuid: str) -> tuple[GpuProcess, ...]:
        self._answer()
        return self.running.get(uuid, ())

    def reading(self, uuid: str) -> Reading:
        self._answer()
        return Reading(self.used_bytes(uuid), 1980, 3201, 0, 40, 120.0, 1000.0, 0)

    @contextmanager
    def watching(self, uuids: Sequence[str]) -> Iterator[Callable[[], tuple[Xid, ...]]]:
        self._answer()
        self.watched = tuple(uuids)

        def seen() -> tuple[Xid, ...]:
            found, self.xids = tuple(self.xids), []
            return found

        yield seen
