"""Prompts that fit into the context of both arms, as far as that can be told without a tokenizer."""

from __future__ import annotations

from collections.abc import Iterable

from servegate.checks.contract import Choice, Inputs
from servegate.checks.lengths import Longest, estimated
from servegate.checks.prompts.records import Prompt, PromptsInputs
from servegate.checks.prompts.settings import PromptsSettings

NAMED = 5


def fit(settings: PromptsSettings, inputs: Inputs | None, longest: Longest) -> Choice:
    """Return the settings as they are, with a remark where a prompt may be too long.

    Raises:
        UsageError: an answer of `max_tokens` leaves no room for one token of prompt.
    """
    prompts = inputs.prompts if isinstance(inputs, PromptsInputs) else ()
    return Choice(settings, remark("prompts", "checks.prompts.max_tokens", prompts, longest))


def remark(check: str, key: str, prompts: Iterable[Prompt], longest: Longest) -> str:
    """Return a sentence about prompts that may be too long, empty for none. Raises UsageError for those that are."""
    hopeless = [prompt for prompt in prompts if prompt.max_tokens >= longest.tokens]
    if hopeless:
        most = max(prompt.max_tokens for prompt in hopeless)
        longest.refuse(
            key,
            f"answers of {most:,} tokens (prompt {_named(hopeless)})",
            "Lower max_tokens (of the check, or of the prompt), or serve with a longer max-model-len.",
        )
    doubtful = [prompt for prompt in prompts if _tokens(prompt) + prompt.max_tokens > longest.tokens]
    if not doubtful:
        return ""
    return (
        f"{check}: prompt and answer of {_named(doubtful)} may not fit into {longest.tokens:,} tokens of context "
        f"({longest.said}); the engine's tokenizer decides, before anything is asked"
    )


def _tokens(prompt: Prompt) -> int:
    return sum(estimated(str(message.get("content", ""))) for message in prompt.messages)


def _named(prompts: list[Prompt]) -> str:
    more = f" and {len(prompts) - NAMED} more" if len(prompts) > NAMED else ""
    return f"{', '.join(prompt.id for prompt in prompts[:NAMED])}{more}"
