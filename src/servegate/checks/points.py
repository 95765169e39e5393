"""A difference of shares over prompts, in percentage points, with the bounds that a PASS and a FAIL rest on.

Several checks ask the same of their prompts: by how much did a share (answers cut, keys stated) change, what may still be
(upper 95 %), what is sure (lower 99 %)? They must not answer it in two ways.
"""

from __future__ import annotations

from collections.abc import Sequence

from servegate.domain.judgement import Estimate
from servegate.stats.intervals import mean_of

LEVELS = (("", 0.05), ("_99", 0.01))
"""Suffix of the estimate's name and the one-sided alpha of its bounds."""


def points(name: str, differences: Sequence[float]) -> dict[str, Estimate]:
    """Return `name` and `name_99`; nothing without prompts. `differences`: one a prompt, each in [-1, 1]."""
    if not differences:
        return {}
    mean = mean_of(differences)
    return {
        f"{name}{suffix}": Estimate(
            value=100 * mean.value,
            low=max(-100.0, 100 * mean.lower(alpha)),
            high=min(100.0, 100 * mean.upper(alpha)),
            unit="points",
            n=mean.n,
            level=1 - 2 * alpha,
            method="mean over prompts, never closer than 1 - alpha^(1/n)",
        )
        for suffix, alpha in LEVELS
    }
