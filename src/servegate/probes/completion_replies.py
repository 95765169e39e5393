"""What is sent to `/v1/completions` and what an answer of it means; pure functions.

Written for vLLM 0.25 to 0.32. Every sampling parameter is sent, because a parameter that is left out is filled from the
model's `generation_config.json`, which quantized repositories often change. Token ids come back beside the text
(`return_token_ids`) and as the keys of the logprobs (`return_tokens_as_token_ids`): texts of different tokens can be
equal, ids cannot.
"""

from __future__ import annotations

import re
from typing import Any

from servegate.domain.evidence import ItemStatus
from servegate.domain.records import Json
from servegate.domain.workload import SAMPLING, Completion, CompletionRequest
from servegate.http import InvalidReplyError, Reply

CLAMPED = -9990.0
"""vLLM writes minus infinity as -9999.0 (`clamp_prompt_logprobs` and the OpenAI serving code): a missing number."""
TOKEN_ID = re.compile(r"token_id:(\d{1,10})")
MESSAGE_LIMIT = 300


class UnusableReplyError(ValueError):
    """The answer cannot be used as evidence; the message says why."""


def payload(model: str, request: CompletionRequest) -> dict[str, Json]:
    """Return the JSON body of one request, with every parameter that a server could fill in otherwise.

    Sampling parameters that the request leaves open are left out, not sent as null.
    """
    body: dict[str, Json] = {
        "model": model,
        "prompt": list(request.token_ids),
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_k": request.top_k,
        "min_p": request.min_p,
        "repetition_penalty": request.repetition_penalty,
        "presence_penalty": request.presence_penalty,
        "frequency_penalty": request.frequency_penalty,
        "seed": request.seed,
        "stop": list(request.stop),
        "n": 1,
        "echo": False,
        "stream": False,
        "min_tokens": 0,
        "ignore_eos": False,
        "stop_token_ids": [],
        "use_beam_search": False,
        "include_stop_str_in_output": False,
        "skip_special_tokens": True,
        "spaces_between_special_tokens": True,
        "add_special_tokens": False,
        "logprobs": request.top_logprobs or None,
        "return_tokens_as_token_ids": True,
        "return_token_ids": True,
    }
    if request.cache_salt:
        body["cache_salt"] = request.cache_salt
    return {name: value for name, value in body.items() if value is not None or name not in SAMPLING}


def failed(request: CompletionRequest, status: ItemStatus, reason: str) -> Completion:
    """Return the record of a request that brought no answer."""
    return Completion(id=request.id, status=status, error=one_line(reason))


def completion(request: CompletionRequest, reply: Reply) -> Completion:
    """Return what an answer says, or a `failed` record that says why it cannot be used."""
    try:
        return _completion(request, reply)
    except UnusableReplyError as error:
        return failed(request, ItemStatus.FAILED, str(error))


def error_of(reply: Reply) -> str | None:
    """Return the server's error message, also when it comes with status 200; None when the answer holds no error."""
    return document_of(reply)[1]


def document_of(reply: Reply) -> tuple[Json, str | None]:
    """Return the parsed body (None when it is no strict JSON) and the error that the answer states, if any."""
    try:
        document = reply.json()
    except InvalidReplyError as invalid:
        what = invalid.what if reply.status == 200 else f"HTTP {reply.status}"
        return None, one_line(f"{what}: {reply.excerpt()}")
    if isinstance(document, dict):
        stated = document.get("error", document.get("message") if document.get("object") == "error" else None)
        if stated:
            message = stated.get("message", stated) if isinstance(stated, dict) else stated
            return document, one_line(f"HTTP {reply.status}: {message}")
    return document, None if reply.status == 200 else one_line(f"HTTP {reply.status}: {reply.excerpt()}")


def one_line(text: str) -> str:
    """Return a message that fits one line: printable, bounded."""
    shown = "".join(char if char.isprintable() else " " for char in text[: 4 * MESSAGE_LIMIT])
    return shown if len(shown) <= MESSAGE_LIMIT else shown[: MESSAGE_LIMIT - 1] + "…"


def _completion(request: CompletionRequest, reply: Reply) -> Completion:
    document, error = document_of(reply)
    if error is not None:
        raise UnusableReplyError(error)
    choice = _only_choice(document)
    if choice.get("prompt_token_ids") != list(request.token_ids):
        raise UnusableReplyError(_other_prompt(choice.get("prompt_token_ids"), request.token_ids))
    text = choice.get("text")
    if not isinstance(text, str):
        raise UnusableReplyError(f"the answer's text is {type(text).__name__}, not a string")
    token_ids = _ids(choice.get("token_ids"), "token_ids")
    logprobs, top_ids, top_logprobs = _logprobs(choice.get("logprobs"), token_ids, request.top_logprobs)
    usage = document.get("usage") if isinstance(document.get("usage"), dict) else {}
    details = usage.get("prompt_tokens_details")
    finish = choice.get("finish_reason")
    reasoning, answer = _reasoning(text, choice)
    status, error = _status(finish, text, answer, reasoning, len(token_ids), request.max_tokens)
    return Completion(
        id=request.id,
        status=status,
        finish_reason=finish if isinstance(finish, str) else None,
        text=text,
        reasoning=reasoning,
        token_ids=token_ids,
        logprobs=logprobs,
        top_ids=top_ids,
        top_logprobs=top_logprobs,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        completion_tokens=_count(usage.get("completion_tokens")),
        cached_tokens=_count(details.get("cached_tokens")) if isinstance(details, dict) else None,
        e2e_latency_s=reply.seconds,
        error=error,
    )


