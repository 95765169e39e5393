"""NVML, the driver's own library, behind one small port: the cards of this machine, who uses them, how they are.

Readers are the manifest, the card's lock and guard (`engines.cards`) and the telemetry of load tests. Nothing here decides
anything. Three answers are kept apart, because each means something else to a verdict:

- there is no NVIDIA driver: `opened()` gives `Absent` with the reason, and a machine without a card is served without;
- this card cannot say (`None` in a `Reading`): many cards lack a sensor, and a missing number is unknown, never zero;
- a card or driver that did answer stops doing so: `RunnerError`. That is a fault of the machine, never of a candidate.

NVML counts bytes, MHz, mW and mJ; names here carry the unit. Reference: https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from servegate.errors import RunnerError

THROTTLE_REASONS = {
    0x002: "applications clocks",
    0x004: "SW power cap",
    0x008: "HW slowdown",
    0x010: "sync boost",
    0x020: "SW thermal slowdown",
    0x040: "HW thermal slowdown",
    0x080: "HW power brake",
    0x100: "display clocks",
}
"""Bits of `Reading.throttle_reasons` (nvml.h, "nvmlClocksEventReasons"); 1 is an idle card, which is no throttling."""
_ABSENT = frozenset({9, 12})
"""NVML_ERROR_DRIVER_NOT_LOADED and NVML_ERROR_LIBRARY_NOT_FOUND: there is no driver, which breaks nothing."""
_CANNOT_SAY = frozenset({2, 3, 4, 6})
"""NVML_ERROR_INVALID_ARGUMENT, _NOT_SUPPORTED, _NO_PERMISSION, _NOT_FOUND: this card, driver or user lacks one number."""
_TIMEOUT = 10


@dataclass(frozen=True)
class Device:
    """One card as the driver names it."""

    index: int
    name: str
    uuid: str
    compute_capability: str
    memory_bytes: int
    mig: bool


@dataclass(frozen=True)
class GpuProcess:
    """A process that computes on a card. Inside a container the driver may give pids of the host, or none at all."""

    pid: int
    used_bytes: int | None


@dataclass(frozen=True)
class Reading:
    """A card at one moment; None where it cannot say. `total_energy_j` counts since the driver was loaded."""

    used_bytes: int | None
    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    throttle_reasons: int | None
    temperature_c: int | None
    power_w: float | None
    total_energy_j: float | None
    utilization_percent: int | None


@dataclass(frozen=True)
class Xid:
    """An error that the driver reported for a card; the numbers are in NVIDIA's "XID Errors" guide."""

    uuid: str
    number: int


@dataclass(frozen=True)
class Absent:
    """No NVML on this machine, and why."""

    reason: str


class Nvml(Protocol):
    """What is asked of the driver. Every method raises RunnerError when a card that was there no longer answers."""

    def versions(self) -> tuple[str, str]:
        """Return the driver's version and the CUDA version it speaks, such as `("580.65.06", "13.0")`."""

    def devices(self) -> tuple[Device, ...]:
        """Return the cards in the order of the bus, which is NVML's own order and not always CUDA's."""

    def used_bytes(self, uuid: str) -> int | None:
        """Return the memory in use, without what the driver reserves for itself; None where the card cannot say."""

    def processes(self, uuid: str) -> tuple[GpuProcess, ...]:
        """Return the processes that compute on a card; a display server is none of them."""

    def reading(self, uuid: str) -> Reading:
        """Return clocks, throttling, temperature, power and energy of a card now."""

    def watching(self, uuids: Sequence[str]) -> contextlib.AbstractContextManager[Callable[[], tuple[Xid, ...]]]:
        """Listen for Xid errors while the context is open; calling what it yields returns those since the last call."""


def opened() -> Nvml | Absent:
    """Return the driver's library, or why there is none. It stays open until the process ends.

    Raises:
        RunnerError: a driver is there and fails ("Failed to initialize NVML: Unknown Error" in a container that lost its
            card, see https://github.com/NVIDIA/nvidia-container-toolkit/issues/48).
    """
    try:
        import pynvml
    except ImportError as error:
        return Absent(f"NVML bindings are not importable: {error}")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        if error.value in _ABSENT:
            return Absent(f"no NVIDIA driver answers: {error}")
        raise lost(f"NVML could not be opened: {error}") from None
    return DriverNvml(pynvml)


def lost(what: str) -> RunnerError:
    """Return the error of a card or driver that stopped answering."""
    return RunnerError(
        f"the GPU of this runner failed: {what}",
        why="The card or its driver stopped answering. That is a fault of the runner and says nothing about the candidate.",
        advice="Look for Xid lines in `dmesg` of the host, start a new container (or reset the card), and run again.",
    )


