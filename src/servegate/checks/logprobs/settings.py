"""Settings of the logprobs check. Everything but `limits` belongs to the workload: changing it means measuring again."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from servegate.checks.laxness import LESS, MORE
from servegate.domain.records import Settings


class Limits(Settings):
    """What is tolerated; recorded evidence can be judged again under other limits."""

    ppl_ratio_pass: float = Field(default=1.02, gt=1)
    """PASS needs the perplexity ratio (candidate over baseline) below this with 95 % confidence (one-sided)."""
    ppl_ratio_fail: float = Field(default=1.05, gt=1)
    """FAIL when the perplexity ratio is above this with 95 % confidence (one-sided)."""
    smallest_tokens: int = Field(default=8192, ge=1)
    """With fewer compared positions there is no PASS."""
    smallest_clusters: int = Field(default=30, ge=2)
    """With fewer windows (or documents) there is no PASS: an interval from few clusters is a guess."""
    smallest_parameters: int = Field(default=1_000_000_000, ge=0)
    """A smaller model only informs, and one of unknown size too: these limits, made for larger ones, do not fit it."""
    noise_ppl_ratio: float = Field(default=1.01, gt=1)
    """An arm that differs from itself by more makes the measurement invalid."""
    noise_rms_delta_p: float = Field(default=0.05, gt=0, le=1)
    """An arm whose own token probabilities move by more (root mean square, 0.05: 5 points) makes the measurement invalid."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.ppl_ratio_fail < self.ppl_ratio_pass:
            raise ValueError(f"ppl_ratio_fail ({self.ppl_ratio_fail}) must not be below ppl_ratio_pass ({self.ppl_ratio_pass})")
        return self


LAXER = {
    "limits.ppl_ratio_pass": MORE, "limits.ppl_ratio_fail": MORE, "limits.smallest_tokens": LESS,
    "limits.smallest_clusters": LESS, "limits.smallest_parameters": LESS, "limits.noise_ppl_ratio": MORE,
    "limits.noise_rms_delta_p": MORE,
}  # fmt: skip
"""Limits that tolerate more when they are larger (`MORE`) or smaller (`LESS`); see `checks.laxness`."""


class Corpus(Settings):
    """The text that both arms score."""

    file: str = Field(default="corpus.txt", min_length=1)
    """UTF-8 text, relative to the gate config; a form feed (U+000C) begins a new document. `hub:wikitext-2` is fetched once."""
    windows: int = Field(default=100, ge=1, le=10_000)
    """So many windows at most, from the start of the file; one that mostly repeats earlier ones does not count."""
    window_tokens: int = Field(default=2048, ge=32, le=131_072)
    """Tokens of a window, less where the model's context is shorter; a document's last window may be shorter."""
    bos: Literal["auto", "none"] = "auto"
    """Begin every window with what the baseline's tokenizer puts before a prompt (`auto`), or with nothing (`none`)."""


class OwnTraffic(Settings):
    """Your own prompts, answered by the baseline at temperature 1 and scored in both arms."""

    file: str = Field(default="bundled:prompts.jsonl", min_length=1)
    """Prompts, one JSON object a line, as for the check `prompts`."""
    samples: int = Field(default=64, ge=2, le=10_000)
    """Answers drawn, over all prompts in turn; 8,192 tokens in 64 answers are the least to rely on."""
    max_tokens: int = Field(default=256, ge=1, le=131_072)
    """Longest answer in tokens."""


class LogprobsSettings(Settings):
    """The same text scored by both arms, token by token."""

    corpus: Corpus = Corpus()
    """The text that is scored."""
    top_k: int = Field(default=1, ge=0, le=20)
    """Likeliest tokens kept at every position: 1 tells whether the top token is the same, 20 bounds KL and total variation.
    Engines refuse more than 20 (`--max-logprobs`)."""
    concurrency: int = Field(default=1, ge=1, le=64)
    """Windows in flight. Scoring holds the whole vocabulary for every position, so more may cost the engine its memory."""
    own_traffic: OwnTraffic | None = None
    """Also measure on your own prompts; left out by default."""
    limits: Limits = Limits()
