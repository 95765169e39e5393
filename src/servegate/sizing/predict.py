"""The prediction for one arm: what its weights take, what is left for tokens, how fast it can be at most.

Two numbers of tokens are given. `kv_tokens` is the residual, memory * utilization - weights, which is the most that can
be; `kv_tokens_reserved` leaves room for the largest activation of the engine's own profiling run. What an engine logs
lies between them, less its CUDA context and graphs; a number outside wants an explanation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from servegate.data.cards import Card
from servegate.domain.records import Record
from servegate.sizing.cannot import CannotSize
from servegate.sizing.kv import (
    CPU_BLOCK,
    GIB,
    GPU_BLOCK,
    is_hybrid,
    kept_by,
    number_bytes,
    request_bytes,
    token_bytes,
    token_capacity,
)
from servegate.sizing.matrices import Shape
from servegate.sizing.quantized import scheme_of
from servegate.sizing.roofline import decode_ceiling, prefill_ceiling, rate_of
from servegate.sizing.schemes import Scheme
from servegate.sizing.serving import LARGE_CARD_GIB, Serving, cpu_kv_gib, serving_of
from servegate.sizing.shape import shape_of


@dataclass(frozen=True)
class Room:
    """Where an arm is served: the memory of one card as programs see it, or a CPU (`card` None, `cpu` True).

    `source` says where the memory is from, or why it is not known.
    """

    memory_gib: float | None = None
    card: Card | None = None
    cpu: bool = False
    source: str = ""

    @staticmethod
    def of_card(card: Card) -> Room:
        """Return the room on a card of the table."""
        if card.visible_gib is not None:
            return Room(card.visible_gib, card, source=f"{card.name}: {card.visible_gib} GiB, {card.visible_source}")
        return Room(card.memory_gib, card, source=f"{card.name}: {card.memory_gib:g} GiB by its datasheet; programs see less")


class Prediction(Record):
    """What was predicted for one arm; memory is that of one card, tokens and requests are of all cards together."""

    scheme: str
    cards: int
    parameters: int
    weights_gib: float
    plain_gib: float
    """What the weights would take if nothing were quantized."""
    token_bytes: float
    layers: dict[str, int]
    """How many layers keep what: `full`, `latent`, `state`, `window of N`."""
    kv_gib: float | None = None
    kv_gib_reason: str | None = None
    reserve_gib: float | None = None
    reserve_gib_reason: str | None = None
    kv_tokens: int | None = None
    kv_tokens_reason: str | None = None
    kv_tokens_reserved: int | None = None
    context_tokens: int
    requests: float | None = None
    """Requests of `context_tokens` that fit at once."""
    requests_in_flight: int | None = None
    """The same, cut by `max-num-seqs`."""
    decode_one: float | None = None
    decode_full: float | None = None
    decode_reason: str | None = None
    prefill: float | None = None
    prefill_reason: str | None = None
    notes: tuple[str, ...] = ()


def predict(
    config: Mapping[str, Any], options: Mapping[str, Any], environment: Mapping[str, str], room: Room, context_tokens: int
) -> Prediction:
    """Return the prediction for a model's `config.json` served with these options in this room.

    Raises:
        CannotSize: the weights can not be predicted; anything further that is unknown is a reason in the record.
    """
    shape, scheme, serving = shape_of(config), scheme_of(config, options), serving_of(options)
    number = number_bytes(options.get("kv-cache-dtype"), scheme.plain.bits / 8, scheme.kv_cache)
    weights = scheme.bytes_of(shape, serving.cards)
    block = serving.block or (CPU_BLOCK if room.cpu else GPU_BLOCK)
    batched, seqs = _batches(serving, room)
    longest = serving.longest or shape.longest or context_tokens
    notes = [*shape.notes, *scheme.notes, *serving.notes]
    if is_hybrid(shape.layers):
        notes.append("layers keep different amounts: the engine pads them to groups of equal size, which is not modelled")
    values: dict[str, Any] = {
        "scheme": scheme.name,
        "cards": serving.cards,
        "parameters": shape.parameters,
        "weights_gib": max(0.0, weights / GIB - serving.offload_gib),
        "plain_gib": replace(scheme, linear=None).bytes_of(shape, serving.cards) / GIB,
        "token_bytes": token_bytes(shape, number, serving.cards),
        "layers": kept_by(shape.layers),
        "context_tokens": context_tokens,
    }
    budget, reason, reserve = _budget(shape, serving, environment, room, values["weights_gib"], batched, seqs)
    values |= {"kv_gib": budget, "kv_gib_reason": reason, "kv_tokens_reason": reason, "reserve_gib": reserve}
    values["reserve_gib_reason"] = None if reserve is not None else "nothing is reserved beside a cache of given size"
    one = request_bytes(shape, number, serving.cards, context_tokens, block)
    if budget is not None:
        capacity = (shape, number, serving.cards, block, longest, batched)
        values["kv_tokens"] = token_capacity(budget * GIB, *capacity)
        values["kv_tokens_reserved"] = token_capacity(max(0.0, budget - (reserve or 0.0)) * GIB, *capacity)
        values["requests"] = budget * GIB / one
        values["requests_in_flight"] = min(int(values["requests"]), seqs)
    values |= _ceilings(shape, scheme, serving, room, one, values.get("requests_in_flight"), notes)
    return Prediction(**values, notes=tuple(notes))


def _batches(serving: Serving, room: Room) -> tuple[int, int]:
    """Return (tokens, requests) of the largest step, vLLM's defaults where the serving config is silent."""
    memory = room.memory_gib or 0.0
    large = memory >= LARGE_CARD_GIB and not (room.card and room.card.name.startswith("A100"))
    tokens = serving.batched_tokens or (8192 if large else 2048)
    return tokens, serving.requests or (1024 if large else 256)


