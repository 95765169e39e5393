"""What probes send to an endpoint and what they bring back; load tests have `load`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from pydantic import Field

from servegate.domain.evidence import ItemStatus
from servegate.domain.records import Json, Record

SAMPLING = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
)  # fmt: skip
"""Parameters that an engine fills from the model's generation config when a request leaves them out."""


class Endpoint(Record):
    """Where an arm is served: base URL without `/v1`, and the served model name (with its nonce)."""

    base_url: str
    model: str
    tokenizer: str
    """Path or hub id of the tokenizer, for tools that count tokens on the client."""
    api_key: str = Field(default="", exclude=True, repr=False)
    """What the engine asks every client for; of this start alone, and never written anywhere."""


class ChatPrompt(Record):
    """A prompt before rendering: OpenAI chat messages, and what else the chat template is given."""

    id: str
    messages: tuple[dict[str, Json], ...]
    tools: tuple[dict[str, Json], ...] = ()
    chat_template_kwargs: dict[str, Json] = {}


class Rendered(Record):
    """A prompt rendered to token ids by the endpoint's own tokenizer and chat template."""

    id: str
    token_ids: tuple[int, ...]


class Chat(Record):
    """A request by its messages: for tools and reasoning, which only the chat route takes apart."""

    messages: tuple[dict[str, Json], ...]
    tools: tuple[dict[str, Json], ...] = ()
    tool_choice: Json = None
    """None is sent as `auto` with tools; else `none`, `auto`, `required` or an object that names a function."""
    chat_template_kwargs: dict[str, Json] = {}


class CompletionRequest(Record):
    """One completion with every sampling parameter pinned, so that no engine default can differ between arms.

    With `chat` the messages are sent and the endpoint's own template renders them; `token_ids` is then what another
    endpoint made of them, for people.
    A parameter that is None is left out, so the engine fills it as it does for any client (`as_served`).
    """

    id: str
    token_ids: tuple[int, ...]
    max_tokens: int
    temperature: float | None = 0.0
    top_p: float | None = 1.0
    top_k: int | None = 0
    min_p: float | None = 0.0
    repetition_penalty: float | None = 1.0
    presence_penalty: float | None = 0.0
    frequency_penalty: float | None = 0.0
    seed: int = 0
    stop: tuple[str, ...] = ()
    top_logprobs: int = 0
    cache_salt: str = ""
    """Requests of different salts share no prefix cache."""
    stream: bool = True
    """Whether tokens come as they are made, which gives their times; the chat route is never streamed."""
    chat: Chat | None = None

    def as_served(self, seed: int) -> Self:
        """Return the request with the serving config's own sampling: only its seed and length are stated."""
        return self.model_copy(update={**dict.fromkeys(SAMPLING), "seed": seed})


class Completion(Record):
    """What came back for one request. `error` explains every status that is not `ok` or `truncated`.

    `text` is the visible answer; of an answer with tool calls, followed by one line a call (`calls_as_text`).
    """

    id: str
    status: ItemStatus
    finish_reason: str | None = None
    text: str = ""
    reasoning: str | None = None
    reasoning_field: str | None = None
    """Where the reasoning stood: `reasoning`, `reasoning_content`, or `text` for a think block in the text itself."""
    tool_calls: tuple[dict[str, Json], ...] = ()
    """{"name", "arguments"}: arguments are the text that the model wrote, parsed by nobody."""
    prompt_token_ids: tuple[int, ...] | None = None
    """What the endpoint made of the messages; None where ids were sent."""
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float | None, ...] = ()
    top_ids: tuple[tuple[int, ...], ...] = ()
    top_logprobs: tuple[tuple[float, ...], ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    e2e_latency_s: float | None = None
    ttft_ms: float | None = None
    """Milliseconds from writing the request to the first token."""
    arrivals_ms: tuple[float, ...] = ()
    """The same for every token, where each came by itself; empty where times of single tokens are not known."""
    ttft_ms_reason: str | None = None
    error: str | None = None


def calls_as_text(calls: Sequence[Mapping[str, Json]]) -> str:
    """Return tool calls as text: one line a call, its arguments as the model wrote them; nothing without a call."""
    return "".join(f"[tool call] {call['name']} {call['arguments']}\n" for call in calls)


class ScoreRequest(Record):
    """A text, as token ids, whose tokens are to be scored: not generated."""

    id: str
    token_ids: tuple[int, ...]
    cache_salt: str = ""


@dataclass(frozen=True)
class PromptScore:
    """What an engine says of every token of a text, n rows, row = position in the text; the first row is never scored.

    `logprob` f4[n] is of the token that stands there, in nats, NaN where none is usable; `rank` i4[n] its rank from 1, -1
    where unknown. `top_id` i4[n,k] and `top_logprob` f4[n,k] are the likeliest tokens by rank, -1 and NaN where missing.
    `clamped` counts tokens whose logprob was minus infinity (written as -9999), `missing` those without a usable number.
    A score whose status is not `ok` has no rows, and `error` says why.
    """

    id: str
    status: ItemStatus
    logprob: npt.NDArray[np.float32]
    rank: npt.NDArray[np.int32]
    top_id: npt.NDArray[np.int32]
    top_logprob: npt.NDArray[np.float32]
    clamped: int = 0
    missing: int = 0
    error: str | None = None

    @classmethod
    def nothing(cls, request_id: str, status: ItemStatus, error: str, top_k: int) -> PromptScore:
        """Return the record of a text that was not scored."""
        return cls(
            id=request_id,
            status=status,
            logprob=np.zeros(0, dtype=np.float32),
            rank=np.zeros(0, dtype=np.int32),
            top_id=np.zeros((0, top_k), dtype=np.int32),
            top_logprob=np.zeros((0, top_k), dtype=np.float32),
            error=error,
        )


class EvaluationSpec(Record):
    """One pass of one task: by lm-eval's own name, or rows of a local file (`questions` set).

    Rows are {"question": ..., "answer": ...} with the answer's last line `#### N`, as in GSM8K.
    """

    task: str
    shots: int
    fewshot: tuple[dict[str, str], ...] = ()
    questions: tuple[dict[str, str], ...] = ()
    limit: int | None = None
    max_tokens: int
    concurrency: int
    max_length: int
    add_bos: bool
    seed: int
    label: str
    metric: str | None = None
    """Which of the task's metrics is read; None: `exact_match` where there is one, else the first."""


class EvaluatedRow(Record):
    """One row of lm-eval's sample log: one document under one filter."""

    doc_id: int
    filter: str
    doc_hash: str
    target_hash: str
    prompt_hash: str
    question: str
    target: str
    response: str
    extracted: str
    score: float


class Evaluation(Record):
    """What lm-eval reported for one pass."""

    task: str
    version: str
    metric: str
    filters: tuple[str, ...]
    rows: tuple[EvaluatedRow, ...]
    lm_eval: str
    command: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    null_answer: str = ""
    """The response of a row whose answer was null; such a row is no answer. The default is lm-eval's own."""
    higher_is_better: bool | None = None
    """What lm-eval says of the metric; None where it says nothing."""
    cut: tuple[int, ...] = ()
    """Documents whose answer is as long as an answer may be: it was cut at the limit."""
    first_token_ids: tuple[int, ...] | None = None
    """The first tokens that the engine makes of the first question's prompt, a beginning-of-text token included."""
    repeated: int = 0
    """Attempts at a request that failed and that lm-eval made again."""
