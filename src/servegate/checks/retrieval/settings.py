"""Settings of the retrieval check. Everything but `limits` belongs to the workload: changing it means measuring again."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from servegate.checks.laxness import LESS, MORE
from servegate.domain.records import Settings

Percent = Annotated[int, Field(ge=1, le=100)]


class Limits(Settings):
    """What is tolerated; recorded evidence can be judged again under other limits."""

    baseline_share: float = Field(default=0.9, gt=0, le=1)
    """Share of a depth's answers that the baseline must get right, or nothing is proven there."""
    fewest_prompts: int = Field(default=10, ge=1)
    """With fewer compared prompts at a depth there is no PASS."""
    confirm_rounds: int = Field(default=2, ge=1)
    """Rounds in each arm that must agree before a lost key is confirmed."""
    lost_keys: int = Field(default=0, ge=0)
    """Keys that the baseline states in every round and the candidate in none, which do not fail the gate."""
    drop_points: float = Field(default=1.0, ge=0, le=100)
    """Largest drop of the share of stated keys at a depth, in percentage points."""


LAXER = {
    "limits.baseline_share": LESS, "limits.fewest_prompts": LESS, "limits.confirm_rounds": MORE,
    "limits.lost_keys": MORE, "limits.drop_points": MORE,
}  # fmt: skip
"""Limits that tolerate more when they are larger (`MORE`) or smaller (`LESS`); see `checks.laxness`."""


class RetrievalSettings(Settings):
    """Long generated prompts with one pass key each; on by itself when KV cache, attention or length differ."""

    when: Literal["always", "changed", "never"] = "always"
    """`changed`: only when the arms differ in KV cache, attention, length or checkpoint positions, as without this entry."""
    depths_percent: tuple[Percent, ...] = Field(default=(25, 50, 90), min_length=1)
    """Lengths of the prompts, in percent of the context (the shorter one, where the arms differ in it)."""
    prompts_per_depth: int = Field(default=20, ge=1, le=1_000)
    """Prompts of each length; their pass keys stand at evenly spread places, from near the first token to near the last."""
    max_prompt_tokens: int = Field(default=2_400_000, ge=1)
    """Most prompt tokens of one round; where the prompts would have more, fewer of each length are asked."""
    context_tokens: int | None = Field(default=None, ge=64)
    """The context that is filled; null: what both engines accept."""
    max_tokens: int = Field(default=24, ge=8, le=131_072)
    """Longest answer in tokens; a model that thinks before it answers needs room for that."""
    concurrency: int = Field(default=16, ge=1, le=4_096)
    """Requests in flight."""
    seed: int = Field(default=0, ge=0)
    """Another seed writes other texts and other keys."""
    limits: Limits = Limits()
