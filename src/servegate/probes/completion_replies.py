"""What is sent to `/v1/completions` and what an answer of it means; pure functions.

Written for vLLM 0.25 to 0.32; streamed or not, the same evidence (`event_stream`). Every sampling parameter is sent,
because a parameter that is left out is filled from the model's `generation_config.json`, which quantized repositories
often change. Token ids come back beside the text (`return_token_ids`) and as the keys of the logprobs
(`return_tokens_as_token_ids`): texts of different tokens can be equal, ids cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from servegate.domain.evidence import ItemStatus
from servegate.domain.records import Json
from servegate.domain.workload import SAMPLING, Completion, CompletionRequest
from servegate.http import Reply
from servegate.probes.answered import completed
from servegate.probes.event_stream import BrokenStreamError, is_stream, streamed
from servegate.probes.reply_parts import (
    TOKEN_ID,
    UnusableReplyError,
    document_of,
    failed,
    id_of,
    ids_of,
    number_of,
    only_choice,
    tops_of,
)

LEAST_PIECES = 0.8
"""Share of the tokens that must have come in a piece of their own; below it, times of single tokens are fiction."""
NOT_STREAMED = "the answer was not streamed"


def payload(model: str, request: CompletionRequest) -> dict[str, Json]:
    """Return the JSON body of one request, with every parameter that a server could fill in otherwise."""
    body: dict[str, Json] = {
        **pinned(model, request),
        "prompt": list(request.token_ids),
        "add_special_tokens": False,
        "stream": request.stream,
        "logprobs": request.top_logprobs or None,
    }
    if request.stream:
        body["stream_options"] = {"include_usage": True, "continuous_usage_stats": False}
    return body


def pinned(model: str, request: CompletionRequest) -> dict[str, Json]:
    """Return what the completions route and the chat route are sent alike.

    Sampling parameters that the request leaves open are left out, not sent as null.
    """
    body: dict[str, Json] = {
        "model": model,
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
        "min_tokens": 0,
        "ignore_eos": False,
        "stop_token_ids": [],
        "use_beam_search": False,
        "include_stop_str_in_output": False,
        "skip_special_tokens": True,
        "spaces_between_special_tokens": True,
        "return_tokens_as_token_ids": True,
        "return_token_ids": True,
    }
    if request.cache_salt:
        body["cache_salt"] = request.cache_salt
    return {name: value for name, value in body.items() if value is not None or name not in SAMPLING}


def completion(request: CompletionRequest, reply: Reply) -> Completion:
    """Return what an answer says, or a `failed` record that says why it cannot be used."""
    try:
        return _completion(request, reply)
    except (UnusableReplyError, BrokenStreamError) as error:
        return failed(request, ItemStatus.FAILED, str(error))


def _completion(request: CompletionRequest, reply: Reply) -> Completion:
    arrivals: Sequence[float] = ()
    if is_stream(reply):
        whole = streamed(reply)
        document, arrivals = whole.document, whole.arrivals_s
    else:
        document, error = document_of(reply)
        if error is not None:
            raise UnusableReplyError(error)
    choice = only_choice(document)
    if choice.get("prompt_token_ids") != list(request.token_ids):
        raise UnusableReplyError(_other_prompt(choice.get("prompt_token_ids"), request.token_ids))
    text = choice.get("text")
    if not isinstance(text, str):
        raise UnusableReplyError(f"the answer's text is {type(text).__name__}, not a string")
    token_ids = ids_of(choice.get("token_ids"), "token_ids")
    logprobs, top_ids, top_logprobs = _logprobs(choice.get("logprobs"), token_ids, request.top_logprobs)
    return completed(
        request,
        reply,
        document,
        choice=choice,
        message=choice,
        content=text,
        token_ids=token_ids,
        logprobs=logprobs,
        top_ids=top_ids,
        top_logprobs=top_logprobs,
        **_timings(arrivals, len(token_ids)),
    )


def _timings(arrivals_s: Sequence[float], tokens: int) -> dict[str, Any]:
    """Return when the tokens came, or why that says nothing about when they were made.

    A proxy that buffers and a parser that holds text back both let many tokens come at once; the time of "the first" is
    then that of the first lump, and the times between tokens are those between lumps.
    """
    if not arrivals_s:
        return {"ttft_ms_reason": NOT_STREAMED if tokens else "no token came"}
    pieces = len(set(arrivals_s))
    if pieces < LEAST_PIECES * tokens:
        return {"ttft_ms_reason": f"{tokens} tokens came in {pieces} pieces, so times of single tokens are not known"}
    arrivals_ms = tuple(1000 * at for at in arrivals_s)
    return {"ttft_ms": arrivals_ms[0], "arrivals_ms": arrivals_ms}


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
    written = [f"{TOKEN_ID}{token}" for token in token_ids]
    if tokens != written and tuple(map(id_of, tokens)) != token_ids:
        raise UnusableReplyError("the logprobs belong to other tokens than token_ids")
    top_ids, top_logprobs = tops_of(tops, k)
    return tuple(map(number_of, chosen)), top_ids, top_logprobs


def _other_prompt(seen: Json, sent: tuple[int, ...]) -> str:
    if not isinstance(seen, list):
        return "the engine did not return prompt_token_ids, so what it saw is not known"
    place = next((i for i, (a, b) in enumerate(zip(seen, sent, strict=False)) if a != b), min(len(seen), len(sent)))
    return f"the engine saw another prompt: {len(seen)} tokens for {len(sent)} sent, first difference at {place}"
