"""What the retrieval check records: the prompts as written and rendered, and one answer per prompt and round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from pydantic import model_validator

from servegate.checks.contract import Inputs
from servegate.domain.evidence import ItemStatus, Measurement, absent
from servegate.domain.records import Record


class LongPrompt(Record):
    """One prompt: its pass key, where in the text that stands (`place`, 0 to 1), and its token ids on the baseline."""

    id: str
    depth_percent: int
    place: float
    key: str
    text: str
    token_ids: tuple[int, ...]
    token_ids_sha256: str


class RetrievalInputs(Inputs):
    """Every prompt, shortest depth first; none before the baseline's engine has said how long its context is."""

    prompts: tuple[LongPrompt, ...] = ()
    context_tokens: int | None = None
    """The context that the depths are percentages of."""
    wanted_per_depth: int | None = None
    """Prompts that were asked for at each depth, before `max_prompt_tokens`."""


class Pass(Record):
    """One round over the prompts."""

    round: int
    concurrency: int
    seconds: float


class Stated(Record):
    """One answer; `error` explains every status that is no answer."""

    prompt_id: str
    round: int
    token_ids_sha256: str
    sampling_sha256: str
    status: ItemStatus
    text: str = ""
    finish_reason: str | None = None
    completion_tokens: int | None = None
    completion_tokens_reason: str | None = None
    error: str | None = None


class RetrievalMeasurement(Measurement):
    """Every round of one arm."""

    SAMPLES: ClassVar[tuple[str, ...]] = ("rounds", "answers")

    rounds: tuple[Pass, ...]
    answers: tuple[Stated, ...]

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if len({(answer.prompt_id, answer.round) for answer in self.answers}) != len(self.answers):
            raise ValueError("two answers have the same prompt id and round")
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
