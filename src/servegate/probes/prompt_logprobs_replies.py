"""What is sent to have a prompt scored, and what an answer means; pure functions.

vLLM answers `prompt_logprobs` with one entry a token of the prompt: null for the first, then a map from token id (a text
of digits) to `{"logprob", "rank", "decoded_token"}`. The map holds the k likeliest tokens and the token that stands in the
prompt, which makes k or k + 1 entries; nothing marks which is which, so the token's own entry is found by its id and the
likeliest by their ranks. Decoded texts are never used as keys: different tokens can decode to one text.

An answer of 2,048 positions with 20 entries each is 3 MB of JSON. It is decoded by msgspec into typed entries (other fields
are skipped, not built) and laid out by numpy. msgspec is strict: it refuses `NaN`, which some engines write, and lone
surrogates; such an answer is read by the standard library instead, to the same columns.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import Any, cast

import msgspec
import numpy as np
import numpy.typing as npt

from servegate.domain.evidence import ItemStatus
from servegate.domain.workload import PromptScore, ScoreRequest
from servegate.http import Reply
from servegate.probes.reply_parts import CLAMPED, UnusableReplyError, document_of, one_line

HIGHEST_LOGPROB = 1e-3
"""A logprob is at most 0; float32 rounding may show a little more. Above it the number is something else, such as a logit."""
LARGEST_ID = 2**31 - 1


class Entry(msgspec.Struct, gc=False):
    """One token at one position; a rank of None is unknown."""

    logprob: float | None
    rank: int | None = None


Positions = list[dict[int, Entry] | None]


class _Choice(msgspec.Struct):
    prompt_logprobs: Positions | None = None
    prompt_token_ids: list[int] | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice]


_DECODER = msgspec.json.Decoder(_Answer)


def score_payload(model: str, request: ScoreRequest, top_k: int) -> bytes:
    """Return the body, JSON as bytes: one token is generated (the least), and every sampling parameter is pinned.

    Temperature 1 leaves the distribution as it is, should the engine report processed logprobs. Never streamed: vLLM refuses
    `prompt_logprobs` in a stream.
    """
    body: dict[str, Any] = {
        "model": model,
        "prompt": request.token_ids,
        "max_tokens": 1,
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "seed": 0,
        "n": 1,
        "echo": False,
        "stream": False,
        "logprobs": None,
        "prompt_logprobs": top_k,
        "add_special_tokens": False,
        "return_token_ids": True,
    }
    if request.cache_salt:
        body["cache_salt"] = request.cache_salt
    return msgspec.json.encode(body)


def score_of(request: ScoreRequest, reply: Reply, top_k: int) -> PromptScore:
    """Return what an answer says of each token, or a `failed` score that says why it cannot be used."""
    try:
        return columns_of(request.id, request.token_ids, _positions(reply, request.token_ids), top_k)
    except UnusableReplyError as error:
        return PromptScore.nothing(request.id, ItemStatus.FAILED, one_line(str(error)), top_k)


def columns_of(request_id: str, token_ids: tuple[int, ...], positions: Positions, top_k: int) -> PromptScore:
    """Lay the positions of one answer out as columns.

    Raises:
        UnusableReplyError: another number of positions than tokens was scored, or a position names what is no token.
    """
    n = len(token_ids)
    if len(positions) != n:
        raise UnusableReplyError(f"{len(positions)} positions were scored of {n} tokens")
    if positions and positions[0] is not None:
        raise UnusableReplyError("the first position is scored, which nothing precedes: the positions are shifted")
    maps, counts = _maps(positions[1:])
    row = np.repeat(np.arange(1, len(maps) + 1), counts)
    try:
        ids = np.fromiter(chain.from_iterable(maps), dtype=np.int64, count=len(row))
    except OverflowError:
        ids = np.full(1, -1, dtype=np.int64)
    if len(ids) and (ids.min() < 0 or ids.max() > LARGEST_ID):
        raise UnusableReplyError("a logprob is keyed by a number that is no token id")
    entries = list(chain.from_iterable(map(dict.values, maps)))
    stated = _numbers([entry.logprob for entry in entries], np.float64)
    ranks = _numbers([entry.rank for entry in entries], np.int64)
    with np.errstate(invalid="ignore"):
        clamped = stated <= CLAMPED
        value = np.minimum(stated, 0.0).astype(np.float32)
        value[clamped | (stated > HIGHEST_LOGPROB)] = np.nan
        rank = np.where((ranks >= 1) & (ranks <= LARGEST_ID), ranks, -1).astype(np.int32)
    sent = np.fromiter(token_ids[1:], dtype=np.int64, count=len(maps))
    own = np.flatnonzero(ids == np.repeat(sent, counts))
    own_row = row[own]
    logprob, own_rank = np.full(n, np.nan, dtype=np.float32), np.full(n, -1, dtype=np.int32)
    logprob[own_row], own_rank[own_row] = value[own], rank[own]
    top_id, top_logprob = _top(row, ids, value, rank, (n, top_k))
    cut = int(clamped[own].sum())
    return PromptScore(
        id=request_id,
        status=ItemStatus.OK,
        logprob=logprob,
        rank=own_rank,
        top_id=top_id,
        top_logprob=top_logprob,
        clamped=cut,
        missing=int(np.isnan(logprob[1:]).sum()) - cut,
    )


def _maps(positions: Positions) -> tuple[list[dict[int, Entry]], npt.NDArray[np.int64]]:
    """Return the map of each position, empty for null, and how many entries each has."""
    try:
        counts = np.fromiter(map(len, positions), dtype=np.int64, count=len(positions))  # type: ignore[arg-type]
    except TypeError:
        return _maps([entries or {} for entries in positions])
    return cast("list[dict[int, Entry]]", positions), counts


def _numbers(stated: list[float | None] | list[int | None], kind: type[np.float64 | np.int64]) -> npt.NDArray[Any]:
    """Return numbers as an array; where one is missing or too large for `kind`, all are float64 and the missing ones NaN."""
    try:
        return np.fromiter(cast("list[float]", stated), dtype=kind, count=len(stated))
    except (TypeError, OverflowError):
        return np.array(stated, dtype=np.float64)


def _top(
    row: npt.NDArray[np.int64],
    ids: npt.NDArray[np.int64],
    value: npt.NDArray[np.float32],
    rank: npt.NDArray[np.int32],
    shape: tuple[int, int],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Place the k likeliest by their stated rank; of two that claim one rank the smaller id stays."""
    size = shape[0] * shape[1]
    top_id, top_logprob = np.full(size, -1, dtype=np.int32), np.full(size, np.nan, dtype=np.float32)
    chosen = np.flatnonzero((rank >= 1) & (rank <= shape[1]))
    place, named = row[chosen] * shape[1] + rank[chosen] - 1, ids[chosen]
    top_id[place] = named
    if not np.array_equal(top_id[place], named):
        order = np.argsort(-named, kind="stable")  # the last written stays
        chosen, place = chosen[order], place[order]
        top_id[place] = ids[chosen]
    top_logprob[place] = value[chosen]
    return top_id.reshape(shape), top_logprob.reshape(shape)


