"""The machine during a window: cut to the window, whose processes are whose, and what is not known stays unknown."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping

import pytest

from servegate.nvml import Absent, GpuProcess
from servegate.probes import telemetry
from servegate.probes.telemetry import Sampler, Watch
from tests.fakes.nvml import FakeNvml, device

CARD = device().uuid


def watched(nvml: FakeNvml | Absent, seconds: float = 0.7) -> tuple[Sampler, float, float]:
    """Sample for a while; returns the sampler and a window inside."""
    cards = () if isinstance(nvml, Absent) else tuple(card.uuid for card in nvml.devices())
    with Sampler(Watch(nvml, cards)) as sampler:
        time.sleep(0.1)
        started = time.monotonic()
        time.sleep(seconds)
        ended = time.monotonic()
        time.sleep(0.3)
    return sampler, started, ended


class Meter(FakeNvml):
    """A card that draws 200 W."""

    def reading(self, uuid: str) -> telemetry.Reading:
        self._answer()
        return telemetry.Reading(0, 1500, 3201, 0x020, 71, 200.0, 200 * time.monotonic(), 0)


def test_clocks_throttling_and_energy_are_those_of_the_window() -> None:
    sampler, started, ended = watched(Meter(running={CARD: (GpuProcess(os.getpid(), 1),)}))
    found, reason = sampler.between(started, ended)
    assert reason is None
    assert found is not None
    (card,) = found.cards
    assert (card.sm_clock_mhz, card.temperature_c, card.throttled) == (1500.0, 71.0, {"SW thermal slowdown": 1.0})
    assert card.energy_j == pytest.approx(200 * (ended - started), rel=0.02)
    assert found.energy_j == card.energy_j
    assert found.foreign_processes == ()


def test_a_foreign_process_is_named_and_our_own_are_not() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(30)"])
    try:
        nvml = FakeNvml(running={CARD: (GpuProcess(child.pid, 1), GpuProcess(os.getppid(), 8 << 30))})
        sampler, started, ended = watched(nvml)
    finally:
        child.kill()
        child.wait()
    found, _ = sampler.between(started, ended)
    assert found is not None
    assert found.foreign_processes is not None
    (named,) = found.foreign_processes
    assert named.startswith(f"{os.getppid()} ")


@pytest.mark.parametrize(
    ("running", "reason"),
    [({}, "the driver lists no process"), ({CARD: (GpuProcess(2**22 + 5, 1),)}, "pids of another namespace")],
)
def test_whose_processes_are_unknown_is_said(running: Mapping[str, tuple[GpuProcess, ...]], reason: str) -> None:
    sampler, started, ended = watched(FakeNvml(running=dict(running)), seconds=0.3)
    found, _ = sampler.between(started, ended)
    assert found is not None
    assert found.foreign_processes is None
    assert reason in (found.foreign_processes_reason or "")


def test_another_users_process_that_comes_is_seen_even_with_foreign_pids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "LOOK_AT_PROCESSES", 1)

    class Coming(FakeNvml):
        calls = 0

        def processes(self, uuid: str) -> tuple[GpuProcess, ...]:
            self.calls += 1
            return tuple(GpuProcess(pid, 1) for pid in (2**22 + 5, 2**22 + 6)[: 1 + (self.calls > 2)])

    sampler, started, ended = watched(Coming())
    found, _ = sampler.between(started, ended)
    assert found is not None
    assert found.foreign_processes == (f"{2**22 + 6} (came or went)",)


def test_a_window_outside_the_samples_and_a_lost_card_are_not_guessed() -> None:
    sampler, started, ended = watched(FakeNvml(), seconds=0.3)
    assert sampler.between(started, ended + 60) == (None, "not observed: the window's times lie outside the samples")
    assert sampler.between(started - 60, ended)[0] is None
    nvml = FakeNvml()
    nvml.is_lost = True
    with Sampler(Watch(nvml, (CARD,))) as lost:
        time.sleep(0.2)
    found, reason = lost.between(started, ended)
    assert found is None
    assert "GPU is lost" in (reason or "")


def test_a_competing_process_on_the_cpu_is_seen_and_our_own_work_is_not() -> None:
    """Real processes: a child of ours that computes is ours; one that was handed to init is not."""
    busy = "import time; end = time.monotonic() + {}\nwhile time.monotonic() < end: pass"
    child = subprocess.Popen([sys.executable, "-c", busy.format(4)])
    try:
        sampler, started, ended = watched(Absent("no driver"), seconds=1.5)
        own, _ = sampler.between(started, ended)
    finally:
        child.kill()
        child.wait()
    orphan = f"import os, time; os.fork() and os._exit(0); os.setsid()\n{busy.format(4)}"
    subprocess.run([sys.executable, "-c", orphan], check=True, timeout=10)
    sampler, started, ended = watched(Absent("no driver"), seconds=1.5)
    foreign, _ = sampler.between(started, ended)
    assert own is not None
    assert foreign is not None
    assert own.foreign_cpu_cores is not None
    assert foreign.foreign_cpu_cores is not None
    assert own.cards_reason == "no driver"
    assert foreign.foreign_cpu_cores > 0.3


def sampled(*readings: tuple[float, float | None], reasons: int | None = 0) -> Sampler:
    """A sampler that has seen (moment, energy counter in J) of one card."""
    sampler = Sampler(Watch(FakeNvml(), (CARD,)))
    sampler._samples = [
        telemetry._Sample(
            at_s, {CARD: telemetry.Reading(0, 1500, 3201, reasons, 50, 200.0, joules, 0)}, {}, frozenset(), at_s, 0.0
        )
        for at_s, joules in readings
    ]
    return sampler


@pytest.mark.parametrize(
    ("joules", "energy"),
    [
        ([0.0, 200.0, 400.0, 600.0], 400.0),
        ([900.0, 1100.0, 10.0, 210.0], None),
        ([0.0, 200.0, 5.0, 405.0], None),
        ([7.0, 7.0, 7.0, 7.0], None),
        ([0.0, 400.0, 800.0, 1200.0], None),
        ([0.0, None, 400.0, 600.0], None),
    ],
    ids=["in order", "reset", "reset and gained more", "stands still", "counts two cards", "silent once"],
)
def test_energy_is_a_counter_that_only_grows_and_agrees_with_the_power(
    joules: list[float | None], energy: float | None
) -> None:
    found, _ = sampled(*enumerate(joules)).between(0.5, 2.5)
    assert found is not None
    assert found.energy_j == energy


def test_a_window_in_which_nothing_was_sampled_was_not_observed() -> None:
    """Samples at its two ends say nothing of a neighbour between them."""
    found, reason = sampled((0.0, 0.0), (1.0, 200.0), (99.0, 19800.0), (100.0, 20000.0)).between(0.5, 99.5)
    assert found is None
    assert reason == "not observed: nothing was sampled for 98.0 s of the window"


@pytest.mark.parametrize(("reasons", "why"), [(0, None), (None, "the card cannot say")])
def test_a_card_that_does_not_tell_why_it_is_slow_is_not_one_that_is_cool(reasons: int | None, why: str | None) -> None:
    found, _ = sampled((0.0, 0.0), (1.0, 200.0), (2.0, 400.0), reasons=reasons).between(0.5, 1.5)
    assert found is not None
    assert [card.throttled_reason for card in found.cards] == [why]
