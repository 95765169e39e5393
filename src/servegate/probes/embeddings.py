"""Asks an embedding server how near two texts are; it answers `/v1/embeddings` as OpenAI's interface has it.

The server is none of the arms. What it says orders a reading queue, so it never stops a measurement: a pair of which it says
nothing usable has a reason instead of a number.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from servegate.domain.records import Json
from servegate.http import Call, HttpClient, HttpError, Reply
from servegate.probes.asking import ask_all
from servegate.probes.reply_parts import document_of

PATH = "/v1/embeddings"
CONCURRENCY = 8
TIMEOUT_S = 60.0
MOST_DIMENSIONS = 65_536

Nearness = tuple[float | None, str | None]


class HttpEmbeddings:
    """Answers `ports.Embeddings`."""

    def cosines(self, url: str, model: str, pairs: Sequence[tuple[str, str]]) -> tuple[Nearness, ...]:
        """Return (cosine in [-1, 1], None) or (None, why not) of each pair, in order."""
        return ask_all(
            HttpClient(url.rstrip("/"), total_s=TIMEOUT_S),
            [Call(PATH, {"model": model, "input": list(pair), "encoding_format": "float"}) for pair in pairs],
            CONCURRENCY,
            read=lambda _, reply: _read(reply),
            skipped=lambda _, why: (None, f"not asked: {why}"),
            advance=lambda _: None,
            ensure_alive=lambda: None,
        )


def _read(reply: Reply | HttpError) -> Nearness:
    document, problem = (None, reply.what) if isinstance(reply, HttpError) else document_of(reply)
    if problem is not None:
        return None, problem
    left, right = _vectors(document)
    if left is None or right is None or len(left) != len(right):
        return None, "the answer holds no two embeddings of one length"
    lengths = math.hypot(*left) * math.hypot(*right)
    if not lengths or not math.isfinite(lengths):
        return None, "an embedding has no direction"
    return max(-1.0, min(1.0, sum(map(operator.mul, left, right)) / lengths)), None


def _vectors(document: Json) -> tuple[list[float] | None, list[float] | None]:
    """Return the two embeddings by their `index`: nobody promises an order."""
    data = document.get("data") if isinstance(document, dict) else None
    named = [one for one in data if isinstance(one, dict) and type(one.get("index")) is int] if isinstance(data, list) else []
    found = {one["index"]: one.get("embedding") for one in named}
    left, right = (_vector(found.get(index)) for index in (0, 1))
    return left, right


def _vector(stated: Json) -> list[float] | None:
    if not isinstance(stated, list) or not 1 <= len(stated) <= MOST_DIMENSIONS:
        return None
    if not all(type(value) in (int, float) for value in stated):
        return None
    try:
        numbers = [float(value) for value in stated]
    except OverflowError:  # an integer of 309 digits or more
        return None
    return numbers if all(map(math.isfinite, numbers)) else None
