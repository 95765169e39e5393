"""How near an answer of the candidate is to the baseline's by an embedding model, where the gate names one.

It orders the reading queue and decides nothing: texts that differ in the one number that matters are as near as can be. So
nothing that the server does or leaves undone is a finding; without a cosine the queue is ordered by difflib's ratio.
"""

from __future__ import annotations

from collections.abc import Sequence

from servegate.checks.contract import MeasureContext
from servegate.checks.prompts.records import Answer, PromptsMeasurement
from servegate.checks.prompts.settings import PromptsSettings
from servegate.ports import Probes

NOT_ASKED = "`prompts.embeddings` names no model"
NO_ANSWER = "one side has no answer"
NO_BASELINE = "the baseline's answer was not there yet"
NO_PROBE = "nothing here asks an embedding model"


def with_cosines(
    probes: Probes, settings: PromptsSettings, context: MeasureContext[PromptsMeasurement], answers: Sequence[Answer]
) -> tuple[Answer, ...]:
    """Return the candidate's answers with their cosine to the baseline's of the same round, or why there is none."""
    asked = settings.embeddings
    if asked is None or context.arm != "candidate":
        return tuple(answers)
    before = {one.prompt_id: one for one in context.baseline.answers if one.round == context.step} if context.baseline else {}
    found: dict[str, tuple[float | None, str | None]] = {}
    pairs: dict[str, tuple[str, str]] = {}
    for answer in answers:
        other = before.get(answer.prompt_id)
        if other is None:
            found[answer.prompt_id] = (None, NO_BASELINE)
        elif not answer.text.strip() or not other.text.strip():
            found[answer.prompt_id] = (None, NO_ANSWER)
        elif answer.text == other.text:
            found[answer.prompt_id] = (1.0, None)
        else:
            pairs[answer.prompt_id] = (other.text, answer.text)
    if probes.embeddings is None:
        found |= dict.fromkeys(pairs, (None, NO_PROBE))
    elif pairs:
        said = probes.embeddings.cosines(asked.url, asked.model, tuple(pairs.values()))
        found |= dict(zip(pairs, said, strict=True))
    return tuple(
        answer.model_copy(update={"cosine": found[answer.prompt_id][0], "cosine_reason": found[answer.prompt_id][1]})
        for answer in answers
    )
