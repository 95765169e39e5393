"""What tokens cost: bytes a token, bytes a request, and how many fit.

The engine hands memory out in blocks of tokens. A request of L tokens keeps L in a layer of full attention and the
window's in a layer with one. Keys and values of a head lie on one card, so with more cards than heads each card repeats
them; a compressed vector (MLA) lies on every card whole. Capacity is a residual: what the weights leave.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servegate.sizing.cannot import CannotSize
from servegate.sizing.matrices import Keeps, Memory, Shape

GIB = float(1 << 30)
CPU_BLOCK, GPU_BLOCK = 128, 16
"""Tokens in a block unless `block-size` says otherwise: the block sizes of vLLM's CPU and CUDA builds."""
BYTES_OF = {
    "fp8": 1.0, "fp8_e4m3": 1.0, "fp8_e5m2": 1.0, "fp8_inc": 1.0, "int8": 1.0,
    "bfloat16": 2.0, "bf16": 2.0, "float16": 2.0, "half": 2.0, "float32": 4.0,
}  # fmt: skip
"""Bytes of one number in the cache by `kv-cache-dtype`."""


def number_bytes(asked: Any, plain_bytes: float, checkpoint: str | None) -> float:
    """Return the bytes of one number in the cache.

    Raises:
        CannotSize: the type's size is not known.
    """
    name = "auto" if asked is None else str(asked)
    if name == "auto":
        name = checkpoint or ""
        if not name:
            return plain_bytes
    if name not in BYTES_OF:
        raise CannotSize(f"the size of kv-cache-dtype {name[:60]!r} is not known")
    return BYTES_OF[name]


def heads_on_card(layer: Memory, cards: int) -> int:
    """Return how many of a layer's heads one of `cards` holds; at least one."""
    return -(-layer.heads // cards)


def token_bytes(shape: Shape, number: float, cards: int) -> float:
    """Return the bytes that one more token takes on each card while every window is still open."""
    return sum(heads_on_card(layer, cards) * layer.values * number for layer in shape.layers)


def request_bytes(shape: Shape, number: float, cards: int, tokens: int, block: int, in_flight: int = 0) -> float:
    """Return the bytes of a request of `tokens` on each card, in whole blocks.

    `in_flight` tokens of a window's layer are not yet out of the window while they are computed (chunked prefill).
    """
    total = 0.0
    for layer in shape.layers:
        if layer.keeps is Keeps.STATE:
            total += layer.state_bytes * heads_on_card(layer, cards) / layer.heads
            continue
        kept = tokens if layer.window is None else min(tokens, layer.window - 1 + in_flight + block)
        total += -(-kept // block) * block * heads_on_card(layer, cards) * layer.values * number
    return total


def token_capacity(budget: float, shape: Shape, number: float, cards: int, block: int, longest: int, in_flight: int) -> int:
    """Return how many tokens fit into `budget` bytes a card.

    With windows or states the number depends on how long requests are; it is then that of requests of `longest` tokens,
    as the engine counts it.
    """
    if all(layer.keeps in (Keeps.FULL, Keeps.LATENT) for layer in shape.layers):
        return int(budget // (token_bytes(shape, number, cards) * block)) * block
    return int(budget / request_bytes(shape, number, cards, longest, block, in_flight) * longest)


def is_hybrid(layers: tuple[Memory, ...]) -> bool:
    """Whether layers keep different amounts, so that the engine groups them and pads the groups."""
    return len({(layer.keeps, layer.window) for layer in layers}) > 1


def kept_by(layers: tuple[Memory, ...]) -> Mapping[str, int]:
    """Return how many layers keep what, in the order of the model."""
    found: dict[str, int] = {}
    for layer in layers:
        name = f"window of {layer.window}" if layer.keeps is Keeps.WINDOW else layer.keeps.value
        found[name] = found.get(name, 0) + 1
    return found
