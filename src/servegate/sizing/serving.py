"""What of an engine's options decides how much fits; defaults are those of vLLM 0.32, which ours were read from."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servegate.sizing.cannot import CannotSize

UTILIZATION = 0.92
"""vLLM's default share of a card's memory (`gpu-memory-utilization`); the recorded logs of 0.25.1 show it in use."""
LARGE_CARD_GIB = 70
"""From here on (but not on A100) vLLM takes larger batches by default: 8192 tokens, 1024 requests; below 2048 and 256."""
KV_SPACE = "VLLM_CPU_KVCACHE_SPACE"
_SUFFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Serving:
    """Options that decide sizes. Counts are of tokens, requests or cards."""

    cards: int = 1
    utilization: float = UTILIZATION
    longest: int | None = None
    batched_tokens: int | None = None
    requests: int | None = None
    block: int | None = None
    kv_bytes: int | None = None
    offload_gib: float = 0.0
    notes: tuple[str, ...] = ()


def serving_of(options: Mapping[str, Any]) -> Serving:
    """Read a serving config's options.

    Raises:
        CannotSize: an option changes the sizes in a way that is not modelled, or is no number.
    """
    if options.get("hf-overrides") not in (None, {}, "None"):
        raise CannotSize("hf-overrides changes the model's config")
    if _number(options, "pipeline-parallel-size", 1) > 1:
        raise CannotSize("pipeline parallelism is not modelled")
    if _number(options, "data-parallel-size", 1) > 1 and options.get("enable-expert-parallel"):
        raise CannotSize("experts spread over data-parallel engines are not modelled")
    for name in ("kv-cache-dtype-skip-layers", "num-gpu-blocks-override"):
        if options.get(name) not in (None, [], "None"):
            raise CannotSize(f"{name} is not modelled")
    utilization = options.get("gpu-memory-utilization", UTILIZATION)
    offload = options.get("cpu-offload-gb", 0)
    notes = []
    if options.get("speculative-config") or options.get("spec-model"):
        notes.append("the draft model of speculative decoding is not counted")
    if options.get("enable-lora"):
        notes.append("memory for LoRA adapters is not counted")
    return Serving(
        cards=_number(options, "tensor-parallel-size", 1),
        utilization=_share(utilization),
        longest=_number(options, "max-model-len", 0) or None,
        batched_tokens=_number(options, "max-num-batched-tokens", 0) or None,
        requests=_number(options, "max-num-seqs", 0) or None,
        block=_number(options, "block-size", 0) or None,
        kv_bytes=_number(options, "kv-cache-memory-bytes", 0) or None,
        offload_gib=_real(offload, "cpu-offload-gb"),
        notes=tuple(notes),
    )


def cpu_kv_gib(environment: Mapping[str, str]) -> float | None:
    """Return the GiB that a CPU engine is told to keep for the cache, or None when it decides itself."""
    text = environment.get(KV_SPACE)
    if text is None:
        return None
    value = _real(text, KV_SPACE)
    # 0 is the engine's own default: it then takes a share of the memory.
    return value or None


def _number(options: Mapping[str, Any], name: str, default: int) -> int:
    value = options.get(name, default)
    if value in (None, "None", "auto", -1, "-1"):
        return default
    match = re.fullmatch(r"(\d{1,12})([kmgKMG]?)", str(value))
    if isinstance(value, bool) or match is None:
        raise CannotSize(f"{name} is {str(value)[:60]!r}, not a whole number")
    return int(match[1]) * _SUFFIXES[match[2]]


def _share(value: Any) -> float:
    share = _real(value, "gpu-memory-utilization")
    if not 0 < share <= 1:
        raise CannotSize(f"gpu-memory-utilization is {share}, not a share from 0 to 1")
    return share


def _real(value: Any, name: str) -> float:
    try:
        number = float(str(value)[:40])
    except ValueError:
        raise CannotSize(f"{name} is {str(value)[:60]!r}, not a number") from None
    if isinstance(value, bool) or not 0 <= number < 1e9:
        raise CannotSize(f"{name} is {str(value)[:60]!r}, not a number from 0")
    return number
