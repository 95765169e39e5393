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
from servegate.errors import EngineError, MeasurementError
from servegate.http import Call, ConnectionFailedError, DeadlineError, HttpClient, HttpError, Reply
from servegate.ports import Advance
from servegate.probes.completion_replies import completion, document_of, failed, payload

RENDER_CONCURRENCY = 16
REFUSALS_BEFORE_GIVING_UP = 5
"""So many calls in a row that found nobody at the address: the engine is gone, not busy."""
TIMEOUTS_BEFORE_GIVING_UP = 3
"""So many calls in a row (and at least as many as are in flight) that ran into their deadline: the engine hangs."""


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
        if len({request.id for request in requests}) != len(requests):
            raise ValueError("ids of requests must be unique")
        done: dict[int, Completion] = {}
        watch = Watch(concurrency)
        calls = [Call("/v1/completions", payload(self._endpoint.model, request)) for request in requests]
        given_up = ""
        with self._client() as client:
            for outcome in client.results(calls, concurrency):
                if outcome is not None:
                    index, reply = outcome
                    done[index] = _record(requests[index], reply)
                    advance(1)
                    given_up = watch.verdict_after(reply)
                if not given_up and (outcome is None or isinstance(outcome[1], HttpError)):
                    given_up = self._death()
                if given_up:
                    break
        for index, request in enumerate(requests):
            if index not in done:
                done[index] = failed(request, ItemStatus.SKIPPED, f"not completed: {given_up}")
                advance(1)
        return tuple(done[index] for index in range(len(requests)))

    def _death(self) -> str:
        """Return why the engine is known to be gone, or nothing. The session itself reports it once more, in full."""
        try:
            self._ensure_alive()
        except EngineError as error:
            return error.what
        return ""

    def _client(self) -> HttpClient:
        return HttpClient(self._endpoint.base_url, total_s=self._request_timeout_s)


class Watch:
    """Counts failures in a row, and says when no further request is worth sending."""

    def __init__(self, concurrency: int) -> None:
        """Start with nothing seen; `concurrency` calls are in flight at once."""
        self._most_timeouts = max(TIMEOUTS_BEFORE_GIVING_UP, concurrency)
        self._refusals = 0
        self._timeouts = 0

    def verdict_after(self, reply: Reply | HttpError) -> str:
        """Return why to give up after this outcome, or nothing."""
        self._refusals = self._refusals + 1 if isinstance(reply, ConnectionFailedError) else 0
        self._timeouts = self._timeouts + 1 if isinstance(reply, DeadlineError) else 0
        if self._refusals >= REFUSALS_BEFORE_GIVING_UP:
            return f"the engine did not answer {self._refusals} calls in a row"
        if self._timeouts >= self._most_timeouts:
            return f"the engine hangs: {self._timeouts} calls in a row ran into their deadline"
        return ""


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
