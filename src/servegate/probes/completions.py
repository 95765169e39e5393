"""Renders and completes prompts over an engine's HTTP interface.

A prompt is rendered to token ids once, by the engine's own chat template (`POST /tokenize`), and sent as ids, so that
both arms are given the same input whatever their tokenizers would have made of the text. Requests with `chat` go to the
chat route instead, the only one that takes tool calls and reasoning apart.

Ids are answered in a stream, which dates every token; it is put together when it has ended, one parse an answer
(`event_stream`). The chat route is not streamed: what a parser makes of a whole answer is the evidence, streaming parsers
are other code that loses and invents parts of a call (https://github.com/vllm-project/vllm/issues/11392,
https://github.com/vllm-project/vllm/issues/28806), and text that a parser holds back has no times worth keeping. A hung
engine is told by the deadline of each request, and by giving up when everything in flight ran into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from servegate.domain.evidence import ItemStatus
from servegate.domain.workload import ChatPrompt, Completion, CompletionRequest, Endpoint, Rendered
from servegate.errors import MeasurementError
from servegate.http import Call, DeadlineError, HttpClient, HttpError, Reply
from servegate.ports import Advance
from servegate.probes.asking import ask_all, client_of, ensure_unique
from servegate.probes.chat_replies import chat_completion, chat_payload
from servegate.probes.completion_replies import completion, payload
from servegate.probes.reply_parts import document_of, failed

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
                    **({"tools": list(prompt.tools)} if prompt.tools else {}),
                    **({"chat_template_kwargs": prompt.chat_template_kwargs} if prompt.chat_template_kwargs else {}),
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
            [_call(self._endpoint.model, request) for request in requests],
            concurrency,
            read=lambda index, reply: _record(requests[index], reply),
            skipped=lambda index, why: failed(requests[index], ItemStatus.SKIPPED, f"not completed: {why}"),
            advance=advance,
            ensure_alive=self._ensure_alive,
        )

    def _client(self) -> HttpClient:
        return client_of(self._endpoint, self._request_timeout_s)


def _call(model: str, request: CompletionRequest) -> Call:
    if request.chat is not None:
        return Call("/v1/chat/completions", chat_payload(model, request, request.chat))
    return Call("/v1/completions", payload(model, request))


def _record(request: CompletionRequest, reply: Reply | HttpError) -> Completion:
    if isinstance(reply, DeadlineError):
        return failed(request, ItemStatus.TIMEOUT, reply.what)
    if isinstance(reply, HttpError):
        return failed(request, ItemStatus.FAILED, reply.what)
    return completion(request, reply) if request.chat is None else chat_completion(request, reply)


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
