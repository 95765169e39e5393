"""A load test: what is asked for, what each window brought, and how the machine was meanwhile.

A *point* is one run of the load generator: a lead-in that is not counted, then windows. Everything that could explain a speed
stands beside it, since a number whose surroundings are not known is no evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from servegate.domain.records import Amount, Count, Pace, Positive, Record, Seed, Share


class LoadSpec(Record):
    """One load-test point: fixed lengths, `ignore_eos`, everything sent at once up to `concurrency`.

    One run of the tool sends `lead_in` requests that are not counted and then `windows` times `requests` that are.
    """

    input_tokens: Count
    output_tokens: Count
    concurrency: Count
    requests: Count
    warm_up_requests: Count
    seed: Seed
    label: str
    """Names the raw files of this point; [a-z0-9-]+."""
    windows: Count = 1
    lead_in: Count = 0

    @property
    def total(self) -> int:
        """Requests that the tool sends."""
        return self.lead_in + self.windows * self.requests


class CardLoad(Record):
    """One card during a window. Clocks are means in MHz, temperature the highest, power the mean; None: it cannot say."""

    uuid: str
    samples: Count
    sm_clock_mhz: Amount | None = None
    memory_clock_mhz: Amount | None = None
    temperature_c: Amount | None = None
    power_w: Amount | None = None
    energy_j: Amount | None = None
    throttled: dict[str, Share] = {}
    """Reason the driver gave for lower clocks -> share of the samples (0 to 1)."""
    throttled_reason: str | None = None
    """Why it is not known whether clocks were lowered."""


class Telemetry(Record):
    """The machine during a window. `foreign_processes` computed on the engine's cards and were not ours.

    `foreign_cpu_cores` is the mean number of CPU cores that others kept busy (2.5: two and a half), of `cpu_cores`.
    """

    cards: tuple[CardLoad, ...] = ()
    cards_reason: str | None = None
    foreign_processes: tuple[str, ...] | None = None
    foreign_processes_reason: str | None = None
    foreign_cpu_cores: Amount | None = None
    foreign_cpu_cores_reason: str | None = None
    cpu_cores: Positive

    @property
    def energy_j(self) -> float | None:
        """Joules of all cards; None when one of them cannot say."""
        joules = [card.energy_j for card in self.cards]
        return sum(each for each in joules if each is not None) if joules and None not in joules else None


class LoadResult(Record):
    """What the load generator reported for one point. Percentiles are maps such as {"mean": ..., "p50": ..., "p99": ...}."""

    requests: Positive
    completed: Count
    failed: Count
    input_tokens: Count
    output_tokens: Count
    duration_s: Pace
    output_tokens_per_second: Pace
    ttft_ms: dict[str, Amount]
    tpot_ms: dict[str, Amount]
    itl_ms: dict[str, Amount]
    e2e_latency_s: dict[str, Amount]
    prefix_cache_hit_rate: Amount | None = None
    prefix_cache_hit_rate_reason: str | None = None
    foreign_requests: Count | None = None
    """Requests that the engine finished during the run of the tool and that the tool had not sent."""
    foreign_requests_reason: str | None = None
    prompt_tokens_per_request: Amount | None = None
    """As the engine counted them; the tool counts with its own tokenizer."""
    queue_time_s: Amount | None = None
    """Mean time a request of the run waited in the engine before it was scheduled."""
    preemptions: Count | None = None
    wrong_lengths: Count = 0
    """Completed requests that brought another number of tokens than was asked for."""
    telemetry: Telemetry | None = None
    telemetry_reason: str | None = None
    first_row: Count | None = None
    rows: Count | None = None
    """Rows of the columns that hold the window's requests; None where they were not kept."""
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Load:
    """What one run of the load generator brought: its windows in order of time, and one row a completed request.

    Columns, each of n rows in order of completion: `ttft_ms`, `tpot_ms` (NaN for one token), `e2e_ms` f4, `tokens` i4.
    """

    windows: tuple[LoadResult, ...]
    columns: dict[str, npt.NDArray[Any]]
