"""Writing the prompts: as many sentences as fill a share of the context, counted by the baseline's own tokenizer.

A sentence has no fixed number of tokens, so a prompt is rendered, corrected by what it is off, and rendered again; a
prompt never gets longer than its share less the answer, so both arms can always answer it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from servegate.checks.contract import Inputs, ReadFile
from servegate.checks.retrieval.record import LongPrompt, RetrievalInputs
from servegate.checks.retrieval.settings import RetrievalSettings
from servegate.checks.retrieval.texts import key_of, text_of
from servegate.domain.evidence import EngineFacts, sha256_of_token_ids
from servegate.domain.workload import ChatPrompt
from servegate.errors import MeasurementError, UsageError
from servegate.ports import Probes

CORRECTIONS = 5
"""Most renderings of one prompt; the first correction mostly lands within one sentence."""
NEAR = 4
"""A prompt that could hold fewer than so many more sentences is long enough."""
SAMPLE = 64
"""Sentences by which the tokens of a sentence are first estimated."""


@dataclass
class _Draft:
    id: str
    depth: int
    place: float
    seed: str
    room: int
    sentences: int = 0
    token_ids: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        return text_of(self.seed, self.sentences, self.place)


def load(_settings: RetrievalSettings, _read_file: ReadFile) -> RetrievalInputs:
    """Return no prompt yet: how long they are is known once the baseline's engine serves."""
    return RetrievalInputs()


def prepare(probes: Probes, settings: RetrievalSettings, _inputs: Inputs, engine: EngineFacts) -> Inputs:
    """Return the prompts with their token ids under the baseline's chat template.

    Raises:
        UsageError: the context or `max_prompt_tokens` has no room for a prompt.
        MeasurementError: nobody says how long the context is, or a prompt could not be fitted into it.
    """
    known = [length for length in (settings.context_tokens, engine.max_model_len) if length is not None]
    if not known:
        raise MeasurementError(
            "retrieval: the engine did not say how long its context is", advice="Set checks.retrieval.context_tokens."
        )
    context = min(known)
    room, count = rooms(settings, context), prompts_at(settings, context)
    empty, sample = (len(ids) for ids in _rendered(probes, {"empty": text_of("", 0, 0), "sample": text_of("", SAMPLE, 0)}))
    slope = (sample - empty) / SAMPLE
    if slope <= 0 or min(room.values()) < empty or not count:
        raise UsageError(
            f"checks.retrieval: no room for prompts of {', '.join(f'{depth} %' for depth in room)} of a context of {context}",
            why=f"Without any filler such a prompt has {empty} tokens; one round may have {settings.max_prompt_tokens}.",
            advice="Raise depths_percent or max_prompt_tokens, or serve with a longer context.",
        )
    drafts = [
        _Draft(f"d{depth}-{number:02}", depth, (number + 0.5) / count, f"{settings.seed}-{depth}-{number}", most)
        for depth, most in room.items()
        for number in range(count)
    ]
    for draft in drafts:
        draft.sentences = int((draft.room - empty) / slope)
    _fit(probes, drafts, slope)
    return RetrievalInputs(
        prompts=tuple(
            LongPrompt(
                id=draft.id,
                depth_percent=draft.depth,
                place=draft.place,
                key=key_of(draft.seed),
                text=draft.text,
                token_ids=draft.token_ids,
                token_ids_sha256=sha256_of_token_ids(draft.token_ids),
            )
            for draft in drafts
        ),
        context_tokens=context,
        wanted_per_depth=settings.prompts_per_depth,
    )


def rooms(settings: RetrievalSettings, context: int) -> dict[int, int]:
    """Return the most tokens that a prompt of each depth may have."""
    return {depth: context * depth // 100 - settings.max_tokens for depth in sorted(set(settings.depths_percent))}


def prompts_at(settings: RetrievalSettings, context: int) -> int:
    """Return how many prompts of each depth are asked."""
    most = sum(max(0, each) for each in rooms(settings, context).values())
    return min(settings.prompts_per_depth, settings.max_prompt_tokens // max(1, most))


def _fit(probes: Probes, drafts: Sequence[_Draft], slope: float) -> None:
    """Render the drafts, and correct those that are too long or leave room for more sentences."""
    waiting = list(drafts)
    for correction in range(CORRECTIONS):
        for draft in waiting if correction else ():
            draft.sentences = max(0, draft.sentences + math.floor((draft.room - len(draft.token_ids)) / slope))
        for draft, ids in zip(waiting, _rendered(probes, {draft.id: draft.text for draft in waiting}), strict=True):
            draft.token_ids = ids
        waiting = [draft for draft in waiting if not 0 <= draft.room - len(draft.token_ids) < NEAR * slope]
        if not waiting:
            return
    long = [draft.id for draft in drafts if len(draft.token_ids) > draft.room]
    if long:
        raise MeasurementError(f"retrieval: prompts could not be fitted into the context: {', '.join(long[:5])}")


def _rendered(probes: Probes, texts: dict[str, str]) -> list[tuple[int, ...]]:
    """Return the token ids of each text as a user's message, in order."""
    asked = [ChatPrompt(id=name, messages=({"role": "user", "content": text},)) for name, text in texts.items()]
    found = {item.id: item.token_ids for item in probes.completions.render(asked)}
    missing = [name for name in texts if not found.get(name)]
    if missing:
        raise MeasurementError(f"retrieval: the prompt {missing[0]!r} was not rendered to token ids")
    return [found[name] for name in texts]
