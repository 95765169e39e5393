"""Holds the totals of a load test against its single requests; pure functions.

Windows are cut from the times of single requests. Where these were mixed up, stamped by another clock, or sent otherwise than
was asked for, they no longer add up to what the tool itself says, and nothing is read from them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

AGREEMENT = 0.05
SLACK_S = 0.25
"""The tool's own duration may differ by this share, and this much, from the time between its first start and last end."""
SLACK_MS = 1.0
"""So much more may its medians differ from those of its single requests."""


@dataclass(frozen=True)
class Request:
    """A completed request as the tool timed it, in seconds of its monotonic clock."""

    started_s: float
    ended_s: float
    ttft_s: float
    itls_s: Sequence[float]
    prompt_tokens: int
    tokens: int

    @property
    def tpot_ms(self) -> float:
        """Mean milliseconds of a further token; NaN for a single one."""
        if self.tokens <= 1:
            return np.nan
        # All tokens may come in one message, and the difference of two large clock readings is then a little below 0.
        return max(0.0, 1000 * (self.ended_s - self.started_s - self.ttft_s) / (self.tokens - 1))


def durations_agree(stated_s: float, span_s: float, requests: int) -> None:
    """Hold the tool's own duration against that of its requests: else their times are not what they seem."""
    if abs(span_s - stated_s) > AGREEMENT * stated_s + SLACK_S:
        raise ValueError(f"duration is {stated_s:.3f} s, but the {requests} requests came within {span_s:.3f} s")


def totals_agree(result: dict[str, Any], done: list[Request]) -> None:
    """Hold the tool's own rate and medians against its single requests: else columns were mixed up or cut."""
    read = {
        "output_throughput": sum(each.tokens for each in done) / result["duration"],
        "p50_ttft_ms": float(np.median([1000 * each.ttft_s for each in done])),
        "p50_e2el_ms": float(np.median([1000 * (each.ended_s - each.started_s) for each in done])),
    }
    sent = sum(each.prompt_tokens for each in done)
    if result.get("total_input_tokens", sent) != sent:
        raise ValueError(f"total_input_tokens is {result['total_input_tokens']!r}, but input_lens add up to {sent}")
    for name, value in read.items():
        slack = AGREEMENT * value + (0.0 if name == "output_throughput" else SLACK_MS)
        if abs(result[name] - value) > slack:
            raise ValueError(f"{name} is {result[name]:,.3f}, but its requests say {value:,.3f}")


def most_in_flight(done: list[Request]) -> int:
    """Return the most requests that were under way at one moment; one that ends as another starts makes room for it."""
    changes = sorted((at, step) for each in done for at, step in ((each.started_s, 1), (each.ended_s, -1)))
    return int(np.cumsum([step for _at, step in changes]).max())
