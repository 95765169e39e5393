"""Looks at the machine while it is loaded: cards, who else computes on them, and who else keeps the CPU busy.

A thread takes a sample four times a second and stamps it with the monotonic clock, which every process of a Linux machine
shares; `vllm bench serve` stamps its requests with the same clock, so what happened can be told window by window. A window
that lies outside the samples is not known, never guessed.

Whose a process is: everything that servegate started is its descendant (the keeper sees to that). In a container the
driver may give pids of the host. Then none of them is one of ours although our engine computes, and all that can be told
is whether a process came or went while we measured.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from types import TracebackType
from typing import Self

import psutil

from servegate.domain.load import CardLoad, Telemetry
from servegate.errors import RunnerError
from servegate.nvml import THROTTLE_REASONS, Absent, Nvml, Reading
from servegate.probes.processes import busy_s, cpu_s, descendants, named

PERIOD_S = 0.25
LOOK_AT_PROCESSES = 4
"""Every how many samples processes are looked at, which costs more than a reading."""
FEWEST_SAMPLES = 2
LONGEST_GAP_S = 5.0
"""Between two samples; a driver that answers more slowly than this leaves a window unseen."""
ENERGY_AGREEMENT = 0.25
"""Share by which a card's counter of energy may differ from its power over the time (on an H200 they agree to 0.02)."""


@dataclass(frozen=True)
class Watch:
    """What is looked at: the driver or why there is none, and the cards that the engine may use (their uuids)."""

    nvml: Nvml | Absent
    cards: tuple[str, ...]


@dataclass(frozen=True)
class _Sample:
    at_s: float
    readings: Mapping[str, Reading]
    processes: Mapping[str, frozenset[int]] | None
    """Pids by card, as they were last looked at; None where nobody can say."""
    ours: frozenset[int]
    busy_s: float
    """CPU seconds that this machine spent, all cores together, since it was started."""
    own_s: float
    """The part of them that our own processes spent."""