class DriverNvml:
    """The real thing, through `pynvml`."""

    def __init__(self, library: Any) -> None:
        """Keep the initialised module."""
        self._nvml = library

    def versions(self) -> tuple[str, str]:
        """Return the versions of driver and CUDA."""
        number = self._must("nvmlSystemGetCudaDriverVersion")
        return _text(self._must("nvmlSystemGetDriverVersion")), f"{number // 1000}.{number % 1000 // 10}"

    def devices(self) -> tuple[Device, ...]:
        """Return the cards."""
        return tuple(self._device(index) for index in range(self._must("nvmlDeviceGetCount")))

    def used_bytes(self, uuid: str) -> int | None:
        """Return the memory in use."""
        return self._used(self._handle(uuid))

    def processes(self, uuid: str) -> tuple[GpuProcess, ...]:
        """Return the processes that compute; a process appears once, with the most memory it was listed with."""
        found: dict[int, int | None] = {}
        for each in self._may("nvmlDeviceGetComputeRunningProcesses", self._handle(uuid)) or ():
            found[each.pid] = max(found.get(each.pid) or 0, each.usedGpuMemory or 0) or None
        return tuple(GpuProcess(pid=pid, used_bytes=used) for pid, used in sorted(found.items()))

    def reading(self, uuid: str) -> Reading:
        """Return a card's state now."""
        handle, nvml = self._handle(uuid), self._nvml
        milliwatts = self._may("nvmlDeviceGetPowerUsage", handle)
        millijoules = self._may("nvmlDeviceGetTotalEnergyConsumption", handle)
        use = self._may("nvmlDeviceGetUtilizationRates", handle)
        return Reading(
            used_bytes=self._used(handle),
            sm_clock_mhz=self._may("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM),
            memory_clock_mhz=self._may("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_MEM),
            throttle_reasons=self._may("nvmlDeviceGetCurrentClocksThrottleReasons", handle),
            temperature_c=self._may("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU),
            power_w=None if milliwatts is None else milliwatts / 1000,
            total_energy_j=None if millijoules is None else millijoules / 1000,
            utilization_percent=None if use is None else use.gpu,
        )

    @contextlib.contextmanager
    def watching(self, uuids: Sequence[str]) -> Iterator[Callable[[], tuple[Xid, ...]]]:
        """Listen for Xid errors. A card that cannot report them (a part of one, a virtual one) is listened to in vain."""
        nvml = self._nvml
        events = self._must("nvmlEventSetCreate")
        names: dict[str, str] = {}
        for uuid in uuids:
            handle = self._handle(uuid)
            names[self._bus(handle)] = uuid
            self._may("nvmlDeviceRegisterEvents", handle, nvml.nvmlEventTypeXidCriticalError, events)

        def seen() -> tuple[Xid, ...]:
            found: list[Xid] = []
            while (event := self._may("nvmlEventSetWait_v2", events, 0)) is not None:
                found.append(Xid(uuid=names.get(self._bus(event.device), "unknown"), number=int(event.eventData)))
            return tuple(found)

        try:
            yield seen
        finally:
            with contextlib.suppress(nvml.NVMLError):
                nvml.nvmlEventSetFree(events)

    def _device(self, index: int) -> Device:
        handle = self._must("nvmlDeviceGetHandleByIndex", index)
        major, minor = self._must("nvmlDeviceGetCudaComputeCapability", handle)
        mode = self._may("nvmlDeviceGetMigMode", handle)
        return Device(
            index=index,
            name=_text(self._must("nvmlDeviceGetName", handle)),
            uuid=_text(self._must("nvmlDeviceGetUUID", handle)),
            compute_capability=f"{major}.{minor}",
            memory_bytes=int(self._must("nvmlDeviceGetMemoryInfo", handle).total),
            mig=bool(mode and mode[0]),
        )

    def _handle(self, uuid: str) -> Any:
        return self._must("nvmlDeviceGetHandleByUUID", uuid)

    def _bus(self, handle: Any) -> str:
        return _text(self._must("nvmlDeviceGetPciInfo", handle).busId)

    def _used(self, handle: Any) -> int | None:
        # The first version of this call counts what the driver keeps for itself as used; the second does not.
        version = getattr(self._nvml, "nvmlMemory_v2", None)
        memory = self._may("nvmlDeviceGetMemoryInfo", handle, version) if version else None
        memory = memory or self._may("nvmlDeviceGetMemoryInfo", handle)
        return None if memory is None else int(memory.used)

    def _must(self, name: str, *arguments: Any) -> Any:
        """Ask for what every card knows."""
        try:
            return getattr(self._nvml, name)(*arguments)
        except self._nvml.NVMLError as error:
            raise lost(f"{name}: {error}") from None

    def _may(self, name: str, *arguments: Any) -> Any:
        """Ask for what a card may not know; None when it does not, or when nothing happened in time."""
        try:
            return getattr(self._nvml, name)(*arguments)
        except self._nvml.NVMLError as error:
            if error.value in _CANNOT_SAY or error.value == _TIMEOUT:
                return None
            raise lost(f"{name}: {error}") from None


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
