"""What the prompts check records: the prompts as rendered, and one answer per prompt and round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from servegate.checks.contract import Inputs
from servegate.domain.evidence import ItemStatus, Measurement, absent
from servegate.domain.records import Json, Record


class Prompt(Record):
    """One line of the prompt file; the token ids are empty until the baseline's engine has rendered it."""

    id: str
    category: str
    messages: tuple[dict[str, Json], ...]
    max_tokens: int
    expect: dict[str, Json] | None = None
    prompt_sha256: str
    """Of the messages, as JSON; of all that is asked, when there are tools or arguments of the chat template."""
    tools: tuple[dict[str, Json], ...] = ()
    tool_choice: Json = None
    chat_template_kwargs: dict[str, Json] = {}
    route: Literal["completions", "chat"] = "completions"
    """How both arms are asked: by the rendered ids, or by the messages (tools, a reasoning parser)."""
    token_ids: tuple[int, ...] = ()
    token_ids_sha256: str | None = None
    token_ids_sha256_reason: str | None = "not rendered yet"  # noqa: S105 - token as in tokenizer

    @property
    def asks_more(self) -> bool:
        """The prompt is more than its messages."""
        return bool(self.tools or self.chat_template_kwargs or self.tool_choice is not None)

    @property
    def question(self) -> str:
        """What was asked last, for people."""
        return str(self.messages[-1].get("content", ""))


class PromptsInputs(Inputs):
    """Every prompt of the file, in its order; or those of one step, and what kind of step it is."""

    prompts: tuple[Prompt, ...]
    asked: Literal["all", "contracts", "sampled", "sequential"] = "all"

    def called(self, step: int) -> str:
        """Return what people call the step that asks this part."""
        return {"sampled": "samples", "sequential": "one at a time"}.get(self.asked, super().called(step))


class Round(Record):
    """One pass over the prompts."""

    round: int
    name: str
    concurrency: int
    seconds: float
    asked: Literal["all", "contracts"] = "all"
    """Which prompts were asked: all of them, or only those with a contract."""


class ExtraPass(Record):
    """A pass beside the rounds: contracts sampled several times, or some prompts one after the other."""

    name: Literal["sampled", "sequential"]
    concurrency: int
    seconds: float
    answers: int


class Answer(Record):
    """One answer. Its tokens are `rows` rows of the columns from `first_row`; `error` explains every missing number."""

    prompt_id: str
    round: int
    prompt_sha256: str
    token_ids_sha256: str
    sampling_sha256: str
    status: ItemStatus
    finish_reason: str | None = None
    text: str = ""
    reasoning: str | None = None
    reasoning_field: str | None = None
    """`reasoning`, `reasoning_content`, or `text` for a think block in the text."""
    tool_calls: tuple[Json, ...] = ()
    """{"name", "arguments"}, also at the end of `text` as one line each."""
    own_token_ids_sha256: str | None = None
    """What the arm's own chat template makes of the prompt; asked once, in round 0. Equal to `token_ids_sha256` or told."""
    own_token_ids_sha256_reason: str | None = None
    prompt_tokens: int | None = None
    prompt_tokens_reason: str | None = None
    completion_tokens: int | None = None
    completion_tokens_reason: str | None = None
    cached_tokens: int | None = None
    cached_tokens_reason: str | None = None
    e2e_latency_s: float | None = None
    e2e_latency_s_reason: str | None = None
    ttft_ms: float | None = None
    ttft_ms_reason: str | None = None
    cosine: float | None = None
    """Of the candidate: to the baseline's answer of the same round, by the model of `prompts.embeddings`."""
    cosine_reason: str | None = None
    error: str | None = None
    first_row: int = 0
    rows: int = 0


class PromptsMeasurement(Measurement):
    """Every round of one arm.

    Columns, one row a generated token: token_id i4[R], logprob f4[R] (nats, of the token that was generated), top_id
    i4[R,k] and top_logprob f4[R,k] (likeliest first), arrival_ms f4[R] (from writing the request to the token; absent in
    old runs). Missing ids are -1, missing logprobs and times NaN.
    """

    SAMPLES: ClassVar[tuple[str, ...]] = ("rounds", "answers", "passes", "sampled", "sequential")
    COLUMNS: ClassVar[dict[str, tuple[str, int]]] = {
        "token_id": ("iu", 1), "logprob": ("f", 1), "top_id": ("iu", 2), "top_logprob": ("f", 2),
    }  # fmt: skip

    rounds: tuple[Round, ...]
    answers: tuple[Answer, ...]
    passes: tuple[ExtraPass, ...] = ()
    sampled: tuple[Answer, ...] = ()
    """Answers drawn by the serving config's own sampling; `round` numbers the sample. They have no rows."""
    sequential: tuple[Answer, ...] = ()
    """Greedy answers to prompts asked one after the other. They have no rows."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        for answers in (self.answers, self.sampled, self.sequential):
            keys = {(answer.prompt_id, answer.round) for answer in answers}
            if len(keys) != len(answers):
                raise ValueError("two answers have the same prompt id and round")
        if len({one.round for one in self.rounds}) != len(self.rounds):
            raise ValueError("two rounds have the same number")
        if unlisted := sorted({answer.round for answer in self.answers} - {one.round for one in self.rounds}):
            raise ValueError(f"there are answers of round {unlisted[0]}, which is not among the rounds")
        lengths = {len(column) for column in self.columns.values()} or {0}
        needed = max((answer.first_row + answer.rows for answer in self.answers), default=0)
        if len(lengths) != 1 or needed > max(lengths) or any(one.first_row < 0 or one.rows < 0 for one in self.answers):
            raise ValueError(f"answers need {needed} rows, the columns have {sorted(lengths)}")
        if self.columns and self.columns["top_id"].shape != self.columns["top_logprob"].shape:
            raise ValueError("the columns 'top_id' and 'top_logprob' differ in shape")
        return self

    def gaps(self, steps: Sequence[int], rounds: int, inputs: Any) -> tuple[str, ...]:
        """Return which planned answers are not held. Rounds past the gate's ask only prompts with a contract.

        The last steps are the passes beside the rounds; one that is missing makes a round look missing.
        """
        prompts = inputs.prompts if isinstance(inputs, PromptsInputs) else ()
        held = any(prompt.expect for prompt in prompts)
        planned = steps[: max(len(steps) - len(self.passes), 0)]
        expected = [(prompt.id, step) for step in planned for prompt in prompts if step < rounds or prompt.expect or not held]
        answers = {(answer.prompt_id, answer.round) for answer in self.answers}
        beside = {"sampled": len(self.sampled), "sequential": len(self.sequential)}
        lost = {name: sum(one.answers for one in self.passes if one.name == name) - count for name, count in beside.items()}
        return (
            *absent("planned rounds or passes", planned, (one.round for one in self.rounds)),
            *absent("planned answers", expected, answers),
            *(f"{count} {name} answers are not there" for name, count in lost.items() if count > 0),
        )
