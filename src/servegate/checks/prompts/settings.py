"""Settings of the prompts check. Everything but `limits` belongs to the workload: changing it means measuring again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from servegate.checks.laxness import LESS, MORE, Direction
from servegate.domain.records import Settings


class Limits(Settings):
    """What is tolerated; recorded evidence can be judged again under other limits."""

    contract_breaks: int = Field(default=0, ge=0)
    """Confirmed contract breaks that do not fail the gate."""
    confirm_rounds: int = Field(default=2, ge=1)
    """Rounds in each arm that must agree before a contract break is confirmed; one round is never a proof."""
    degenerate_increase_points: float = Field(default=1.0, ge=0, le=100)
    """Largest increase of degenerate answers (empty, loop, soup), in percentage points of the prompts."""
    cap_hit_increase_points: float = Field(default=1.0, ge=0, le=100)
    """Largest increase of answers that hit `max_tokens`, in percentage points of the prompts."""
    unseen_increase_points: float = Field(default=1.0, gt=0, le=100)
    """Largest increase of degenerate answers or cap hits that may stay possible (upper 95 %) where none was seen. n prompts
    rule out 1 - 0.05^(1/n): 20 prompts 13.9 points, 149 prompts 2, 299 prompts 1."""
    fewest_prompts: int = Field(default=20, ge=1)
    """With fewer compared prompts there is no PASS."""
    fact_changes: Literal["inform", "review"] = "inform"
    """What unread changes of facts do that come in every round: stand in the headline, or ask a person before a PASS."""
    length_ratio_low: float = Field(default=0.9, gt=0, le=1)
    """Smallest ratio of generated tokens, candidate over baseline; below it a person decides."""
    length_ratio_high: float = Field(default=1.1, ge=1)
    """Largest ratio of generated tokens, candidate over baseline."""
    sampled_drop_points: float = Field(default=0.0, ge=0, le=100)
    """Loss of the share of kept contracts under the config's own sampling, in points; one proven to be larger is read."""
    baseline_sound_share: float = Field(default=0.5, ge=0, le=1)
    """Share of the baseline's answers (kept contracts; uncut, sound answers) below which it proves nothing."""


LAXER: Mapping[str, Direction] = {
    "contract_rounds": LESS, "samples": LESS, "limits.contract_breaks": MORE, "limits.confirm_rounds": MORE,
    "limits.degenerate_increase_points": MORE, "limits.cap_hit_increase_points": MORE,
    "limits.unseen_increase_points": MORE, "limits.fewest_prompts": LESS, "limits.length_ratio_low": LESS,
    "limits.length_ratio_high": MORE, "limits.sampled_drop_points": MORE, "limits.baseline_sound_share": LESS,
    "limits.fact_changes": ("review", "inform"),
}  # fmt: skip
"""Limits that tolerate more when they are larger (`MORE`) or smaller (`LESS`); see `checks.laxness`."""


class Embeddings(Settings):
    """An embedding model behind an OpenAI-compatible `/v1/embeddings`, which is none of the arms and needs no key.

    Seen with vLLM 0.32.0 and the demo's model (`--runner pooling --convert embed`), which finds a sentence nearer to its denial
    (0.96) than to itself in other words (0.93).
    """

    url: str = Field(pattern=r"^https?://[^\s/@?#]+(/[^\s@?#]*)?$")
    """Where it answers, without `/v1/embeddings`; texts of both arms are sent there. vLLM serves such a model with
    `--runner pooling`."""
    model: str = Field(min_length=1)
    """The model's name there."""


class PromptsSettings(Settings):
    """One request per prompt and round, greedy, every sampling parameter pinned, same token ids to both arms."""

    file: str = Field(default="prompts.jsonl", min_length=1)
    """The prompts, one JSON object a line; relative to the gate config."""
    max_tokens: int = Field(default=256, ge=1, le=131_072)
    """Longest answer in tokens, unless a prompt has its own."""
    concurrency: int = Field(default=64, ge=1, le=4_096)
    """Requests in flight."""
    contract_rounds: int = Field(default=4, ge=1, le=16)
    """Rounds of the prompts that have a contract (`expect`), when that is more than the gate's `rounds`: the rounds
    beyond those ask only these prompts. A contract that is a fair coin goes from 4 of 4 to 0 of 4 once in 256."""
    samples: int = Field(default=4, ge=0, le=64)
    """Answers to each prompt with a contract that are drawn by the serving config's own sampling; 0: none."""
    sequential: Literal["auto", "always", "never"] = "auto"
    """Whether prompts are also asked one after the other, to tell what batching alone changes. `auto`: at most 32 of them,
    for at most about 20 seconds in the baseline; `always`: all of them."""
    top_logprobs: int = Field(default=5, ge=0, le=20)
    """Likeliest tokens kept at every position, to tell a coin-flip from a changed mind."""
    embeddings: Embeddings | None = None
    """An embedding model whose cosine orders the answers to read, beside the ratio of equal characters. It decides nothing."""
    limits: Limits = Limits()
