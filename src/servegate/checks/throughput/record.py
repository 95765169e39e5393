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

    def gaps(self, steps: Sequence[int], rounds: int, inputs: Any) -> tuple[str, ...]:
        """Return which windows are not held: each planned block has one at every concurrency."""
        concurrencies = sorted({point.concurrency for point in self.points})
        return (
            *absent("planned blocks of load", steps, (point.block for point in self.points)),
            *absent(
                "planned windows of load",
                [(concurrency, step) for step in steps for concurrency in concurrencies],
                [(point.concurrency, point.block) for point in self.points],
            ),
        )
