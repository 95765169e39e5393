"""What the rounds of one prompt add up to: its contract, its defects, its cap hits, in each arm.

One round proves little: a contract that is a fair coin goes from kept twice to broken twice once in sixteen prompts. So
a break is confirmed only when every round of the baseline kept the contract and every round of the candidate broke it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from servegate.checks.prompts.classes import Reading
from servegate.domain.records import Json
from servegate.stats.pooled import Kept

RELIABLE_SHARE = 0.75
"""A contract that the baseline keeps less often than this is its own noise; from there to `LOST_SHARE` is worth a look."""
LOST_SHARE, LOST_SHARE_OF_FEW = 0.25, 0.5
ENOUGH_ROUNDS = 4
"""With at least so many judged rounds a contract kept in more than a quarter is noise; with fewer, in more than half."""


class ContractState(StrEnum):
    """What became of one prompt's contract between the arms."""

    CONFIRMED = "confirmed"
    UNSTABLE = "unstable"
    KEPT = "kept"
    MENDED = "mended"
    BASELINE_BROKEN = "baseline_broken"
    NOISE = "noise"
    NOT_JUDGED = "not_judged"


@dataclass(frozen=True)
class Counts:
    """Rounds in which a contract was kept, broken, or open (cut or failed, so no evidence)."""

    kept: int
    broken: int
    open: int

    @property
    def judged(self) -> int:
        """Rounds that are evidence."""
        return self.kept + self.broken

    @property
    def share(self) -> float:
        """Share of the judged rounds that kept the contract."""
        return self.kept / self.judged if self.judged else 0.0

    def to_json(self) -> dict[str, Json]:
        """Return plain JSON values."""
        return {"kept": self.kept, "broken": self.broken, "open": self.open}


def counts(readings: Sequence[Reading]) -> Counts:
    """Return the counts of one arm's rounds."""
    states = [reading.kept() for reading in readings]
    return Counts(states.count(True), states.count(False), states.count(None))


def contract_state(baseline: Counts, candidate: Counts, confirm_rounds: int) -> ContractState:
    """Return what became of a contract. Open rounds are never counted as broken, and never as kept."""
    if not baseline.judged or not candidate.judged:
        return ContractState.NOT_JUDGED
    if not baseline.kept:
        return ContractState.MENDED if candidate.share >= RELIABLE_SHARE else ContractState.BASELINE_BROKEN
    enough = min(baseline.judged, candidate.judged) >= confirm_rounds and not candidate.open
    if enough and not baseline.broken and not candidate.kept:
        return ContractState.CONFIRMED
    lost = LOST_SHARE if candidate.judged >= ENOUGH_ROUNDS else LOST_SHARE_OF_FEW
    if baseline.share >= RELIABLE_SHARE and candidate.share <= lost:
        return ContractState.UNSTABLE
    if baseline.broken or candidate.broken:
        return ContractState.NOISE
    return ContractState.NOT_JUDGED if baseline.open or candidate.open else ContractState.KEPT


def kept_of(contract: dict[str, Json]) -> Kept:
    """Return the rounds of one prompt as a table; open rounds are no evidence and left out."""
    before, after = contract["baseline"], contract["candidate"]
    return Kept(before["kept"], before["kept"] + before["broken"], after["kept"], after["kept"] + after["broken"])


def drop_of(table: Kept) -> float:
    """Return by how much the share of kept rounds fell; 0 when a side has no judged round."""
    if not table.baseline_of or not table.candidate_of:
        return 0.0
    return table.baseline / table.baseline_of - table.candidate / table.candidate_of


def share(readings: Sequence[Reading], holds: Callable[[Reading], bool]) -> float | None:
    """Return the share of the answered rounds of which something holds; None without any."""
    answered = [reading for reading in readings if reading.answered]
    return sum(map(holds, answered)) / len(answered) if answered else None
