"""Parts that the answers of the completions route and of the chat route share, and how each is read; pure functions.

Whatever cannot be evidence raises `UnusableReplyError`, whose message says why: a missing token, a logprob of another
token, an error with status 200. Nothing is filled in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np

from servegate.domain.evidence import LOGPROBS, ItemStatus
from servegate.domain.records import MOST, Json
from servegate.domain.workload import Completion, CompletionRequest
from servegate.http import InvalidReplyError, Reply

CLAMPED = -9990.0
"""vLLM writes minus infinity as -9999.0 (`clamp_prompt_logprobs` and the OpenAI serving code): a missing number."""
TOKEN_ID = "token_id:"  # noqa: S105 - how vLLM writes the id of a token
MESSAGE_LIMIT = 300


class UnusableReplyError(ValueError):
    """The answer cannot be used as evidence; the message says why."""


def failed(request: CompletionRequest, status: ItemStatus, reason: str) -> Completion:
    """Return the record of a request that brought no answer."""
    return Completion(id=request.id, status=status, error=one_line(reason))


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


def only_choice(document: Json) -> dict[str, Any]:
    """Return the one choice of an answer. Raises UnusableReplyError when there is not exactly one."""
    choices = document.get("choices") if isinstance(document, dict) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise UnusableReplyError("the answer does not hold exactly one choice")
    return choices[0]


def usage_of(document: Json, tokens: int | None) -> dict[str, int | None]:
    """Return the engine's own counts, None where it states none; `tokens` (None: not compared) is how many came.

    Raises:
        UnusableReplyError: it counts other tokens than came, so some are missing.
    """
    usage = document.get("usage") if isinstance(document, dict) else None
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    made = count_of(usage.get("completion_tokens"))
    if tokens is not None and made is not None and made != tokens:
        raise UnusableReplyError(f"the engine counts {made} generated tokens, {tokens} came")
    return {
        "prompt_tokens": count_of(usage.get("prompt_tokens")),
        "completion_tokens": made,
        "cached_tokens": count_of(details.get("cached_tokens")) if isinstance(details, dict) else None,
    }


def ranked_of(stated: Iterable[tuple[Json, Json]], k: int) -> list[tuple[float, int]]:
    """Return the `k` likeliest of (token, logprob) as (negated logprob, id): likeliest first, ties by id."""
    known = [(-number, id_of(token)) for token, value in stated if (number := number_of(value)) is not None]
    known.sort()
    return known[:k]


def tops_of(stated: Sequence[Json], k: int) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[float, ...], ...]]:
    """Return, of each of `stated` (token -> logprob), the `k` likeliest ids and their logprobs, as `ranked_of` orders them."""
    sorted_at_once = _sorted_at_once(stated, k)
    if sorted_at_once is not None:
        return sorted_at_once
    ranked = [ranked_of(top.items() if isinstance(top, dict) else (), k) for top in stated]
    return tuple(tuple([token for _, token in row]) for row in ranked), tuple(
        tuple([-value for value, _ in row]) for row in ranked
    )


def _sorted_at_once(stated: Sequence[Json], k: int) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[float, ...], ...]] | None:
    """Sort all rows in one go; None where a row has fewer than `k` entries or a logprob that is missing or no float."""
    if not stated or {*map(type, stated)} != {dict}:
        return None
    widths = np.fromiter(map(len, stated), dtype=np.int64, count=len(stated))
    flat = [value for row in stated for value in row.values()]
    tokens = _ids_at_once(list(chain.from_iterable(stated)))
    if widths.min() < k or {*map(type, flat)} != {float} or tokens is None:
        return None
    shape = len(stated), int(widths.max())
    there = np.arange(shape[1]) < widths[:, None]
    ids, negated = np.full(shape, -1, dtype=np.int64), np.full(shape, np.inf)
    ids[there] = tokens
    negated[there] = np.negative(flat)
    if not np.all((negated[there] < -CLAMPED) & (negated[there] >= -LOGPROBS[1])):
        return None
    rows, likeliest = np.arange(shape[0])[:, None], np.lexsort((ids, negated))[:, :k]
    return (
        tuple(map(tuple, ids[rows, likeliest].tolist())),
        tuple(map(tuple, (-negated[rows, likeliest]).tolist())),
    )


def id_of(token: Json) -> int:
    """Return the id of a token that is written as `token_id:N`. Raises UnusableReplyError."""
    if isinstance(token, str) and token.startswith(TOKEN_ID):
        digits = token[len(TOKEN_ID) :]
        if digits.isascii() and digits.isdigit() and len(digits) <= 10:
            return int(digits)
    raise UnusableReplyError(f"a logprob is keyed by {token!r}, not by token id")


def _ids_at_once(tokens: list[str]) -> list[int] | None:
    """Return what `id_of` gives for each token; None where one of them is for `id_of` to look at."""
    lines = "\n" + "\n".join(tokens)
    if not lines.count("\n") == lines.count(f"\n{TOKEN_ID}") == len(tokens):
        return None
    numbers = lines.replace(f"\n{TOKEN_ID}", ",")
    digits = numbers.replace(",", "")
    if not (digits.isascii() and digits.isdigit()):
        return None
    try:
        found = msgspec.json.decode(f"[{numbers[1:]}]", type=list[int])
    except msgspec.DecodeError:  # no digits, or zeros before them
        return None
    return found if len(found) == len(tokens) and max(found) < 10**10 else None


def number_of(value: Json) -> float | None:
    """Return a logprob, None where there is none or minus infinity. Raises UnusableReplyError when it is no number."""
    if type(value) is float and value <= LOGPROBS[1]:
        return value if value > CLAMPED else None
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnusableReplyError(f"a logprob is {value!r}, not a number")
    if value > LOGPROBS[1]:
        raise UnusableReplyError(
            f"a logprob is {float(value):g}, and none is above 0" if value <= MOST else "a logprob is huge"
        )
    return float(value) if value > CLAMPED else None


def ids_of(value: Json, name: str) -> tuple[int, ...]:
    """Return a list of token ids. Raises UnusableReplyError."""
    if not isinstance(value, list) or any(type(item) is not int or not 0 <= item < 2**31 for item in value):
        raise UnusableReplyError(f"{name} is no list of token ids")
    return tuple(value)


def count_of(value: Json) -> int | None:
    """Return a count, None where none is stated that can be one."""
    return value if type(value) is int and 0 <= value <= MOST else None
