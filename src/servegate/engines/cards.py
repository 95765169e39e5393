"""Which cards an arm will use, and whether they are free: decisions on written facts, without asking the driver.

Two gates on one card measure each other, and a notebook that somebody left open takes the memory that an arm would have
had for its KV cache. Neither shows in the answers' shape, so both are refused before a start instead of explained after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from servegate.domain.arms import Arm
from servegate.nvml import Device

SLACK_BYTES = 256 << 20
"""A card counts as given back within so much of its level before: contexts of the driver come and go."""
UNNAMED_BYTES = 1 << 30
"""Memory in use that no process accounts for is refused above this: its owner is in another container, or left it behind.
An idle card holds a few MiB by this count (H200, driver 580: 0 MiB); a display server some hundred."""
_MIB = 1 << 20


@dataclass(frozen=True)
class Holder:
    """A process that computes on a card. `name` is None when it is not visible from here (another container)."""

    pid: int
    name: str | None
    used_bytes: int | None
    tag: str | None = None
    """SERVEGATE_ARM of its environment: it was started by a servegate, of this run or of one that is gone."""

    def __str__(self) -> str:
        """Return pid, name and memory as a reader needs them to find the owner."""
        name = self.name or "not visible from here; perhaps of another container"
        memory = "memory unknown" if self.used_bytes is None else f"{self.used_bytes // _MIB:,} MiB"
        stray = ", left behind by an earlier servegate" if self.tag else ""
        return f"pid {self.pid} ({name}), {memory}{stray}"


@dataclass(frozen=True)
class Use:
    """A card's use at one moment."""

    device: Device
    used_bytes: int | None
    holders: tuple[Holder, ...]


def cards_of(arm: Arm, inherited: Mapping[str, str], devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return the cards that an arm will use, as CUDA picks them; when its order is not known, all that it may use.

    CUDA counts cards from the fastest unless CUDA_DEVICE_ORDER says PCI_BUS_ID, NVML along the bus: on a machine with
    different cards a number in CUDA_VISIBLE_DEVICES names one that only CUDA knows, so every card is taken then. A
    variable that hides all cards ("" or "-1") gives none: the arm is served on the CPU.
    """
    environment = {**inherited, **arm.environment}
    ordered = len({device.name for device in devices}) <= 1 or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return tuple(devices[: _count(arm)] if ordered else devices)
    found: dict[str, Device] = {}
    for word in (each.strip() for each in listed.split(",")):
        if word.isdecimal():
            if int(word) >= len(devices):
                break  # CUDA too stops at the first that it does not know
            chosen = [devices[int(word)]] if ordered else list(devices)
        elif word.startswith("MIG-"):
            chosen = [device for device in devices if device.mig]
        else:
            chosen = [device for device in devices if word.startswith("GPU-") and device.uuid.startswith(word)]
        if not chosen:
            break
        found.update({device.uuid: device for device in chosen})
    cards = tuple(found.values())
    return cards[: _count(arm)] if ordered else cards


def _count(arm: Arm) -> int:
    """Return how many cards the arm spreads over; an option that is no number is for the engine to refuse."""
    count = 1
    for name in ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"):
        value = str(arm.config.options.get(name, 1))
        count *= int(value) if value.isdecimal() and 0 < int(value) <= 1024 else 1
    return count


def why_busy(use: Use) -> str | None:
    """Return why a card is not free for a measurement, or None when it is. A part of a card (MIG) is not judged."""
    if use.device.mig:
        return None
    card = f"{use.device.name} ({use.device.uuid})"
    if use.holders:
        return f"{card} is in use by {'; '.join(map(str, use.holders))}"
    if use.used_bytes is not None and use.used_bytes > UNNAMED_BYTES:
        return f"{card} has {use.used_bytes // _MIB:,} MiB in use, and no process that is visible from here"
    return None


def advice_for(uses: Sequence[Use]) -> str:
    """Return what to do about busy cards: strays of our own are ended by hand, others are waited for or avoided."""
    strays = [str(holder.pid) for use in uses for holder in use.holders if holder.tag]
    if strays:
        return f"End what is left: `kill -9 {' '.join(strays)}`. Nothing is ended that this run did not start."
    return (
        "Wait (engine.wait_minutes), end that process, or give the arms another card by CUDA_VISIBLE_DEVICES in "
        "engine.environment (empty for an engine on the CPU)."
    )


def not_released(use: Use, before_bytes: int | None) -> str | None:
    """Return what a card still holds beyond its level before the first start, or None when it is back (or cannot say)."""
    if use.used_bytes is None or before_bytes is None or use.device.mig or use.used_bytes <= before_bytes + SLACK_BYTES:
        return None
    held = (use.used_bytes - before_bytes) // _MIB
    whose = f": {'; '.join(map(str, use.holders))}" if use.holders else "; no process that is visible from here owns it"
    return f"{use.device.name} ({use.device.uuid}) still holds {held:,} MiB more than before the first start{whose}"


APPLICATION_XIDS = frozenset({13, 31, 43, 45})
"""Xids that a program causes (an illegal address, an invalid instruction): told, and not blamed on the machine. NVIDIA,
"XID Errors", https://docs.nvidia.com/deploy/xid-errors/"""


def xid_fault(numbers: Sequence[int]) -> str | None:
    """Return what Xid errors say of the machine, or None when there were none that a machine causes."""
    own = sorted({number for number in numbers if number not in APPLICATION_XIDS})
    return f"the driver reported Xid {', '.join(map(str, own))}" if own else None
