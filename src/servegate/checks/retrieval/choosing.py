"""When the check is on: configured, or by itself when what the arms differ in can harm long prompts alone."""

from __future__ import annotations

import re
from collections.abc import Iterable

from servegate.checks.contract import Change, Choice
from servegate.checks.retrieval.settings import RetrievalSettings
from servegate.domain.plan import Knob, ModelSource
from servegate.domain.records import Json

LONG_PROMPT_KNOBS = frozenset({
    "kv-cache-dtype", "calculate-kv-scales", "kv-cache-dtype-skip-layers", "attention-backend", "attention-config",
    "max-model-len", "disable-sliding-window", "rope-scaling", "hf-overrides", "environment.VLLM_ATTENTION_BACKEND",
})  # fmt: skip
"""Knobs that decide how old entries of the KV cache are kept, read, or placed."""
LENGTH_KNOB = "max-model-len"
LENGTH = re.compile(r"([0-9]{1,12})([kKmM]?)")
UNIT = {"": 1, "k": 1_000, "m": 1_000_000, "K": 1 << 10, "M": 1 << 20}
"""vLLM reads `16k` as 16,000 and `16K` as 16,384 (`human_readable_int` of its argument parser)."""


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
    lengths = [_length(arm.config.options.get(LENGTH_KNOB)) for arm in change.arms.values()]
    stated = [length for length in lengths if length is not None]
    if settings.context_tokens is None and stated:
        shorter = settings.model_copy(update={"context_tokens": min(stated)})
        return Choice(shorter, note, {"context_tokens": "the shorter max-model-len"})
    return Choice(settings, note)


def causes_of(knobs: Iterable[Knob], models: Iterable[ModelSource]) -> list[str]:
    """Return what differs that can harm long prompts alone, in the words of `servegate plan`."""
    causes = [knob.name for knob in knobs if knob.name in LONG_PROMPT_KNOBS]
    schemes = {_kv_scheme(source.config) for source in models}
    if len(schemes) > 1:
        causes.append("the checkpoints' kv_cache_scheme")
    return causes


def _length(stated: Json) -> int | None:
    """Return a length in tokens; None where the engine chooses it (nothing, -1, `auto`) or where it is not understood."""
    found = LENGTH.fullmatch(str(stated).strip())
    return int(found[1]) * UNIT[found[2]] or None if found else None


def _kv_scheme(config: Json) -> str:
    """Return what a checkpoint says of its KV cache; unknown counts as nothing, since the log is read afterwards anyway."""
    quantization = config.get("quantization_config") if isinstance(config, dict) else None
    found = quantization.get("kv_cache_scheme") if isinstance(quantization, dict) else None
    return repr(found)
