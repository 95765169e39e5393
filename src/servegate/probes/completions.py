"""Renders and completes prompts over an engine's HTTP interface.

A prompt is rendered to token ids once, by the engine's own chat template (`POST /tokenize`), and sent as ids, so that
both arms are given the same input whatever their tokenizers would have made of the text.

Answers are not streamed: texts, ids and logprobs are compared, not their arrival, and at 64 in flight one parse per
answer costs a fiftieth of one parse per token. A hung engine is told by the deadline of each request instead, and by
giving up when everything in flight ran into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from servegate.domain.evidence import ItemStatus
from servegate.domain.workload import ChatPrompt, Completion, CompletionRequest, Endpoint, Rendered
from servegate.errors import MeasurementError
from servegate.http import Call, DeadlineError, HttpClient, HttpError, Reply
from servegate.ports import Advance
from servegate.probes.asking import ask_all, ensure_unique
from servegate.probes.completion_replies import completion, document_of, failed, payload

RENDER_CONCURRENCY = 16


class HttpCompletions:
    """Completions of one endpoint; answers `ports.Completions`."""

    def __init__(self, endpoint: Endpoint, *, request_timeout_s: float, ensure_alive: Callable[[], None]) -> None:
        """Point at an endpoint. `ensure_alive` raises EngineError when the engine's process is gone."""
        self._endpoint = endpoint
        self._request_timeout_s = request_timeout_s
        self._ensure_alive = ensure_alive

    def render(self, prompts: Sequence[ChatPrompt]) -> tuple[Rendered, ...]:
        """Return each prompt's token ids, in order. Raises MeasurementError naming the prompt that could not be rendered."""
        calls = [
            Call(
                "/tokenize",
                {
                    "model": self._endpoint.model,
                    "messages": list(prompt.messages),
                    "add_generation_prompt": True,
                    "add_special_tokens": False,
                },
            )
            for prompt in prompts
        ]
        rendered: dict[int, Rendered] = {}
        with self._client() as client:
            for outcome in client.results(calls, RENDER_CONCURRENCY):
                if outcome is None:
                    self._ensure_alive()
                    continue
                index, reply = outcome
                rendered[index] = Rendered(id=prompts[index].id, token_ids=_token_ids(prompts[index].id, reply))
        return tuple(rendered[index] for index in range(len(prompts)))

    def complete(self, requests: Sequence[CompletionRequest], concurrency: int, advance: Advance) -> tuple[Completion, ...]:
        """Complete every request; one record each, in request order, whatever happened to it.

        Raises:
            ValueError: two requests have the same id, so that their answers could not be told apart.
        """
        ensure_unique([request.id for request in requests])
        return ask_all(
            self._client(),
            [Call("/v1/completions", payload(self._endpoint.model, request)) for request in requests],
            concurrency,
            read=lambda index, reply: _record(requests[index], reply),
            skipped=lambda index, why: failed(requests[index], ItemStatus.SKIPPED, f"not completed: {why}"),
            advance=advance,
            ensure_alive=self._ensure_alive,
        )

    def _client(self) -> HttpClient:
        return HttpClient(self._endpoint.base_url, total_s=self._request_timeout_s)


def _record(request: CompletionRequest, reply: Reply | HttpError) -> Completion:
    if isinstance(reply, DeadlineError):
        return failed(request, ItemStatus.TIMEOUT, reply.what)
    if isinstance(reply, HttpError):
        return failed(request, ItemStatus.FAILED, reply.what)
    return completion(request, reply)


def _token_ids(prompt_id: str, reply: Reply | HttpError) -> tuple[int, ...]:
    document, problem = (None, reply.what) if isinstance(reply, HttpError) else document_of(reply)
    if problem is None:
        tokens = document.get("tokens") if isinstance(document, dict) else None
        if isinstance(tokens, list) and tokens and all(type(token) is int and 0 <= token < 2**31 for token in tokens):
            return tuple(tokens)
        problem = "the answer holds no token ids"
    raise MeasurementError(
        f"prompt {prompt_id!r} could not be rendered: {problem}",
        why="The engine's /tokenize applies the model's chat template to every prompt before it is sent.",
        advice="Check the prompt's messages, and that the model has a chat template.",
    )
