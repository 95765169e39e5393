"""What an arm's throughput measurement holds: one record per window and concurrency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from servegate.domain.evidence import Measurement, absent
from servegate.domain.load import LoadResult


class LoadPoint(LoadResult):
    """One window of load at one concurrency, as the load generator reported it.

    `block` numbers the window, `position` its place within the block. `workload_sha256` covers lengths, counts and seed:
    equal hashes mean equal prompts. `load` is the kind of load: `serving`, or `single` with one request in flight.
    """

    load: str = "serving"
    concurrency: int
    block: int
    position: int
    seed: int
    workload_sha256: str
    foreign_processes: tuple[str, ...] | None = None
    foreign_processes_reason: str | None = None
    energy_joules: float | None = None
    energy_joules_reason: str | None = None

    @property
    def id(self) -> str:
        """Name of the window in items and findings."""
        return f"{self.load if self.load != 'serving' else self.concurrency}/{self.block}"


class ThroughputMeasurement(Measurement):
    """One arm's windows. Columns, one row a completed request: `ttft_ms`, `tpot_ms`, `e2e_ms`, `tokens` (old records: none)."""

    SAMPLES: ClassVar[tuple[str, ...]] = ("points",)

    points: tuple[LoadPoint, ...]
    planned: tuple[int, ...] = ()
    """Windows of each load, by its `position`; empty in old records, in which a step is one window of every load."""
    in_turn: bool = False
    """Whether the arms took turns, so that a step is one window (`block`) of every load; else it is one load with all its."""

    def gaps(self, steps: Sequence[int], rounds: int, inputs: Any) -> tuple[str, ...]:
        """Return which planned windows are not held."""
        if self.planned:
            loads = enumerate(self.planned)
            expected = [(load, block) for load, windows in loads for block in (steps if self.in_turn else range(windows))]
            return absent("planned windows of load", expected, ((point.position, point.block) for point in self.points))
        held = [(point.concurrency, point.block) for point in self.points]
        concurrencies = sorted({concurrency for concurrency, _ in held})
        return (
            *absent("planned blocks of load", steps, (block for _, block in held)),
            *absent("planned windows of load", [(one, step) for step in steps for one in concurrencies], held),
        )
