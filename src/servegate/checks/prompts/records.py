"""What the prompts check records: the prompts as rendered, and one answer per prompt and round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from servegate.checks.contract import Inputs
from servegate.domain.evidence import LOGPROBS, ItemStatus, Measurement, absent, ensure_single, unplanned
from servegate.domain.records import MOST, Amount, Count, Json, Real, Record


class Prompt(Record):
    """One line of the prompt file; the token ids are empty until the baseline's engine has rendered it."""

    id: str
    category: str
    messages: tuple[dict[str, Json], ...]
    max_tokens: Count
    expect: dict[str, Json] | None = None
    prompt_sha256: str
    """Of the messages, as JSON; of all that is asked, when there are tools or arguments of the chat template."""
    tools: tuple[dict[str, Json], ...] = ()
    tool_choice: Json = None
    chat_template_kwargs: dict[str, Json] = {}
    route: Literal["completions", "chat"] = "completions"
    """How both arms are asked: by the rendered ids, or by the messages (tools, a reasoning parser)."""
    token_ids: tuple[Count, ...] = ()
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

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        ensure_single("prompts with the id", (one.id for one in self.prompts))
        return self

    def called(self, step: int) -> str:
        """Return what people call the step that asks this part."""
        return {"sampled": "samples", "sequential": "one at a time"}.get(self.asked, super().called(step))


class Round(Record):
    """One pass over the prompts."""

    round: Count
    name: str
    concurrency: Count
    seconds: Amount
    asked: Literal["all", "contracts"] = "all"
    """Which prompts were asked: all of them, or only those with a contract."""


class ExtraPass(Record):
    """A pass beside the rounds: contracts sampled several times, or some prompts one after the other."""

    name: Literal["sampled", "sequential"]
    concurrency: Count
    seconds: Amount
    answers: Count


class Answer(Record):
    """One answer. Its tokens are `rows` rows of the columns from `first_row`; `error` explains every missing number."""

    prompt_id: str
    round: Count
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
    prompt_tokens: Count | None = None
    prompt_tokens_reason: str | None = None
    completion_tokens: Count | None = None
    completion_tokens_reason: str | None = None
    cached_tokens: Count | None = None
    cached_tokens_reason: str | None = None
    e2e_latency_s: Amount | None = None
    e2e_latency_s_reason: str | None = None
    ttft_ms: Amount | None = None
    ttft_ms_reason: str | None = None
    cosine: Annotated[Real, Field(ge=-1.001, le=1.001)] | None = None
    """Of the candidate: to the baseline's answer of the same round, by the model of `prompts.embeddings`."""
    cosine_reason: str | None = None
    error: str | None = None
    first_row: Count = 0
    rows: Count = 0


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

    RANGES: ClassVar[dict[str, tuple[float, float]]] = {
        "token_id": (-1, MOST), "top_id": (-1, MOST), "logprob": LOGPROBS, "top_logprob": LOGPROBS, "arrival_ms": (0, MOST),
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
            ensure_single("answers of prompt and round", ((one.prompt_id, one.round) for one in answers))
        ensure_single("records of round", (one.round for one in self.rounds))
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

    def surplus(self, steps: Sequence[int], inputs: Any) -> tuple[str, ...]:
        """Return rounds past the last, and answers to prompts that the file does not have."""
        known = [prompt.id for prompt in inputs.prompts] if isinstance(inputs, PromptsInputs) else []
        answers = (*self.answers, *self.sampled, *self.sequential)
        return (
            *unplanned("rounds", (one.round for one in self.rounds), steps[: max(len(steps) - len(self.passes), 0)]),
            *(unplanned("prompts", (one.prompt_id for one in answers), known) if known else ()),
        )
