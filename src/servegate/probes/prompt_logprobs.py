"""Scores given texts over an engine's `/v1/completions`: the logprob of every token of a prompt, without generating.

Scoring asks an engine for the whole vocabulary at every position, which has killed engines for lack of memory; so few
requests are in flight, an answer's size is bounded by what was asked, and what was scored before a death is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from servegate.domain.evidence import ItemStatus
from servegate.domain.workload import Endpoint, PromptScore, ScoreRequest
from servegate.errors import MeasurementError
from servegate.http import Call, DeadlineError, HttpError, Reply
from servegate.ports import Advance
from servegate.probes.asking import ask_all, client_of, ensure_unique
from servegate.probes.prompt_logprobs_replies import score_of, score_payload
from servegate.probes.reply_parts import document_of

TOKENIZE_CONCURRENCY = 16
LARGEST_ENTRY_BYTES = 512
"""Bytes of one `"id": {"logprob", "rank", "decoded_token"}`; decoded tokens are short, but escapes take six bytes each."""
SPARE_BYTES = 1 << 20


class HttpPromptLogprobs:
    """Scores texts at one endpoint; answers `ports.PromptLogprobs`."""

    def __init__(self, endpoint: Endpoint, *, request_timeout_s: float, ensure_alive: Callable[[], None]) -> None:
        """Point at an endpoint. `ensure_alive` raises EngineError when the engine's process is gone."""
        self._endpoint = endpoint
        self._request_timeout_s = request_timeout_s
        self._ensure_alive = ensure_alive

    def tokenize(self, texts: Sequence[str], *, special: bool) -> tuple[tuple[int, ...], ...]:
        """Return each text's token ids, in order. Raises MeasurementError when one cannot be tokenized."""
        body = {"model": self._endpoint.model, "add_special_tokens": special}
        calls = [Call("/tokenize", {**body, "prompt": text}) for text in texts]
        found: dict[int, tuple[int, ...]] = {}
        with client_of(self._endpoint, self._request_timeout_s) as client:
            for outcome in client.results(calls, TOKENIZE_CONCURRENCY):
                if outcome is None:
                    self._ensure_alive()
                else:
                    found[outcome[0]] = _token_ids(outcome[1])
        return tuple(found[index] for index in range(len(texts)))

    def why_unsupported(self, token_ids: tuple[int, ...], top_k: int) -> str | None:
        """Score one short text. Raises EngineError when the engine is gone, which says nothing about what it supports."""
        probe = self.score([ScoreRequest(id="capability", token_ids=token_ids)], top_k, 1, lambda _: None)[0]
        if probe.status is ItemStatus.OK and probe.missing < len(token_ids) - 1:
            return None
        self._ensure_alive()
        return probe.error or "the engine gave no token a usable logprob"

    def score(
        self, requests: Sequence[ScoreRequest], top_k: int, concurrency: int, advance: Advance
    ) -> tuple[PromptScore, ...]:
        """Score every text; one record each, in request order, whatever happened to it.

        Raises:
            ValueError: two requests have the same id, so that their scores could not be told apart.
        """
        ensure_unique([request.id for request in requests])
        longest = max((len(request.token_ids) for request in requests), default=0)
        most = longest * (top_k + 1) * LARGEST_ENTRY_BYTES + SPARE_BYTES
        return ask_all(
            client_of(self._endpoint, self._request_timeout_s, max_bytes=most),
            [Call("/v1/completions", score_payload(self._endpoint.model, request, top_k)) for request in requests],
            concurrency,
            read=lambda index, reply: _record(requests[index], reply, top_k),
            skipped=lambda index, why: PromptScore.nothing(requests[index].id, ItemStatus.SKIPPED, f"not scored: {why}", top_k),
            advance=advance,
            ensure_alive=self._ensure_alive,
        )


def _record(request: ScoreRequest, reply: Reply | HttpError, top_k: int) -> PromptScore:
    if isinstance(reply, DeadlineError):
        return PromptScore.nothing(request.id, ItemStatus.TIMEOUT, reply.what, top_k)
    if isinstance(reply, HttpError):
        return PromptScore.nothing(request.id, ItemStatus.FAILED, reply.what, top_k)
    return score_of(request, reply, top_k)


def _token_ids(reply: Reply | HttpError) -> tuple[int, ...]:
    document, problem = (None, reply.what) if isinstance(reply, HttpError) else document_of(reply)
    if problem is None:
        tokens = document.get("tokens") if isinstance(document, dict) else None
        if isinstance(tokens, list) and all(type(token) is int and token >= 0 for token in tokens):
            return tuple(tokens)
        problem = "the answer holds no token ids"
    raise MeasurementError(f"a text could not be tokenized: {problem}")
