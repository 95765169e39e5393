"""What the retrieval check records: the prompts as written and rendered, and one answer per prompt and round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from pydantic import model_validator

from servegate.checks.contract import Inputs
from servegate.domain.evidence import ItemStatus, Measurement, absent, ensure_single, unplanned
from servegate.domain.records import Amount, Count, Record, Share


class LongPrompt(Record):
    """One prompt: its pass key, where in the text that stands (`place`, 0 to 1), and its token ids on the baseline."""

    id: str
    depth_percent: Count
    place: Share
    key: str
    text: str
    token_ids: tuple[Count, ...]
    token_ids_sha256: str


class RetrievalInputs(Inputs):
    """Every prompt, shortest depth first; none before the baseline's engine has said how long its context is."""

    prompts: tuple[LongPrompt, ...] = ()
    context_tokens: Count | None = None
    """The context that the depths are percentages of."""
    wanted_per_depth: Count | None = None
    """Prompts that were asked for at each depth, before `max_prompt_tokens`."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        ensure_single("prompts with the id", (one.id for one in self.prompts))
        return self


class Pass(Record):
    """One round over the prompts."""

    round: Count
    concurrency: Count
    seconds: Amount


class Stated(Record):
    """One answer; `error` explains every status that is no answer."""

    prompt_id: str
    round: Count
    token_ids_sha256: str
    sampling_sha256: str
    status: ItemStatus
    text: str = ""
    finish_reason: str | None = None
    completion_tokens: Count | None = None
    completion_tokens_reason: str | None = None
    error: str | None = None


class RetrievalMeasurement(Measurement):
    """Every round of one arm."""

    SAMPLES: ClassVar[tuple[str, ...]] = ("rounds", "answers")

    rounds: tuple[Pass, ...]
    answers: tuple[Stated, ...]

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        ensure_single("answers of prompt and round", ((one.prompt_id, one.round) for one in self.answers))
        ensure_single("records of round", (one.round for one in self.rounds))
        return self

    def gaps(self, steps: Sequence[int], rounds: int, inputs: Any) -> tuple[str, ...]:
        """Return which planned answers are not held."""
        given = inputs.prompts if isinstance(inputs, RetrievalInputs) else ()
        known = dict.fromkeys([*(one.id for one in given), *(one.prompt_id for one in self.answers)])
        return (
            *absent("planned rounds", steps, {one.round for one in self.rounds} & {one.round for one in self.answers}),
            *absent(
                "planned answers",
                [(name, step) for step in steps for name in known],
                [(one.prompt_id, one.round) for one in self.answers],
            ),
        )

    def surplus(self, steps: Sequence[int], inputs: Any) -> tuple[str, ...]:
        """Return rounds past the last, and answers to prompts that were not written."""
        known = [prompt.id for prompt in inputs.prompts] if isinstance(inputs, RetrievalInputs) else []
        return (
            *unplanned("rounds", {*(one.round for one in self.rounds), *(one.round for one in self.answers)}, steps),
            *(unplanned("prompts", (one.prompt_id for one in self.answers), known) if known else ()),
        )
