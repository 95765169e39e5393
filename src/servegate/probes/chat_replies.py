"""What is sent to `/v1/chat/completions` and what an answer of it means; pure functions.

The chat route is asked where the answer has parts: tool calls, or reasoning in a field of its own. The engine renders the
messages itself, so what it was given is part of its answer (`return_token_ids`) and is compared between the arms; here it
is only kept. Written for vLLM 0.25 to 0.32.
"""

from __future__ import annotations

from typing import Any

from servegate.domain.evidence import ItemStatus
from servegate.domain.records import Json
from servegate.domain.workload import Chat, Completion, CompletionRequest
from servegate.http import Reply
from servegate.probes.answered import completed
from servegate.probes.completion_replies import NOT_STREAMED, pinned
from servegate.probes.reply_parts import (
    UnusableReplyError,
    document_of,
    failed,
    id_of,
    ids_of,
    number_of,
    only_choice,
    ranked_of,
    usage_of,
)

LONGEST_NAME = 200
"""Characters of a function's name; OpenAI allows 64, and the rest is garbage of a broken call."""


def chat_payload(model: str, request: CompletionRequest, chat: Chat) -> dict[str, Json]:
    """Return the JSON body of one request, with every parameter that a server could fill in otherwise."""
    body: dict[str, Json] = {
        **pinned(model, request),
        "messages": list(chat.messages),
        "stream": False,
        "logprobs": request.top_logprobs > 0,
        "add_generation_prompt": True,
        "add_special_tokens": False,
        "include_reasoning": True,
    }
    if request.top_logprobs:
        body["top_logprobs"] = request.top_logprobs
    if chat.tools:
        body |= {"tools": list(chat.tools), "tool_choice": "auto" if chat.tool_choice is None else chat.tool_choice}
    if chat.chat_template_kwargs:
        body["chat_template_kwargs"] = chat.chat_template_kwargs
    return body


def chat_completion(request: CompletionRequest, reply: Reply) -> Completion:
    """Return what an answer says, or a `failed` record that says why it cannot be used."""
    try:
        return _completion(request, reply)
    except UnusableReplyError as error:
        return failed(request, ItemStatus.FAILED, str(error))


def _completion(request: CompletionRequest, reply: Reply) -> Completion:
    document, problem = document_of(reply)
    if problem is not None:
        raise UnusableReplyError(problem)
    choice = only_choice(document)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise UnusableReplyError("the choice holds no message")
    given = document.get("prompt_token_ids")
    if given is None:
        raise UnusableReplyError("the engine did not return prompt_token_ids, so what it saw is not known")
    seen, counted = ids_of(given, "prompt_token_ids"), usage_of(document, None)["prompt_tokens"]
    if not seen or counted not in (None, len(seen)):
        raise UnusableReplyError(f"the engine counts {counted} tokens of the prompt and returns {len(seen)} prompt_token_ids")
    content = message.get("content")
    if content is not None and not isinstance(content, str):
        raise UnusableReplyError(f"the answer's content is {type(content).__name__}, not a string")
    content = content or ""
    calls = _calls(message.get("tool_calls"))
    token_ids = ids_of(choice.get("token_ids"), "token_ids")
    return completed(
        request,
        reply,
        document,
        choice=choice,
        message=message,
        content=content,
        token_ids=token_ids,
        calls=calls,
        prompt_token_ids=seen,
        ttft_ms_reason=NOT_STREAMED,
        **_logprobs(choice.get("logprobs"), token_ids, request.top_logprobs),
    )


def _calls(stated: Json) -> tuple[dict[str, Json], ...]:
    """Return the name and the arguments of each call, as text; their ids are new for every answer and are left out."""
    if stated is None:
        return ()
    if not isinstance(stated, list):
        raise UnusableReplyError(f"tool_calls is {type(stated).__name__}, not a list")
    calls = []
    for call in stated:
        function = call.get("function") if isinstance(call, dict) else None
        name, arguments = (function.get("name"), function.get("arguments")) if isinstance(function, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(arguments, str | None) or len(name) > LONGEST_NAME:
            raise UnusableReplyError("a tool call has no name, or arguments that are no text")
        calls.append({"name": name, "arguments": arguments or ""})
    return tuple(calls)


def _logprobs(stated: Json, token_ids: tuple[int, ...], k: int) -> dict[str, Any]:
    """Return the chosen logprob per token, and the `k` likeliest ids with theirs, likeliest first, ties by id."""
    if k == 0:
        return {}
    rows = stated.get("content") if isinstance(stated, dict) else None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UnusableReplyError("logprobs were asked for and did not come")
    if tuple(id_of(row.get("token")) for row in rows) != token_ids:
        raise UnusableReplyError(f"{len(rows)} logprobs belong to other tokens than the {len(token_ids)} token_ids")
    ranked = [ranked_of(_tops(row.get("top_logprobs")), k) for row in rows]
    return {
        "logprobs": tuple(number_of(row.get("logprob")) for row in rows),
        "top_ids": tuple(tuple(token for _, token in row) for row in ranked),
        "top_logprobs": tuple(tuple(-value for value, _ in row) for row in ranked),
    }


def _tops(stated: Json) -> list[tuple[Json, Json]]:
    if not isinstance(stated, list) or not all(isinstance(one, dict) for one in stated):
        raise UnusableReplyError("a token has no top_logprobs")
    return [(one.get("token"), one.get("logprob")) for one in stated]
