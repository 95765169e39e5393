"""Depths that leave room for a prompt; a context that is longer than the arms' is filled as far as theirs go."""

from __future__ import annotations

from servegate.checks.contract import Choice, Inputs
from servegate.checks.lengths import SOURCE, Longest
from servegate.checks.retrieval.settings import RetrievalSettings

KEY = "checks.retrieval.context_tokens"
ADVICE = "Raise depths_percent, lower max_tokens, serve with a longer max-model-len, or say `retrieval: {when: never}`."


def fit(settings: RetrievalSettings, _inputs: Inputs | None, longest: Longest) -> Choice:
    """Return settings that fill no more than the arms accept.

    Raises:
        UsageError: a stated context is longer than the arms', or a depth has no room beside its answer.
    """
    context = settings.context_tokens
    if context is not None and context > longest.tokens and longest.place(KEY) is not None:
        longest.refuse(KEY, f"{context:,} tokens", "Lower context_tokens, or serve with a longer max-model-len.")
    filled = min(context or longest.tokens, longest.tokens)
    shallow = min(settings.depths_percent)
    if filled * shallow // 100 <= settings.max_tokens:
        key = (
            "checks.retrieval.max_tokens" if longest.place("checks.retrieval.max_tokens") else "checks.retrieval.depths_percent"
        )
        room = filled * shallow // 100
        longest.refuse(
            key, f"a prompt and its answer of {settings.max_tokens} tokens in {shallow} % of it ({room:,} tokens)", ADVICE
        )
    if filled == context:
        return Choice(settings)
    return Choice(settings.model_copy(update={"context_tokens": filled}), "", {KEY: SOURCE})
