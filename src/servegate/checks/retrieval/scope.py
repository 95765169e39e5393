"""What was asked, in a few words: how many pass keys, and how long the longest prompt was."""

from __future__ import annotations

from servegate.checks.contract import Evidence
from servegate.checks.retrieval.record import RetrievalInputs, RetrievalMeasurement
from servegate.checks.retrieval.settings import RetrievalSettings


def scope(evidence: Evidence[RetrievalMeasurement], settings: RetrievalSettings) -> str:  # noqa: ARG001 - the inputs say it
    """Return e.g. `60 pass keys at 25, 50, 90 % of 8,192 tokens, longest prompt 7,372`."""
    inputs = evidence.inputs
    if not isinstance(inputs, RetrievalInputs) or not inputs.prompts:
        return ""
    depths = ", ".join(str(depth) for depth in sorted({prompt.depth_percent for prompt in inputs.prompts}))
    context = f"{inputs.context_tokens:,} tokens" if inputs.context_tokens is not None else "the context"
    longest = max(len(prompt.token_ids) for prompt in inputs.prompts)
    return f"{len(inputs.prompts)} pass keys at {depths} % of {context}, longest prompt {longest:,}"
