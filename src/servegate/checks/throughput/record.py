"""What an arm's throughput measurement holds: one record per window and concurrency."""

from __future__ import annotations

from typing import ClassVar

from servegate.domain.evidence import Measurement
from servegate.domain.workload import LoadResult


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
