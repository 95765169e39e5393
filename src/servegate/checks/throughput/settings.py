"""What a gate config may say about speed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from pydantic import Field, model_validator

from servegate.checks.laxness import LESS, MORE
from servegate.domain.records import MOST_SEED, Settings

MOST_IN_FLIGHT = 65_536
FEWEST_REQUESTS = 12
"""A window of fewer requests is mostly start and end."""


class Limits(Settings):
    """When a loss of speed fails. Speed never earns a PASS: it only informs, or fails on a clear loss."""

    fail_ratio: float = Field(default=0.95, gt=0, le=1)
    """FAIL when candidate over baseline is below this with 95 % confidence (one-sided), at `judged_at`."""
    restart_sd: float = Field(default=0.01, ge=0, le=1)
    """Standard deviation of the log speed between two starts of one server; 1 % until it was calibrated here."""
    host_share: float = Field(default=0.10, ge=0, le=1)
    """Where both arms make a smaller share of what their cards allow, the host sets the pace: see `host_restart_sd`."""
    host_restart_sd: float = Field(default=0.20, ge=0, le=1)
    """Standard deviation of the log speed between two starts of one server whose pace the host sets: six starts
    of a 135M model on an H200 gave 0.187. On a CPU it always counts."""
    output_tokens_share: float = Field(default=0.005, ge=0, le=1)
    """Arms whose windows differ by a larger share of generated tokens are not comparable."""
    prefix_cache_hit_rate: float = Field(default=0.05, ge=0, le=1)
    """A load that took a larger share of its prompts from the prefix cache measured the cache. Random prompts repeat by chance:
    `vllm bench serve` counts upwards from a random token, so n prompts of a vocabulary of V meet about n / 2V of the time
    (1.6 % seen for 1,984 prompts of 49,152 tokens)."""
    prefix_cache_difference: float = Field(default=0.01, ge=0, le=1)
    """Arms whose shares of prompts from the prefix cache differ by more are not comparable."""
    window_cv: float = Field(default=0.10, gt=0, le=1)
    """A load whose speed varies more from window to window (standard deviation over mean) proves nothing: what moves it
    within a start moves it between starts too. Seen on an H200: two starts of one config (135M model, short of CPU) differed
    by 16 % at 15 and 19 %; an 8B shape stays at 0.4 to 1.4 %."""
    clock_share: float = Field(default=0.05, ge=0, le=1)
    """Arms whose cards ran at clocks that differ by a larger share, with no power cap to explain it, are not comparable."""
    throttled_share: float = Field(default=0.05, ge=0, le=1)
    """A window in which the card was too hot, or braked by hardware, for a larger share of the time is void."""
    foreign_cpu_share: float = Field(default=0.10, ge=0, le=1)
    """An engine on a CPU is not measured while others keep a larger share of its cores busy."""


LAXER = {
    "limits.fail_ratio": LESS, "limits.restart_sd": MORE, "limits.host_restart_sd": MORE, "limits.host_share": MORE,
    "limits.output_tokens_share": MORE,
    "limits.prefix_cache_hit_rate": MORE, "limits.clock_share": MORE, "limits.throttled_share": MORE,
    "limits.foreign_cpu_share": MORE, "limits.prefix_cache_difference": MORE, "limits.window_cv": MORE,
}  # fmt: skip
"""Limits that tolerate more when they are larger (`MORE`) or smaller (`LESS`); see `checks.laxness`."""


class Single(Settings):
    """Load with one request in flight: what a single user waits. Its windows are a row of their own."""

    input_tokens: int = Field(default=1000, ge=1)
    """Tokens of each prompt."""
    output_tokens: int = Field(default=256, ge=2)
    """Tokens generated for each prompt."""
    windows: int = Field(default=5, ge=1, le=100)
    """Windows, one after the other."""
    requests_per_window: int = Field(default=6, ge=1)
    """Requests in a window."""


class Slo(Settings):
    """What a request must keep to count as good; a limit left out is not asked for."""

    ttft_ms: float | None = Field(default=None, gt=0)
    """Time to the first token, in milliseconds."""
    tpot_ms: float | None = Field(default=None, gt=0)
    """Mean time of each further token, in milliseconds."""
    e2e_ms: float | None = Field(default=None, gt=0)
    """Time to the last token, in milliseconds."""


SERVING, SINGLE = "serving", "single"
"""The two kinds of load: `concurrency` requests in flight, and one."""


@dataclass(frozen=True)
class LoadShape:
    """One load of a step: `windows` windows of `requests` requests each, `concurrency` in flight."""

    load: str
    input_tokens: int
    output_tokens: int
    concurrency: int
    windows: int
    requests: int
    warm_up: int
    lead_in: int


class ThroughputSettings(Settings):
    """Load of fixed lengths, several windows at each concurrency, the same prompts in both arms."""

    input_tokens: int = Field(default=512, ge=1)
    """Tokens of each prompt."""
    output_tokens: int = Field(default=128, ge=2)
    """Tokens generated for each prompt; the end of text is ignored."""
    concurrency: tuple[int, ...] = Field(default=(32,), min_length=1)
    """Requests in flight, one load point each, in rising order; several make a curve, such as [1, 8, 32, 64]."""
    judged_at: int = 32
    """The concurrency whose speed may FAIL the gate: the one you serve at."""
    windows: int = Field(default=5, ge=1, le=100)
    """Windows of load at each concurrency; two are the least that give an interval."""
    requests_per_window: int | None = Field(default=None, ge=1)
    """Requests in a window, rounded up to a multiple of those in flight; by default 4 for each in flight, and at least 12."""
    warm_up_requests: int | None = Field(default=None, ge=0)
    """Requests before the windows that are not measured; by default one for each in flight."""
    single: Single | None = Single()
    """One request in flight, longer: the latency of a single user. `null` leaves it out. Lengths of a load that this file does
    not name are shortened, with a remark, where they do not fit into the context of both arms; named ones are refused."""
    interleave: bool = False
    """Measure in blocks that alternate between both living engines (A B B A), one asleep meanwhile. A block is a window of
    every load. Both serving configs need `enable-sleep-mode: true`."""
    slo: Slo | None = None
    """Limits of latency; with them the share and rate of requests that keep all of them (goodput) are shown."""
    seed: int = Field(default=1000, ge=0, le=MOST_SEED)
    """Every window draws new prompts; the same windows draw the same ones in both arms."""
    limits: Limits = Limits()

    @property
    def steps(self) -> int:
        """A step of this check is one load, all its windows; of interleaved blocks, one window of every load."""
        return self.windows if self.interleave else len(self.shapes())

    def requests(self, concurrency: int) -> int:
        """Return how many requests a window has: whole rounds of those in flight, since equal requests end together."""
        asked = self.requests_per_window or max(4 * concurrency, FEWEST_REQUESTS)
        return math.ceil(asked / concurrency) * concurrency

    def warm_up(self, concurrency: int) -> int:
        """Return how many requests warm a load up."""
        return concurrency if self.warm_up_requests is None else self.warm_up_requests

    def shapes(self) -> tuple[LoadShape, ...]:
        """Return the loads, the fewest in flight first.

        The tool fills the engine before the first window with one round that is not counted (unless warm-up is switched off).
        """
        shapes: list[LoadShape] = []
        if self.single is not None:
            one, warm = self.single, min(1, self.warm_up(1))
            sizes = (one.input_tokens, one.output_tokens)
            shapes.append(LoadShape(SINGLE, *sizes, 1, one.windows, one.requests_per_window, warm, warm))
        for concurrency in sorted(self.concurrency):
            warm, requests = self.warm_up(concurrency), self.requests(concurrency)
            lead_in = concurrency if warm >= concurrency else 0
            sizes = (self.input_tokens, self.output_tokens)
            shapes.append(LoadShape(SERVING, *sizes, concurrency, self.windows, requests, warm, lead_in))
        return tuple(replace(shape, windows=1) if self.interleave else shape for shape in shapes)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        wrong = [value for value in self.concurrency if not 1 <= value <= MOST_IN_FLIGHT]
        repeated = [value for value in dict.fromkeys(self.concurrency) if self.concurrency.count(value) > 1]
        if wrong:
            raise ValueError(f"concurrency holds {wrong[0]}: allowed are whole numbers from 1 to {MOST_IN_FLIGHT:,}")
        if repeated:
            raise ValueError(f"concurrency holds {repeated[0]} twice: each number in flight is one load")
        if self.judged_at not in self.concurrency:
            near = min(self.concurrency, key=lambda value: (abs(value - self.judged_at), value))
            allowed = ", ".join(map(str, sorted(self.concurrency)))
            raise ValueError(
                f"judged_at is {self.judged_at}, which is none of `concurrency` (allowed: {allowed}), did you mean {near}?"
            )
        if self.requests_per_window is not None and self.requests_per_window < max(self.concurrency):
            raise ValueError(
                f"requests_per_window is {self.requests_per_window}, so the {max(self.concurrency)} of `concurrency` would "
                f"never be in flight: it must be at least {max(self.concurrency)}"
            )
        return self
