"""Settings of the capacity check."""

from __future__ import annotations

from pydantic import Field

from servegate.domain.records import Settings


class CapacitySettings(Settings):
    """For which requests capacity is stated, and what a GPU costs."""

    context_tokens: int = Field(default=4096, ge=1, le=10_000_000)
    """Length of a request, prompt and answer together, at which concurrent requests and speeds are stated."""
    price_per_gpu_hour_usd: float | None = Field(default=None, gt=0, le=100_000)
    """Price of one GPU for an hour; with it a million output tokens have a price: the least, and at the
    measured throughput."""