def _positions(reply: Reply, token_ids: tuple[int, ...]) -> Positions:
    """Return what was scored. Raises UnusableReplyError with the server's own message, or what is wrong."""
    choice = _decoded(reply)
    if choice.prompt_logprobs is None:
        raise UnusableReplyError("the answer holds no prompt_logprobs (null)")
    returned = choice.prompt_token_ids
    if returned is None:
        raise UnusableReplyError("the engine did not return prompt_token_ids, so what it scored is not known")
    if returned != list(token_ids):
        raise UnusableReplyError(f"the engine scored another prompt: {len(returned)} tokens for {len(token_ids)} sent")
    return choice.prompt_logprobs


def _decoded(reply: Reply) -> _Choice:
    """Return the only choice. Raises UnusableReplyError with the server's own message, or what is wrong."""
    if reply.status == 200:
        try:
            answer = _DECODER.decode(reply.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            answer = None  # an error in a 200, NaN, a lone surrogate: read with patience
        if answer is not None:
            return _only(answer.choices)
    return _leniently(reply)


def _leniently(reply: Reply) -> _Choice:
    if reply.status != 200:
        raise UnusableReplyError(document_of(reply)[1] or f"HTTP {reply.status}")
    try:
        document = json.loads(reply.body)  # NaN and Infinity pass here and are counted as missing
    except (ValueError, RecursionError) as error:
        raise UnusableReplyError(f"the answer is not JSON: {error}: {reply.excerpt()}") from error
    if not isinstance(document, dict) or "choices" not in document:
        raise UnusableReplyError(document_of(reply)[1] or "the answer holds no choices")
    try:
        return _only(msgspec.convert(document, _Answer, strict=False).choices)
    except msgspec.ValidationError as error:
        raise UnusableReplyError(f"the answer has another form: {error}") from error


def _only(choices: list[_Choice]) -> _Choice:
    if len(choices) != 1:
        raise UnusableReplyError("the answer does not hold exactly one choice")
    return choices[0]