def _budget(
    shape: Shape, serving: Serving, environment: Mapping[str, str], room: Room, weights_gib: float, batched: int, seqs: int
) -> tuple[float | None, str | None, float | None]:
    """Return (GiB for the cache of a card, why there is none, GiB of the largest activation)."""
    if serving.kv_bytes is not None and not room.cpu:
        return serving.kv_bytes / GIB, None, None
    if room.cpu:
        space = cpu_kv_gib(environment)
        return space, None if space else "VLLM_CPU_KVCACHE_SPACE is not set, so the engine takes a share of the memory", None
    if room.memory_gib is None:
        return None, room.source or "no card is known", None
    share = room.memory_gib * serving.utilization
    left = share - weights_gib
    if left <= 0:
        return None, f"the weights alone take {weights_gib:.2f} GiB of the {share:.2f} GiB that may be used", None
    # One layer's gate, up and product beside four hidden vectors, or the logits and the sampler's copy of them in 32 bits.
    layer = batched * (3 * shape.intermediate / serving.cards + 4 * shape.hidden) * 2
    logits = seqs * shape.vocabulary * 4 * 2
    return left, None, max(layer, logits) / GIB


def _ceilings(
    shape: Shape, scheme: Scheme, serving: Serving, room: Room, request: float, in_flight: int | None, notes: list[str]
) -> dict[str, Any]:
    if room.card is None:
        reason = (
            "speed is not predicted on a CPU" if room.cpu else "no card of the card table is named, so no bandwidth is known"
        )
        return {"decode_reason": reason, "prefill_reason": reason}
    rate = rate_of(room.card, scheme)
    if rate.note:
        notes.append(rate.note)
    values: dict[str, Any] = {
        "decode_one": decode_ceiling(shape, scheme, room.card, serving.cards, 1, request, rate.flops),
        "prefill": None if rate.flops is None else prefill_ceiling(shape, serving.cards, rate.flops),
        "prefill_reason": rate.reason,
    }
    if in_flight:
        values["decode_full"] = decode_ceiling(shape, scheme, room.card, serving.cards, in_flight, request, rate.flops)
    else:
        values["decode_reason"] = "no request of this length fits"
    return values


def predicted(
    config: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    environment: Mapping[str, str],
    room: Room,
    context_tokens: int,
) -> Prediction | str:
    """Return the prediction, or the reason why there is none."""
    if not isinstance(config, dict):
        return "the model's config.json is not known; name one with engine.model_config"
    try:
        return predict(config, options, environment, room, context_tokens)
    except CannotSize as error:
        return str(error)
