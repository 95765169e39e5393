"""Ceilings of speed from bandwidth and arithmetic (the roofline model, Williams, Waterman and Patterson 2009).

A decode step reads every weight that it multiplies by and the whole cache of every request once, and multiplies each
weight with each request's vector: it takes at least the longer of both times. A prompt is limited by arithmetic. Real
engines stay below; what is above a ceiling was not measured right.
"""

from __future__ import annotations

from dataclasses import dataclass

from servegate.data.cards import Card
from servegate.sizing.cards import has_native_fp8
from servegate.sizing.matrices import Shape
from servegate.sizing.schemes import Scheme


@dataclass(frozen=True)
class Rate:
    """A card's dense rate for a scheme in FLOP/s, or why there is none; `note` says when it is not the scheme's own."""

    flops: float | None
    reason: str | None = None
    note: str | None = None


def rate_of(card: Card, scheme: Scheme) -> Rate:
    """Return the rate at which a card can multiply under a scheme."""
    if scheme.rate == "fp8" and not has_native_fp8(card.compute_capability):
        return Rate(
            *_known(card.bf16_tflops, card, "BF16"), note=f"{card.name} has no FP8 arithmetic: FP8 saves memory, not arithmetic"
        )
    if scheme.rate == "fp4" and card.fp4_tflops is None and _before_blackwell(card):
        return Rate(*_known(card.bf16_tflops, card, "BF16"), note=f"{card.name} has no FP4 arithmetic: weights are unpacked")
    rates = {"bf16": card.bf16_tflops, "fp8": card.fp8_tflops, "fp4": card.fp4_tflops, "int8": None}
    return Rate(*_known(rates[scheme.rate], card, scheme.rate.upper()))


def _before_blackwell(card: Card) -> bool:
    return int(card.compute_capability.partition(".")[0]) < 10


def _known(tflops: float | None, card: Card, name: str) -> tuple[float | None, str | None]:
    if tflops is None:
        return None, f"the card table has no dense {name} rate of {card.name}"
    return tflops * 1e12, None


def decode_ceiling(
    shape: Shape, scheme: Scheme, card: Card, cards: int, requests: float, cache_bytes: float, flops: float | None
) -> float:
    """Return output tokens per second of `requests` in flight, each with `cache_bytes` of cache on each card."""
    read = scheme.read_bytes(shape, cards, requests) + requests * cache_bytes
    seconds = read / (card.bandwidth_gb_s * 1e9)
    if flops is not None:
        seconds = max(seconds, 2 * shape.active_parameters * requests / (flops * cards))
    return requests / seconds


def prefill_ceiling(shape: Shape, cards: int, flops: float) -> float:
    """Return prompt tokens per second: two operations a weight and token, attention itself left out."""
    return flops * cards / (2 * shape.active_parameters)


def cost_floor(price_per_gpu_hour: float, cards: int, tokens_per_second: float) -> float:
    """Return the least price of a million tokens at a ceiling of tokens per second."""
    return price_per_gpu_hour * cards / (tokens_per_second * 3600) * 1e6
