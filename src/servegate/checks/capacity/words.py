"""How a prediction is put into words: one line a quantity, shared by the report and by `servegate plan`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from servegate.sizing import Prediction
from servegate.sizing.roofline import cost_floor


@dataclass(frozen=True)
class Line:
    """A quantity: its title, and its text for a prediction and a price (empty when there is nothing to say)."""

    title: str
    text: Callable[[Prediction, float | None], str]


def _weights(side: Prediction, _price: float | None) -> str:
    return f"{side.weights_gib:.2f} GiB{_each(side)}, {side.scheme}"


def _token(side: Prediction, _price: float | None) -> str:
    layers = ", ".join(f"{number} {name}" for name, number in side.layers.items())
    return f"{side.token_bytes:,.0f} bytes{_each(side)} ({layers})"


def _budget(side: Prediction, _price: float | None) -> str:
    if side.kv_gib is None:
        return f"not predicted: {side.kv_gib_reason}"
    reserve = f", about {side.reserve_gib:.2f} GiB of it reserved for activations" if side.reserve_gib is not None else ""
    return f"{side.kv_gib:.2f} GiB{_each(side)}{reserve}"


def _tokens(side: Prediction, _price: float | None) -> str:
    if side.kv_tokens is None:
        return f"not predicted: {side.kv_tokens_reason}"
    if side.kv_tokens_reserved == side.kv_tokens:
        return f"{side.kv_tokens:,}"
    return f"at most {side.kv_tokens:,}; {side.kv_tokens_reserved:,} beside the reserve"


def _requests(side: Prediction, _price: float | None) -> str:
    if side.requests is None or side.requests_in_flight is None:
        return ""
    cut = f", {side.requests_in_flight:,} by max-num-seqs" if side.requests_in_flight < int(side.requests) else ""
    return f"{side.requests:,.1f} of {side.context_tokens:,} tokens{cut}"


def _decode(side: Prediction, _price: float | None) -> str:
    if side.decode_one is None:
        return f"not predicted: {side.decode_reason}"
    full = f"; {side.decode_full:,.0f} with {side.requests_in_flight:,}" if side.decode_full is not None else ""
    return f"{side.decode_one:,.1f} tok/s for one request{full}"


def _prefill(side: Prediction, _price: float | None) -> str:
    return f"not predicted: {side.prefill_reason}" if side.prefill is None else f"{side.prefill:,.0f} tok/s"


def _cost(side: Prediction, price: float | None) -> str:
    if price is None:
        return ""
    if side.decode_full is None:
        return f"not predicted: {side.decode_reason}"
    return f"at least {cost_floor(price, side.cards, side.decode_full):.4f} USD, at the decode ceiling"


def _each(side: Prediction) -> str:
    return f" on each of {side.cards} cards" if side.cards > 1 else ""


LINES = (
    Line("weights", _weights),
    Line("KV cache per token", _token),
    Line("KV cache budget", _budget),
    Line("tokens in the KV cache", _tokens),
    Line("requests at once", _requests),
    Line("decode ceiling", _decode),
    Line("prefill ceiling", _prefill),
    Line("a million output tokens", _cost),
)
