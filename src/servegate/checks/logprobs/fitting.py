"""Windows that fit into the context of both arms; a shorter context makes them shorter, and the plan says so."""

from __future__ import annotations

from servegate.checks.contract import Choice, Inputs
from servegate.checks.lengths import SOURCE, Longest
from servegate.checks.logprobs.preparing import SHORTEST_WINDOW
from servegate.checks.logprobs.record import LogprobsInputs
from servegate.checks.logprobs.settings import LogprobsSettings
from servegate.checks.prompts.fitting import remark

KEY = "checks.logprobs.corpus.window_tokens"
ADVICE = f"Serve with a longer max-model-len: a window needs at least {SHORTEST_WINDOW} tokens, and one is generated after it."


def fit(settings: LogprobsSettings, inputs: Inputs | None, longest: Longest) -> Choice:
    """Return settings whose windows fit.

    Raises:
        UsageError: the context has no room for the shortest window, for a stated one, or for an answer of one's own traffic.
    """
    room, wanted = longest.tokens - 1, settings.corpus.window_tokens
    if room < SHORTEST_WINDOW or (room < wanted and longest.place(KEY) is not None):
        longest.refuse(KEY, f"windows of {wanted:,} tokens, with one generated after each,", ADVICE)
    notes, sources = [], {}
    if room < wanted:
        settings = settings.model_copy(update={"corpus": settings.corpus.model_copy(update={"window_tokens": room})})
        sources[KEY] = SOURCE
        notes.append(
            f"logprobs: windows have {room:,} tokens, not {wanted:,}, which do not fit into {longest.tokens:,} tokens of "
            f"context ({longest.said})"
        )
    if settings.own_traffic is not None and isinstance(inputs, LogprobsInputs):
        notes.append(remark("logprobs.own_traffic", "checks.logprobs.own_traffic.max_tokens", inputs.traffic, longest))
    return Choice(settings, "; ".join(note for note in notes if note), sources)
