"""Keeps the cards of a run to itself: locked, free before each start, given back after it, and watched while serving.

A machine without a card, or without a driver, has none of this and says so in the manifest.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from servegate.domain.arms import Arm
from servegate.engines.card_lock import lock_directory, lock_path, try_lock
from servegate.engines.cards import Holder, Use, advice_for, cards_of, not_released, why_busy, xid_fault
from servegate.errors import RunnerError
from servegate.nvml import Absent, Device, Nvml, Xid, lost
from servegate.subprocesses import TAG

RELEASE_S = 60.0
"""Longest wait for a card's memory after an arm has ended; the driver frees it within a second or two of the last exit."""
LOOK_S = 1.0
Describe = Callable[[int], tuple[str | None, str | None]]
"""pid -> (name, SERVEGATE_ARM of its environment); None for what cannot be seen."""


class CardWatch:
    """Looks after the cards of an arm that is being served."""

    def __init__(self, seen: Callable[[], tuple[Xid, ...]], levels: Callable[[], object]) -> None:
        """`seen` gives new Xids, `levels` asks each card one question, so that a lost one is noticed."""
        self._seen, self._levels = seen, levels
        self.xids: list[Xid] = []

    def ensure_well(self) -> None:
        """Do nothing while the cards answer.

        Raises:
            RunnerError: a card is lost, or the driver reported an error that a program does not cause.
        """
        self.xids += self._seen()
        fault = xid_fault([xid.number for xid in self.xids])
        if fault is not None:
            raise lost(f"{fault} on {', '.join(dict.fromkeys(xid.uuid for xid in self.xids))}")
        self._levels()


@dataclass
class CardGuard:
    """The cards of one run. `nvml` is Absent on a machine without a driver; then every method does nothing."""

    nvml: Nvml | Absent
    inherited: Mapping[str, str]
    who: str
    wait_s: float
    say: Callable[[str], None] = lambda _line: None
    directory: Path = field(default_factory=lock_directory)
    describe: Describe = field(default_factory=lambda: _described)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    levels: dict[str, int | None] = field(default_factory=dict)
    """Memory in use before the first start, by UUID."""

    def cards(self, arms: Sequence[Arm]) -> tuple[Device, ...]:
        """Return the cards that these arms will use, each once."""
        if isinstance(self.nvml, Absent):
            return ()
        devices = self.nvml.devices()
        found = {card.uuid: card for arm in arms for card in cards_of(arm, self.inherited, devices)}
        return tuple(found[uuid] for uuid in sorted(found))  # one order for all gates, so that two never wait for each other

    @contextlib.contextmanager
    def claimed(self, arms: Sequence[Arm]) -> Iterator[None]:
        """Hold the cards of a run; waits at most `wait_s` for another gate or process to let go.

        Raises:
            RunnerError: a card is locked by another gate or used by another process, who is named.
        """
        deadline = self.clock() + self.wait_s
        with contextlib.ExitStack() as stack:
            cards = self.cards(arms)
            for card in cards:
                self._lock(stack, card, deadline)
            self._await_free(cards, deadline)
            self.levels = {card.uuid: self._use(card).used_bytes for card in cards}
            yield

    def before_start(self, arm: Arm) -> None:
        """Wait until the cards are as they were before the first start.

        Raises:
            RunnerError: memory was not given back in time, or somebody else has come to the card.
        """
        deadline = self.clock() + RELEASE_S
        cards = self.cards((arm,))
        while True:
            held = [text for card in cards if (text := not_released(self._use(card), self.levels.get(card.uuid)))]
            if not held:
                break
            if self.clock() >= deadline:
                raise RunnerError(
                    f"memory of the card was not given back within {RELEASE_S:.0f} s: {'; '.join(held)}",
                    why="A fault of the runner: the next arm would be measured with less memory, or not start at all.",
                    advice=advice_for([self._use(card) for card in cards]),
                )
            self.sleep(LOOK_S)
        self._await_free(cards, self.clock())

    @contextlib.contextmanager
    def watching(self, arm: Arm) -> Iterator[CardWatch]:
        """Watch the cards of an arm while it is served."""
        if isinstance(self.nvml, Absent) or not (cards := self.cards((arm,))):
            yield CardWatch(lambda: (), lambda: None)
            return
        nvml, uuids = self.nvml, [card.uuid for card in cards]
        with nvml.watching(uuids) as seen:
            yield CardWatch(seen, lambda: [nvml.used_bytes(uuid) for uuid in uuids])

    def said(self, arm: Arm) -> tuple[str | None, str | None]:
        """Return for the manifest: what is held for this arm, or why nothing is."""
        if isinstance(self.nvml, Absent):
            return None, f"no card was locked or watched: {self.nvml.reason}"
        cards = self.cards((arm,))
        if not cards:
            return None, "no card was locked or watched: the arm uses none"
        held = ", ".join(f"{card.uuid} ({_level(self.levels.get(card.uuid))} in use before the first start)" for card in cards)
        return f"locked and watched: {held}", None

    def _lock(self, stack: contextlib.ExitStack, card: Device, deadline: float) -> None:
        told = False
        while True:
            held = contextlib.ExitStack()
            holder = held.enter_context(try_lock(lock_path(self.directory, card.uuid), self.who))
            if holder is None:
                stack.push(held)
                return
            held.close()
            if self.clock() >= deadline:
                raise RunnerError(
                    f"{card.name} ({card.uuid}) is taken by {holder}",
                    why=f"One card, one gate: this run waited {self.wait_s / 60:g} minutes for it.",
                    advice="Run again later, raise engine.wait_minutes, or choose another card by CUDA_VISIBLE_DEVICES.",
                )
            if not told:
                self.say(f"waiting for {card.name} ({card.uuid}), taken by {holder}; at most {self.wait_s / 60:g} minutes")
            told = True
            self.sleep(LOOK_S)

    def _await_free(self, cards: Sequence[Device], deadline: float) -> None:
        told = False
        while True:
            uses = [self._use(card) for card in cards]
            busy = [reason for use in uses if (reason := why_busy(use))]
            if not busy:
                return
            if self.clock() >= deadline:
                raise RunnerError(
                    "; ".join(busy),
                    why="A card that somebody else uses has less memory and time for an arm than its other arm had.",
                    advice=advice_for(uses),
                )
            if not told:
                self.say(f"waiting: {'; '.join(busy)}; at most {self.wait_s / 60:g} minutes")
            told = True
            self.sleep(LOOK_S)

    def _use(self, card: Device) -> Use:
        assert not isinstance(self.nvml, Absent)
        holders = []
        for process in self.nvml.processes(card.uuid):
            name, tag = self.describe(process.pid)
            holders.append(Holder(pid=process.pid, name=name, used_bytes=process.used_bytes, tag=tag))
        return Use(device=card, used_bytes=self.nvml.used_bytes(card.uuid), holders=tuple(holders))


def _level(used_bytes: int | None) -> str:
    return "unknown memory" if used_bytes is None else f"{used_bytes >> 20:,} MiB"


def _described(pid: int) -> tuple[str | None, str | None]:
    try:
        process = psutil.Process(pid)
        name = process.name()
    except psutil.Error:
        return None, None
    try:
        return name, process.environ().get(TAG)
    except (psutil.Error, OSError):
        return name, None