def _only_choice(document: Json) -> dict[str, Any]:
    choices = document.get("choices") if isinstance(document, dict) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise UnusableReplyError("the answer does not hold exactly one choice")
    return choices[0]


def _status(
    finish: Json, text: str, answer: str, reasoning: str | None, tokens: int, max_tokens: int
) -> tuple[ItemStatus, str | None]:
    """Return the status and its explanation. A cap hit is told before emptiness: the answer may only have been cut."""
    if finish == "length":
        short = tokens < max_tokens
        return ItemStatus.TRUNCATED, f"the server stopped at {tokens} of {max_tokens} tokens" if short else None
    if finish != "stop":
        return ItemStatus.FAILED, one_line(f"finish_reason is {finish!r}")
    if answer.strip():
        return ItemStatus.OK, None
    if reasoning is not None and reasoning.strip():
        return ItemStatus.REASONING_ONLY, "the answer holds reasoning and nothing after it"
    return ItemStatus.EMPTY, "the model ended at once" if not text else "the answer is nothing but white space"


def _reasoning(text: str, choice: dict[str, Any]) -> tuple[str | None, str]:
    """Split off reasoning, which either stands in its own field or in a think block (whose start may be in the prompt).

    The text itself is kept whole in the record; an unclosed block is all reasoning and no answer.
    """
    for field in ("reasoning", "reasoning_content"):
        if isinstance(choice.get(field), str):
            return choice[field], text
    thought, closed, answer = text.partition("</think>")
    if closed:
        return thought.removeprefix("<think>"), answer
    if text.lstrip().startswith("<think>"):
        return text.lstrip().removeprefix("<think>"), ""
    return None, text


def _logprobs(
    stated: Json, token_ids: tuple[int, ...], k: int
) -> tuple[tuple[float | None, ...], tuple[tuple[int, ...], ...], tuple[tuple[float, ...], ...]]:
    """Return the chosen logprob per token, and the `k` likeliest ids with theirs, likeliest first, ties by id."""
    if k == 0:
        return (), (), ()
    if not isinstance(stated, dict):
        raise UnusableReplyError("logprobs were asked for and did not come")
    tokens, chosen, tops = (stated.get(name) for name in ("tokens", "token_logprobs", "top_logprobs"))
    if not (isinstance(tokens, list) and isinstance(chosen, list) and isinstance(tops, list)):
        raise UnusableReplyError("logprobs lack tokens, token_logprobs or top_logprobs")
    if not len(tokens) == len(chosen) == len(tops) == len(token_ids):
        raise UnusableReplyError(f"{len(token_ids)} tokens came with {len(tokens)}/{len(chosen)}/{len(tops)} logprobs")
    if tuple(_id_of(token) for token in tokens) != token_ids:
        raise UnusableReplyError("the logprobs belong to other tokens than token_ids")
    top_ids: list[tuple[int, ...]] = []
    top_logprobs: list[tuple[float, ...]] = []
    for top in tops:
        known = {_id_of(key): number for key, value in (top or {}).items() if (number := _number(value)) is not None}
        ranked = sorted(known.items(), key=lambda item: (-item[1], item[0]))[:k]
        top_ids.append(tuple(token for token, _ in ranked))
        top_logprobs.append(tuple(value for _, value in ranked))
    return tuple(_number(value) for value in chosen), tuple(top_ids), tuple(top_logprobs)


def _id_of(token: Json) -> int:
    match = TOKEN_ID.fullmatch(token) if isinstance(token, str) else None
    if match is None:
        raise UnusableReplyError(f"a logprob is keyed by {token!r}, not by token id")
    return int(match[1])


def _number(value: Json) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnusableReplyError(f"a logprob is {value!r}, not a number")
    return float(value) if value > CLAMPED else None


def _ids(value: Json, name: str) -> tuple[int, ...]:
    if not isinstance(value, list) or any(type(item) is not int or not 0 <= item < 2**31 for item in value):
        raise UnusableReplyError(f"{name} is no list of token ids")
    return tuple(value)


def _count(value: Json) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _other_prompt(seen: Json, sent: tuple[int, ...]) -> str:
    if not isinstance(seen, list):
        return "the engine did not return prompt_token_ids, so what it saw is not known"
    place = next((i for i, (a, b) in enumerate(zip(seen, sent, strict=False)) if a != b), min(len(seen), len(sent)))
    return f"the engine saw another prompt: {len(seen)} tokens for {len(sent)} sent, first difference at {place}"
