"""What an arm's throughput measurement holds: one record per window and concurrency."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from pydantic import model_validator

from servegate.domain.evidence import Measurement, absent, ensure_single, unplanned
from servegate.domain.load import LoadResult
from servegate.domain.records import MOST, Amount, Count, Positive, Seed


class LoadPoint(LoadResult):
    """One window of load at one concurrency, as the load generator reported it.

    `block` numbers the window, `position` its place within the block. `workload_sha256` covers lengths, counts and seed:
    equal hashes mean equal prompts. `load` is the kind of load: `serving`, or `single` with one request in flight.
    """

    load: str = "serving"
    concurrency: Positive
    block: Count
    position: Count
    seed: Seed
    workload_sha256: str
    foreign_processes: tuple[str, ...] | None = None
    foreign_processes_reason: str | None = None
    energy_joules: Amount | None = None
    energy_joules_reason: str | None = None

    @property
    def id(self) -> str:
        """Name of the window in items and findings."""
        return f"{self.load if self.load != 'serving' else self.concurrency}/{self.block}"


class ThroughputMeasurement(Measurement):
    """One arm's windows. Columns, one row a completed request: `ttft_ms`, `tpot_ms`, `e2e_ms`, `tokens` (old records: none)."""

    SAMPLES: ClassVar[tuple[str, ...]] = ("points",)

    RANGES: ClassVar[dict[str, tuple[float, float]]] = {
        name: (0.0, float(MOST)) for name in ("ttft_ms", "tpot_ms", "e2e_ms", "tokens")
    }

    points: tuple[LoadPoint, ...]
    planned: tuple[Count, ...] = ()
    """Windows of each load, by its `position`; empty in old records, in which a step is one window of every load."""
    in_turn: bool = False
    """Whether the arms took turns, so that a step is one window (`block`) of every load; else it is one load with all its."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        ensure_single("windows", (point.id for point in self.points))
        lengths = {len(column) for column in self.columns.values()} or {0}
        needed = max(((point.first_row or 0) + (point.rows or 0) for point in self.points), default=0)
        if len(lengths) != 1 or needed > max(lengths):
            raise ValueError(f"the windows need {needed} rows, the columns have {sorted(lengths)}")
        return self

    def gaps(self, steps: Sequence[int], rounds: int, inputs: Any) -> tuple[str, ...]:
        """Return which planned windows are not held."""
        if self.planned:
            expected = self._expected(steps)
            return absent("planned windows of load", expected, ((point.position, point.block) for point in self.points))
        held = [(point.concurrency, point.block) for point in self.points]
        concurrencies = sorted({concurrency for concurrency, _ in held})
        return (
            *absent("planned blocks of load", steps, (block for _, block in held)),
            *absent("planned windows of load", [(one, step) for step in steps for one in concurrencies], held),
        )

    def surplus(self, steps: Sequence[int], inputs: Any) -> tuple[str, ...]:
        """Return windows of no planned load; old records do not say which were."""
        planned = {
            point.id for point in self.points if not self.planned or (point.position, point.block) in self._expected(steps)
        }
        return unplanned("windows of load", (point.id for point in self.points), planned)

    def _expected(self, steps: Sequence[int]) -> list[tuple[int, int]]:
        loads = enumerate(self.planned)
        return [(load, block) for load, windows in loads for block in (steps if self.in_turn else range(windows))]
