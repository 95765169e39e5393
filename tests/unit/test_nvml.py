"""The driver's answers: what is absent, what a card cannot say, and what is a fault of the machine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from servegate import nvml
from servegate.errors import ExitCode, RunnerError


class Library:
    """Stands for the module `pynvml`: a function for each name, an NVMLError of a number for each number."""

    NVMLError = pynvml.NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    nvmlEventTypeXidCriticalError = 8
    nvmlMemory_v2 = 0x2000028

    def __init__(self, **answers: Any) -> None:
        self.answers = {"nvmlDeviceGetHandleByUUID": lambda uuid: uuid, **answers}

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            answer = self.answers.get(name, 3)
            if isinstance(answer, int) and name not in ("nvmlDeviceGetCount", "nvmlSystemGetCudaDriverVersion"):
                raise pynvml.NVMLError(answer)
            return answer(*arguments) if callable(answer) else answer

        return call


def test_what_a_card_cannot_say_is_unknown_and_not_zero() -> None:
    reading = nvml.DriverNvml(Library()).reading("GPU-1")
    assert reading == nvml.Reading(None, None, None, None, None, None, None, None)


@pytest.mark.parametrize("number", [15, 999, 1])
def test_a_card_that_stops_answering_is_a_fault_of_the_runner(number: int) -> None:
    driver = nvml.DriverNvml(Library(nvmlDeviceGetPowerUsage=number))
    with pytest.raises(RunnerError, match="the GPU of this runner failed: nvmlDeviceGetPowerUsage") as caught:
        driver.reading("GPU-1")
    assert caught.value.exit_code is ExitCode.ERROR
    assert "says nothing about the candidate" in caught.value.why


def test_units_and_the_memory_that_the_driver_keeps_for_itself() -> None:
    def memory(_handle: str, version: int | None = None) -> Any:
        return SimpleNamespace(used=100 if version else 700, total=1000)

    library = Library(
        nvmlDeviceGetMemoryInfo=memory,
        nvmlDeviceGetPowerUsage=lambda _handle: 120_500,
        nvmlDeviceGetTotalEnergyConsumption=lambda _handle: 2_000,
        nvmlDeviceGetClockInfo=lambda _handle, kind: 1980 if kind == 1 else 3201,
        nvmlDeviceGetUtilizationRates=lambda _handle: SimpleNamespace(gpu=7),
    )
    reading = nvml.DriverNvml(library).reading("GPU-1")
    assert (reading.used_bytes, reading.power_w, reading.total_energy_j) == (100, 120.5, 2.0)
    assert (reading.sm_clock_mhz, reading.memory_clock_mhz, reading.utilization_percent) == (1980, 3201, 7)
    library.answers["nvmlDeviceGetMemoryInfo"] = lambda _handle, version=None: memory(_handle) if version is None else _no()
    assert nvml.DriverNvml(library).used_bytes("GPU-1") == 700, "an older driver counts everything"


def _no() -> None:
    raise pynvml.NVMLError(3)


def test_a_process_that_is_listed_twice_counts_once_and_one_without_a_number_is_unknown() -> None:
    listed = [SimpleNamespace(pid=7, usedGpuMemory=5), SimpleNamespace(pid=7, usedGpuMemory=9), SimpleNamespace(pid=3)]
    listed[2].usedGpuMemory = None
    driver = nvml.DriverNvml(Library(nvmlDeviceGetComputeRunningProcesses=lambda _handle: listed))
    assert driver.processes("GPU-1") == (nvml.GpuProcess(3, None), nvml.GpuProcess(7, 9))


def test_errors_that_the_driver_reports_are_told_with_their_card() -> None:
    events = [SimpleNamespace(device="GPU-2", eventData=79)]

    def wait(_events: str, timeout_ms: int) -> Any:
        assert timeout_ms == 0, "listening must not hold up a measurement"
        if not events:
            raise pynvml.NVMLError(10)
        return events.pop()

    library = Library(
        nvmlEventSetCreate=lambda: "set",
        nvmlDeviceGetPciInfo=lambda handle: SimpleNamespace(busId=f"bus of {handle}".encode()),
        nvmlDeviceRegisterEvents=lambda _handle, kind, _events: None,
        nvmlEventSetWait_v2=wait,
    )
    with nvml.DriverNvml(library).watching(("GPU-1", "GPU-2")) as seen:
        assert seen() == (nvml.Xid(uuid="GPU-2", number=79),)
        assert seen() == ()


@pytest.mark.parametrize(("number", "absent"), [(12, True), (9, True), (999, False), (15, False)])
def test_no_driver_breaks_nothing_and_a_broken_one_is_told(monkeypatch: pytest.MonkeyPatch, number: int, absent: bool) -> None:
    def init() -> None:
        raise pynvml.NVMLError(number)

    monkeypatch.setattr(pynvml, "nvmlInit", init)
    if absent:
        found = nvml.opened()
        assert isinstance(found, nvml.Absent)
        assert found.reason.startswith("no NVIDIA driver answers: ")
    else:
        with pytest.raises(RunnerError, match="NVML could not be opened"):
            nvml.opened()
