"""How many parameters a decoder has, roughly, from its config.json: enough to tell a toy from a model.

Embeddings, attention (grouped heads) and feed-forward blocks (three matrices, gated, once per expert) are counted; norms and
biases are not. What the file does not say is not guessed.
"""

from __future__ import annotations

from servegate.domain.records import Json


def parameters_of(config: Json) -> int | None:
    """Return the number of weights, or None when the config lacks a size that the count needs."""
    inner = config.get("text_config", config) if isinstance(config, dict) else None
    if not isinstance(inner, dict):
        return None
    sizes = [_size(inner, name) for name in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")]
    feed_forward = _size(inner, "moe_intermediate_size") or _size(inner, "intermediate_size")
    if None in sizes or feed_forward is None:
        return None
    vocabulary, hidden, layers, heads = (size or 0 for size in sizes)
    head = _size(inner, "head_dim") or hidden // heads
    attention = 2 * hidden * head * (heads + (_size(inner, "num_key_value_heads") or heads))
    experts = next((n for name in ("num_experts", "num_local_experts", "n_routed_experts") if (n := _size(inner, name))), 1)
    tied = inner.get("tie_word_embeddings", config.get("tie_word_embeddings", False))
    return vocabulary * hidden * (1 if tied else 2) + layers * (attention + 3 * hidden * feed_forward * experts)


def _size(config: dict[str, Json], name: str) -> int | None:
    value = config.get(name)
    return value if type(value) is int and value > 0 else None
