"""What a gate config may say about speed."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from servegate.domain.records import Settings

FEWEST_REQUESTS = 12
"""A window of fewer requests is mostly start and end."""


class Limits(Settings):
    """When a loss of speed fails. Speed never earns a PASS: it only informs, or fails on a clear loss."""

    fail_ratio: float = Field(default=0.95, gt=0, le=1)
    """FAIL when candidate over baseline is below this with 95 % confidence (one-sided), at `judged_at`."""
    restart_sd: float = Field(default=0.01, ge=0, le=1)
    """Standard deviation of the log speed between two starts of one server; 1 % until it was calibrated here."""
    output_tokens_share: float = Field(default=0.005, ge=0, le=1)
    """Arms whose windows differ by a larger share of generated tokens are not comparable."""
    prefix_cache_hit_rate: float = Field(default=0.01, ge=0, le=1)
    """A window that took more of its prompts from the prefix cache measured the cache."""


class ThroughputSettings(Settings):
    """Load of fixed lengths, several windows at each concurrency, the same prompts in both arms."""

    input_tokens: int = Field(default=512, ge=1)
    """Tokens of each prompt."""
    output_tokens: int = Field(default=128, ge=2)
    """Tokens generated for each prompt; the end of text is ignored."""
    concurrency: tuple[int, ...] = Field(default=(1, 8, 32, 64), min_length=1)
    """Requests in flight, one load point each, in rising order."""
    judged_at: int = 32
    """The concurrency whose speed may FAIL the gate: the one you serve at."""
    windows: int = Field(default=5, ge=1, le=100)
    """Windows of load at each concurrency; two are the least that give an interval."""
    requests_per_window: int | None = Field(default=None, ge=1)
    """Requests in a window; by default 4 for each in flight, and at least 12."""
    warm_up_requests: int | None = Field(default=None, ge=0)
    """Requests before each window that are not measured; by default one for each in flight."""
    seed: int = Field(default=1000, ge=0)
    """Every window draws new prompts; the same windows draw the same ones in both arms."""
    limits: Limits = Limits()

    @property
    def steps(self) -> int:
        """A step of this check is one window at every concurrency."""
        return self.windows

    def requests(self, concurrency: int) -> int:
        """Return how many requests a window has."""
        return self.requests_per_window or max(4 * concurrency, FEWEST_REQUESTS)

    def warm_up(self, concurrency: int) -> int:
        """Return how many requests warm a window up."""
        return concurrency if self.warm_up_requests is None else self.warm_up_requests

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if any(value < 1 for value in self.concurrency) or len(set(self.concurrency)) != len(self.concurrency):
            raise ValueError(f"concurrency must be different numbers of at least 1, not {list(self.concurrency)}")
        if self.judged_at not in self.concurrency:
            raise ValueError(f"judged_at ({self.judged_at}) must be one of concurrency {list(self.concurrency)}")
        if self.requests_per_window is not None and self.requests_per_window < max(self.concurrency):
            raise ValueError(
                f"requests_per_window ({self.requests_per_window}) is below the concurrency {max(self.concurrency)}, "
                "so that many would never be in flight"
            )
        return self