class Sampler:
    """A context in which samples are taken; `between` says what they hold of a window."""

    def __init__(self, watch: Watch | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Keep what is to be looked at; nothing runs yet."""
        self._watch, self._clock = watch, clock
        self._samples: list[_Sample] = []
        self._lost: str | None = None
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Start to look."""
        if self._watch is not None:
            self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        """Stop looking; waits for a sample that is being taken, at most five seconds."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def between(self, started_s: float, ended_s: float) -> tuple[Telemetry | None, str | None]:
        """Return what was seen from one moment to another (monotonic seconds), or None and why that is not known."""
        if self._watch is None:
            return None, "not observed: nobody looked at the machine"
        samples = list(self._samples)
        if len(samples) < FEWEST_SAMPLES or not samples[0].at_s <= started_s < ended_s <= samples[-1].at_s:
            return None, self._lost or "not observed: the window's times lie outside the samples"
        inside = [sample for sample in samples if started_s <= sample.at_s <= ended_s]
        # The neighbours bound the window, so that its start and end are known by interpolation.
        first = max(index for index, sample in enumerate(samples) if sample.at_s <= started_s)
        last = min(index for index, sample in enumerate(samples) if sample.at_s >= ended_s)
        around = samples[first : last + 1]
        gap_s = max(later.at_s - sooner.at_s for sooner, later in pairwise(around))
        if gap_s > LONGEST_GAP_S:
            return None, f"not observed: nothing was sampled for {gap_s:.1f} s of the window"
        if not inside:
            inside = around
        used = self._used_cards(around)
        foreign, reason = _foreign(around, used)
        cores = psutil.cpu_count() or 1
        worked_s = _at(around, ended_s, lambda sample: sample.busy_s) - _at(around, started_s, lambda sample: sample.busy_s)
        others_s = _at(around, ended_s, _others) - _at(around, started_s, _others)
        known = worked_s > 0  # some sandboxes show a machine that never does anything
        return Telemetry(
            cards=tuple(_card(uuid, inside, around, (started_s, ended_s)) for uuid in used),
            cards_reason=self._lost or (self._watch.nvml.reason if isinstance(self._watch.nvml, Absent) else None),
            foreign_processes=foreign,
            foreign_processes_reason=reason,
            foreign_cpu_cores=min(max(0.0, others_s) / (ended_s - started_s), float(cores)) if known else None,
            foreign_cpu_cores_reason=None if known else "this machine does not tell how busy its CPU is",
            cpu_cores=cores,
        ), None

    def _used_cards(self, samples: Sequence[_Sample]) -> tuple[str, ...]:
        """Return the cards that a process of ours computes on; where that is not known, all that the engine may use."""
        assert self._watch is not None
        ours = {uuid for sample in samples for uuid, pids in (sample.processes or {}).items() if pids & sample.ours}
        return tuple(uuid for uuid in self._watch.cards if uuid in ours) or self._watch.cards

    def _run(self) -> None:
        assert self._watch is not None
        looker = _Looker(self._watch, self._clock)
        while True:
            started = self._clock()
            try:
                self._samples.append(looker.sample())
            except RunnerError as error:
                self._lost = f"not observed: {error.what}"
                return
            if self._stop.is_set():
                return
            self._stop.wait(max(0.0, PERIOD_S - (self._clock() - started)))


class _Looker:
    """Takes one sample after the other; what is dear is looked at every fourth time and stands until then."""

    def __init__(self, watch: Watch, clock: Callable[[], float]) -> None:
        self._watch, self._clock = watch, clock
        self._count = 0
        self._processes: Mapping[str, frozenset[int]] | None = None
        self._ours: frozenset[int] = frozenset()
        self._own_s: dict[int, float] = {}

    def sample(self) -> _Sample:
        at_s, nvml, cards = self._clock(), self._watch.nvml, self._watch.cards
        readings = {} if isinstance(nvml, Absent) else {uuid: nvml.reading(uuid) for uuid in cards}
        if self._count % LOOK_AT_PROCESSES == 0:
            self._ours = descendants()
            if not isinstance(nvml, Absent):
                self._processes = {uuid: frozenset(each.pid for each in nvml.processes(uuid)) for uuid in cards}
        self._count += 1
        for pid in self._ours:
            # A process that ended keeps what it had spent, else others would seem to have spent it.
            if (seconds := cpu_s(pid)) is not None:
                self._own_s[pid] = seconds
        return _Sample(at_s, readings, self._processes, self._ours, busy_s(), sum(self._own_s.values()))


def _others(sample: _Sample) -> float:
    return sample.busy_s - sample.own_s


def _at(samples: Sequence[_Sample], at_s: float, value: Callable[[_Sample], float]) -> float:
    """Return a growing number at a moment, straight between the samples around it."""
    before = max((sample for sample in samples if sample.at_s <= at_s), key=lambda sample: sample.at_s, default=samples[0])
    after = min((sample for sample in samples if sample.at_s >= at_s), key=lambda sample: sample.at_s, default=samples[-1])
    if after.at_s <= before.at_s:
        return value(before)
    share = (at_s - before.at_s) / (after.at_s - before.at_s)
    return value(before) + share * (value(after) - value(before))


def _foreign(samples: Sequence[_Sample], cards: Sequence[str]) -> tuple[tuple[str, ...] | None, str | None]:
    """Return the processes on the cards that are not ours, or None and why that is not known."""
    looks = [sample for sample in samples if sample.processes is not None]
    if not looks or not cards:
        return None, "not observed: no card of the engine could be asked for its processes"
    seen = {(uuid, pid) for sample in looks for uuid in cards for pid in (sample.processes or {}).get(uuid, ())}
    ours = {pid for sample in looks for pid in sample.ours}
    if not seen:
        return None, "not observed: the driver lists no process, not even the engine's own"
    if not any(pid in ours for _uuid, pid in seen):
        always = [(uuid, pid) for uuid, pid in seen if all(pid in (sample.processes or {}).get(uuid, ()) for sample in looks)]
        passing = sorted(pid for uuid, pid in seen if (uuid, pid) not in always)
        if passing:
            return tuple(f"{pid} (came or went)" for pid in passing), None
        return None, "not observed: the driver names processes by pids of another namespace, so ours cannot be told apart"
    return tuple(sorted({named(pid) for _uuid, pid in seen if pid not in ours})), None


def _card(uuid: str, inside: Sequence[_Sample], around: Sequence[_Sample], span: tuple[float, float]) -> CardLoad:
    readings = [sample.readings[uuid] for sample in inside if uuid in sample.readings]

    def mean(name: str) -> float | None:
        values = [value for reading in readings if (value := getattr(reading, name)) is not None]
        return fmean(values) if values else None

    temperatures = [reading.temperature_c for reading in readings if reading.temperature_c is not None]
    reasons = Counter(
        name for reading in readings for bit, name in THROTTLE_REASONS.items() if (reading.throttle_reasons or 0) & bit
    )
    return CardLoad(
        uuid=uuid,
        samples=len(readings),
        sm_clock_mhz=mean("sm_clock_mhz"),
        memory_clock_mhz=mean("memory_clock_mhz"),
        temperature_c=float(max(temperatures)) if temperatures else None,
        power_w=mean("power_w"),
        energy_j=_energy_j(uuid, around, span, mean("power_w")),
        throttled={name: count / len(readings) for name, count in sorted(reasons.items())},
        throttled_reason=None if any(each.throttle_reasons is not None for each in readings) else "the card cannot say",
    )


def _energy_j(uuid: str, around: Sequence[_Sample], span: tuple[float, float], power_w: float | None) -> float | None:
    """Return joules of a card during a window; None where its counter does not say, stands still, or went back.

    A counter that does not agree with the card's own power counts something else, such as a second card on its board.
    """
    energies = [sample.readings[uuid].total_energy_j for sample in around if uuid in sample.readings]
    known = [each for each in energies if each is not None]
    if not known or len(known) < len(around) or any(later < sooner for sooner, later in pairwise(known)):
        return None

    def joules(sample: _Sample) -> float:
        return sample.readings[uuid].total_energy_j or 0.0

    gained = _at(around, span[1], joules) - _at(around, span[0], joules)
    drawn = None if power_w is None else power_w * (span[1] - span[0])
    if gained <= 0 or (drawn is not None and abs(gained - drawn) > ENERGY_AGREEMENT * max(gained, drawn)):
        return None
    return gained
