"""What was asked, in a few words: how many prompts, which set (a hash), how long, and how the answers were drawn."""

from __future__ import annotations

from servegate.checks.contract import Evidence, measured
from servegate.checks.prompts.records import PromptsMeasurement
from servegate.checks.prompts.settings import PromptsSettings
from servegate.domain.plan import sha256_of


def scope(evidence: Evidence[PromptsMeasurement], settings: PromptsSettings) -> str:
    """Return e.g. `24 prompts (set 3f0a91c2), longest 310 + 256 tokens, greedy`."""
    asked = {answer.prompt_id: answer.prompt_sha256 for arm in measured(evidence) for answer in arm.answers}
    lengths = [answer.prompt_tokens for arm in measured(evidence) for answer in arm.answers if answer.prompt_tokens is not None]
    longest = f"longest {max(lengths):,} + {settings.max_tokens:,} tokens" if lengths else "lengths not stated by the engine"
    drawn = " (contracts also by the config's own sampling)" if any(arm.sampled for arm in measured(evidence)) else ""
    asked_set = sha256_of(sorted(asked.values()))[:8]
    return f"{len(asked)} prompts (set {asked_set}), {longest}, greedy{drawn}, {settings.concurrency} in flight"
