"""One layer's attention: its matrices, and what it keeps of the tokens before.

Kinds: keys and values per head, grouped heads included (GQA, Ainslie et al. 2023); the same within a sliding window;
a compressed vector a token (MLA, DeepSeek-V2, 2024); a state of fixed size (gated delta rule, as in Qwen3-Next).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servegate.sizing.cannot import CannotSize, count, positive
from servegate.sizing.matrices import Keeps, Matrix, Memory, Part

NORMED_HEADS = frozenset({"qwen3", "qwen3_moe", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "gemma3_text"})
"""Families with a norm over each head of queries and keys."""
GATED = frozenset({"qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"})
"""Families whose queries come with a gate of the same size."""
LINEAR_KINDS = frozenset({"linear_attention"})
FULL_KINDS = frozenset({"full_attention", "attention", "global"})
WINDOW_KINDS = frozenset({"sliding_attention", "chunked_attention", "local"})
STATE_NUMBER_BYTES = 4
"""The engine keeps recurrent states in 32 bits unless told otherwise."""


@dataclass(frozen=True)
class Attention:
    """One layer's attention. `biases` counts the numbers in biases of queries, keys and values."""

    matrices: tuple[Matrix, ...]
    memory: Memory
    biases: int = 0
    norms: int = 0
    absorbed: bool = False


def attention_of(config: Mapping[str, Any], family: str, layer: int) -> Attention:
    """Return the attention of one layer, numbered from 0.

    Raises:
        CannotSize: a number is missing, or the layer is of a kind that is not known.
    """
    kind = _kind(config, family, layer)
    if kind in LINEAR_KINDS:
        return _linear(config)
    if config.get("kv_lora_rank"):
        return _latent(config)
    return _heads(config, family, kind)


def _kind(config: Mapping[str, Any], family: str, layer: int) -> str:
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        if layer >= len(kinds):
            raise CannotSize(f"config.json: `layer_types` names {len(kinds)} layers and has none for layer {layer}")
        kind = str(kinds[layer])[:60]
        if kind not in LINEAR_KINDS | FULL_KINDS | WINDOW_KINDS:
            raise CannotSize(f"layers of kind {kind!r} are not known")
        return kind
    if family in GATED:
        every = positive(config, "full_attention_interval", default=4)
        return "full_attention" if (layer + 1) % every == 0 else "linear_attention"
    if not config.get("sliding_window") or config.get("use_sliding_window") is False:
        return "full_attention"
    default = {"gemma2": 2, "gemma3_text": 6, "gpt_oss": 2}.get(family, 0)
    every = positive(config, "sliding_window_pattern", default=default) if default else 0
    if every:
        return "full_attention" if (layer + 1) % every == 0 else "sliding_attention"
    # Qwen2's windows begin above `max_window_layers`; a config that turns them on says so.
    if family.startswith("qwen") and layer < count(config, "max_window_layers"):
        return "full_attention"
    return "sliding_attention"


def _heads(config: Mapping[str, Any], family: str, kind: str) -> Attention:
    hidden, heads = positive(config, "hidden_size"), positive(config, "num_attention_heads")
    kept = positive(config, "num_key_value_heads", default=heads)
    width = positive(config, "head_dim", default=max(1, hidden // heads))
    gate = 2 if family in GATED and config.get("attn_output_gate", True) else 1
    matrices = (
        Matrix("self_attn.q_proj", Part.LINEAR, gate * heads * width, hidden, heads),
        Matrix("self_attn.k_proj", Part.LINEAR, kept * width, hidden, kept),
        Matrix("self_attn.v_proj", Part.LINEAR, kept * width, hidden, kept),
        Matrix("self_attn.o_proj", Part.LINEAR, hidden, heads * width, heads, by_columns=True),
    )
    window = positive(config, "sliding_window", "attention_chunk_size") if kind in WINDOW_KINDS else None
    memory = Memory(Keeps.FULL if window is None else Keeps.WINDOW, kept, 2 * width, window)
    norms = 2 * width if family in NORMED_HEADS else 0
    return Attention(matrices, memory, (gate * heads + 2 * kept) * width, norms)


def _latent(config: Mapping[str, Any]) -> Attention:
    hidden, heads = positive(config, "hidden_size"), positive(config, "num_attention_heads")
    rank, turned = positive(config, "kv_lora_rank"), positive(config, "qk_rope_head_dim")
    plain, value = positive(config, "qk_nope_head_dim"), positive(config, "v_head_dim")
    query = count(config, "q_lora_rank")
    queries: tuple[Matrix, ...] = (Matrix("self_attn.q_proj", Part.LINEAR, heads * (plain + turned), query or hidden, heads),)
    if query:
        queries = (
            Matrix("self_attn.q_a_proj", Part.LINEAR, query, hidden, 1),
            Matrix("self_attn.q_b_proj", Part.LINEAR, heads * (plain + turned), query, heads),
        )
    matrices = (
        *queries,
        Matrix("self_attn.kv_a_proj_with_mqa", Part.LINEAR, rank + turned, hidden, 1),
        Matrix("self_attn.kv_b_proj", Part.LINEAR, heads * (plain + value), rank, heads),
        Matrix("self_attn.o_proj", Part.LINEAR, hidden, heads * value, heads, by_columns=True),
    )
    return Attention(matrices, Memory(Keeps.LATENT, 1, rank + turned), norms=rank + query, absorbed=True)


def _linear(config: Mapping[str, Any]) -> Attention:
    hidden = positive(config, "hidden_size")
    key_heads, value_heads = positive(config, "linear_num_key_heads"), positive(config, "linear_num_value_heads")
    key, value = positive(config, "linear_key_head_dim"), positive(config, "linear_value_head_dim")
    kernel = positive(config, "linear_conv_kernel_dim")
    mixed = 2 * key_heads * key + value_heads * value
    matrices = (
        Matrix("linear_attn.in_proj_qkvz", Part.LINEAR, mixed + value_heads * value, hidden, key_heads),
        Matrix("linear_attn.in_proj_ba", Part.LINEAR, 2 * value_heads, hidden, key_heads),
        Matrix("linear_attn.out_proj", Part.LINEAR, hidden, value_heads * value, value_heads, by_columns=True),
    )
    state = STATE_NUMBER_BYTES * value_heads * key * value + 2 * mixed * (kernel - 1)
    memory = Memory(Keeps.STATE, key_heads, 0, state_bytes=state)
    return Attention(matrices, memory, norms=mixed * kernel + 2 * value_heads + value)
