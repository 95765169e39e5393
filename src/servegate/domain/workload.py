"""What probes send to an endpoint and what they bring back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

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


class ChatPrompt(Record):
    """A prompt before rendering: OpenAI chat messages."""

    id: str
    messages: tuple[dict[str, Json], ...]


class Rendered(Record):
    """A prompt rendered to token ids by the endpoint's own tokenizer and chat template."""

    id: str
    token_ids: tuple[int, ...]


class CompletionRequest(Record):
    """One completion with every sampling parameter pinned, so that no engine default can differ between arms.

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

    def as_served(self, seed: int) -> Self:
        """Return the request with the serving config's own sampling: only its seed and length are stated."""
        return self.model_copy(update={**dict.fromkeys(SAMPLING), "seed": seed})


class Completion(Record):
    """What came back for one request. `error` explains every status that is not `ok` or `truncated`."""

    id: str
    status: ItemStatus
    finish_reason: str | None = None
    text: str = ""
    reasoning: str | None = None
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float | None, ...] = ()
    top_ids: tuple[tuple[int, ...], ...] = ()
    top_logprobs: tuple[tuple[float, ...], ...] = ()
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    e2e_latency_s: float | None = None
    error: str | None = None


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


class LoadSpec(Record):
    """One load-test point: fixed lengths, `ignore_eos`, everything sent at once up to `concurrency`."""

    input_tokens: int
    output_tokens: int
    concurrency: int
    requests: int
    warm_up_requests: int
    seed: int
    label: str
    """Names the raw files of this point; [a-z0-9-]+."""


class LoadResult(Record):
    """What the load generator reported for one point. Percentiles are maps such as {"mean": ..., "p50": ..., "p99": ...}."""

    requests: int
    completed: int
    failed: int
    input_tokens: int
    output_tokens: int
    duration_s: float
    output_tokens_per_second: float
    ttft_ms: dict[str, float]
    tpot_ms: dict[str, float]
    itl_ms: dict[str, float]
    e2e_latency_s: dict[str, float]
    prefix_cache_hit_rate: float | None = None
    prefix_cache_hit_rate_reason: str | None = None
    command: tuple[str, ...] = ()


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
