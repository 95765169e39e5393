"""From `config.json` to the matrices of a model.

The names of the keys are those of the model families in Hugging Face transformers; the layouts are those of vLLM's own
model code (which pads the vocabulary to 64). A family that is not listed here is refused, since its layers are not known:
two models with the same keys may still have a gate more or less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from servegate.sizing.attention import Attention, attention_of
from servegate.sizing.cannot import CannotSize, count, positive
from servegate.sizing.matrices import Matrix, Part, Shape

MOST_LAYERS = 1024
VOCABULARY_PADDING = 64

DENSE = frozenset(
    {"llama", "mistral", "ministral", "qwen2", "qwen3", "phi3", "gemma", "gemma2", "gemma3_text", "glm", "glm4", "granite",
     "olmo2", "smollm3"}
)  # fmt: skip
EXPERTS = frozenset(
    {"mixtral", "qwen2_moe", "qwen3_moe", "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "deepseek_v2", "deepseek_v3",
     "kimi_k2", "glm4_moe", "gpt_oss", "olmoe"}
)  # fmt: skip
TIED = frozenset({"gemma", "gemma2", "gemma3_text"})
"""Families whose embedding is also the head unless the config says otherwise."""
BIASED = frozenset({"qwen2", "qwen2_moe", "gpt_oss"})
"""Families with biases on queries, keys and values whatever the config says."""
NAMES_OF_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")


def shape_of(config: Mapping[str, Any]) -> Shape:
    """Return the shape that a parsed `config.json` describes.

    Raises:
        CannotSize: the family is not known, or a number is missing or is none.
    """
    text = config.get("text_config")
    notes = []
    if isinstance(text, dict):
        notes.append("the encoder of images or sound is not counted")
        config = {**{key: value for key, value in config.items() if key not in text}, **text}
    family = str(config.get("model_type"))[:60]
    if family not in DENSE | EXPERTS:
        raise CannotSize(f"the layers of model_type {family!r} are not known")
    hidden, layers = positive(config, "hidden_size"), positive(config, "num_hidden_layers")
    if layers > MOST_LAYERS:
        raise CannotSize(f"config.json: {layers} layers are more than {MOST_LAYERS}")
    vocabulary = positive(config, "vocab_size")
    attentions = [attention_of(config, family, layer) for layer in range(layers)]
    if any(each.absorbed for each in attentions):
        notes.append("copies of kv_b_proj that the engine makes for MLA are not counted")
    if count(config, "num_nextn_predict_layers"):
        notes.append("layers for multi-token prediction are not counted")
    matrices = [*_ends(config, family, hidden, vocabulary), *_layers(config, family, hidden, attentions)]
    biases = sum(each.biases for each in attentions) if config.get("attention_bias") or family in BIASED else 0
    return Shape(
        family=family,
        hidden=hidden,
        intermediate=_widest(config, family),
        vocabulary=vocabulary,
        longest=count(config, "max_position_embeddings") or None,
        matrices=tuple(matrices),
        vectors=(2 * layers + 1) * hidden + biases + sum(each.norms for each in attentions),
        layers=tuple(each.memory for each in attentions),
        notes=tuple(notes),
    )


def _ends(config: Mapping[str, Any], family: str, hidden: int, vocabulary: int) -> Iterator[Matrix]:
    rows = -(-vocabulary // VOCABULARY_PADDING) * VOCABULARY_PADDING
    tied = config.get("tie_word_embeddings", family in TIED)
    # A tied embedding is one matrix that is both looked up and multiplied, so it counts as the head.
    if not tied:
        yield Matrix("model.embed_tokens", Part.EMBEDDING, rows, hidden, rows // VOCABULARY_PADDING)
    yield Matrix("lm_head", Part.HEAD, rows, hidden, rows // VOCABULARY_PADDING)


def _layers(config: Mapping[str, Any], family: str, hidden: int, attentions: list[Attention]) -> Iterator[Matrix]:
    for layer, attention in enumerate(attentions):
        prefix = f"model.layers.{layer}"
        for each in attention.matrices:
            yield Matrix(f"{prefix}.{each.name}", each.part, each.rows, each.columns, each.units, each.by_columns)
        if family in EXPERTS and _has_experts(config, family, layer):
            yield from _experts(config, f"{prefix}.mlp", hidden)
        else:
            yield from _mlp(f"{prefix}.mlp", hidden, positive(config, "intermediate_size"))


def _mlp(prefix: str, hidden: int, inner: int, part: Part = Part.LINEAR, copies: int = 1, active: int = 1) -> Iterator[Matrix]:
    for name in ("gate_proj", "up_proj"):
        yield Matrix(f"{prefix}.{name}", part, inner, hidden, inner, copies=copies, active=active)
    yield Matrix(f"{prefix}.down_proj", part, hidden, inner, inner, by_columns=True, copies=copies, active=active)


def _experts(config: Mapping[str, Any], prefix: str, hidden: int) -> Iterator[Matrix]:
    experts = positive(config, *NAMES_OF_EXPERTS)
    chosen = positive(config, "num_experts_per_tok", "experts_per_token")
    inner = positive(config, "moe_intermediate_size", "intermediate_size")
    if chosen > experts:
        raise CannotSize(f"config.json: {chosen} of {experts} experts for one token")
    yield Matrix(f"{prefix}.gate", Part.ROUTER, experts, hidden, 1)
    yield from _mlp(f"{prefix}.experts.0", hidden, inner, Part.EXPERT, experts, chosen)
    shared = count(config, "shared_expert_intermediate_size") or count(config, "n_shared_experts") * inner
    if shared:
        yield from _mlp(f"{prefix}.shared_expert", hidden, shared)


def _has_experts(config: Mapping[str, Any], family: str, layer: int) -> bool:
    if not any(count(config, name) for name in NAMES_OF_EXPERTS):
        if family in {"deepseek_v2", "deepseek_v3", "qwen3_5_text"}:
            return False
        raise CannotSize(f"config.json has no {NAMES_OF_EXPERTS[0]!r}, though {family!r} is a mixture of experts")
    dense = config.get("mlp_only_layers")
    if isinstance(dense, list) and layer in dense:
        return False
    if layer < count(config, "first_k_dense_replace"):
        return False
    step = positive(config, "decoder_sparse_step", default=1)
    frequency = positive(config, "moe_layer_freq", default=1)
    return (layer + 1) % step == 0 and layer % frequency == 0


def _widest(config: Mapping[str, Any], family: str) -> int:
    """Return the widest product of one token within a layer: all of its experts' together."""
    dense = count(config, "intermediate_size")
    if family not in EXPERTS:
        return dense
    inner = count(config, "moe_intermediate_size") or dense
    return max(dense, inner * positive(config, "num_experts_per_tok", "experts_per_token", default=1))
