"""When the check is on: configured, or by itself when what the arms differ in can harm long prompts alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from servegate.checks.contract import Change, Choice
from servegate.checks.lengths import LENGTH_KNOB, length_of
from servegate.checks.retrieval.settings import RetrievalSettings
from servegate.domain.plan import Knob, ModelSource
from servegate.domain.records import Json

LONG_PROMPT_KNOBS = frozenset({
    "kv-cache-dtype", "calculate-kv-scales", "kv-cache-dtype-skip-layers", "attention-backend", "attention-config",
    "max-model-len", "disable-sliding-window", "rope-scaling", "hf-overrides", "environment.VLLM_ATTENTION_BACKEND",
})  # fmt: skip
"""Knobs that decide how old entries of the KV cache are kept, read, or placed."""
FULL_KINDS = frozenset({"full_attention", "attention", "global"})


def choose(settings: RetrievalSettings, named: bool, change: Change) -> Choice:
    """Return whether the check is on, and with a context that both arms accept, as far as their configs say it."""
    causes = causes_of(change.knobs, change.models.values())
    said = f"{' and '.join(causes)} {'differs' if len(causes) == 1 else 'differ'} between the arms"
    if settings.when == "never":
        note = f"retrieval is off (when: never), although {said}: short prompts hide faults of the KV cache" if causes else ""
        return Choice(None, note)
    if not causes and not (named and settings.when == "always"):
        return Choice(None)
    note = f"retrieval is on, since {said}" if causes and not (named and settings.when == "always") else ""
    lengths = [length_of(arm.config.options.get(LENGTH_KNOB)) for arm in change.arms.values()]
    stated = [length for length in lengths if length is not None]
    if settings.context_tokens is None and stated:
        shorter = settings.model_copy(update={"context_tokens": min(stated)})
        return Choice(shorter, note, {"context_tokens": "the shorter max-model-len"})
    return Choice(settings, note)


def causes_of(knobs: Iterable[Knob], models: Iterable[ModelSource]) -> list[str]:
    """Return what differs that can harm long prompts alone, in the words of `servegate plan`."""
    causes = [knob.name for knob in knobs if knob.name in LONG_PROMPT_KNOBS]
    configs = [source.config for source in models]
    if len({repr(_kv_scheme(config)) for config in configs}) > 1:
        causes.append("the checkpoints' kv_cache_scheme")
    read = [config for config in configs if isinstance(config, dict)]
    for said, part in PARTS.items():
        if any(part(config) != part(read[0]) for config in read):
            causes.append(f"the checkpoints' {said}")
    return causes


def _kv_scheme(config: Json) -> Json:
    """Return what a checkpoint says of its KV cache; unknown counts as nothing, since the log is read afterwards anyway."""
    quantization = config.get("quantization_config") if isinstance(config, dict) else None
    return quantization.get("kv_cache_scheme") if isinstance(quantization, dict) else None


def _language_part(config: Json) -> Mapping[str, Any]:
    """Return the part of config.json that describes the language model; models with eyes and ears keep it one level down."""
    whole = config if isinstance(config, dict) else {}
    inner = whole.get("text_config")
    return inner if isinstance(inner, dict) else whole


def _rope(config: Json) -> Json:
    """Return how positions are turned: `rope_theta` and `rope_scaling` in older files, `rope_parameters` in newer ones."""
    part = _language_part(config)
    found = {"rope_theta": part.get("rope_theta"), "partial_rotary_factor": part.get("partial_rotary_factor")}
    for name in ("rope_scaling", "rope_parameters"):
        given = part.get(name)
        found |= given if isinstance(given, dict) else {}
    kinds = {str(found.pop(name, "default")) for name in ("type", "rope_type")} - {"default"}
    found["kind"] = sorted(kinds) or None
    return {name: found[name] for name in sorted(found) if found[name] is not None}


def _windows(config: Json) -> Json:
    """Return which layers look back how far; None where every layer sees everything."""
    part = _language_part(config)
    kinds = part.get("layer_types")
    if isinstance(kinds, list):
        seeing_all = all(str(kind) in FULL_KINDS for kind in kinds)
    else:
        seeing_all = not part.get("sliding_window") and not part.get("attention_chunk_size")
    if seeing_all or part.get("use_sliding_window") is False:
        return None
    names = ("sliding_window", "sliding_window_pattern", "max_window_layers", "attention_chunk_size", "layer_types")
    return [part.get(name) for name in names]


def _positions(config: Json) -> Json:
    return _language_part(config).get("max_position_embeddings")


PARTS: Mapping[str, Callable[[Json], Json]] = {
    "rope setting": _rope,
    "attention window": _windows,
    "max_position_embeddings": _positions,
}
"""What two checkpoints can differ in that short prompts do not show, in the words of a note -> how it is read."""
