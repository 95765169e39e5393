"""What vLLM said about itself while it started, out of its log. Pure: text in, facts out.

The log is no interface: its wording changes between versions (0.25 names GPU memory, the CPU build never does), so every
fact may be missing, and a missing fact is None with its reason, never a default. Tested on recorded logs of every
version that we have met. Quantization is read from what was *done* (`Selected ... for ...`), because an engine that
was asked for FP8 may compute in BF16 after unpacking the weights (W8A16), and that is another experiment.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from servegate.domain.evidence import REHEARSAL, EngineFacts, Kernel, LogWarning, Quantization, Requested
from servegate.domain.records import Json
from servegate.engines.log_lines import Line, contradiction, first, integer, lines_of, number
from servegate.engines.vllm_phases import logged_phases

_INITIALIZING = re.compile(r"Initializing a V1 LLM engine \(v([\w.+-]+)\) with config: (.*)")
_KERNELS = (
    re.compile(r"^Selected (\w{1,120}) for (\w{1,120})$"),
    re.compile(r"^Using (\w{1,120}) for (\w{1,60}(?: (?:GEMM|MoE)|LinearMethod))$"),
    re.compile(r"^Using '?(\w{1,120})'? (?:\w+ )?MoE backend"),
)
_WARNINGS: tuple[tuple[str, str], ...] = (
    ("fp8_weight_only", "does not have native support for FP8 computation"),
    ("kv_scale_one", r"Using KV cache scaling factor 1\.0"),
    ("kv_scales_missing", "without a proper scaling factor"),
    ("attention_scales_missing", r"Using uncalibrated q_scale 1\.0|does not provide a q scaling factor"),
    ("scales_skipped", r"not found in params_dict, skip|skip loading"),
    ("weights_not_initialized", "weights were not initialized from"),
    ("moe_config_missing", "Using default MoE config"),
    ("block_fp8_config_missing", "Using default W8A8 Block FP8 kernel config"),
    ("jit_while_serving", "JIT compilation during inference"),
    ("eager_mode", "Enforce eager set"),
    ("triton_missing", "Triton is not installed"),
    ("old_model_runner", "using the V1 model runner instead"),
    ("tcmalloc_missing", "libtcmalloc is not found"),
    ("openmp_missing", "libiomp is not found"),
    ("file_limit", "Found ulimit of"),
    ("sampling_defaults", "sampling parameters have been overridden"),
    ("slow_worker", "No available shared memory broadcast block"),
    (REHEARSAL, "servegate fake-engine: a rehearsal"),
)
"""Stable code, what gives it away. Counted over the text that is handed in, which is the start."""


def read_log(text: str, base: EngineFacts) -> EngineFacts:
    """Return `base` with every fact that the log gives; what `base` already knows is kept."""
    lines = lines_of(text)
    config = _engine_config(lines)
    resolved = _named(config, "quantization")
    kernels = tuple(_kernels(lines))
    warnings = tuple(_warnings(lines))
    device = _named(config, "device_config")
    precision = _precision(resolved, _named(config, "dtype"), kernels, warnings)
    found: dict[str, Any] = {
        "version": config[0] if config else first(lines, r"version (\d[\w.+-]*)$"),
        "max_model_len": integer(first(lines, r"Using max model len (\d+)") or _named(config, "max_seq_len")),
        "quantization": Quantization(
            requested=_asked(lines, "quantization"),
            resolved=resolved.lower() if resolved else None,
            effective_precision=precision,
        ),
        "kv_cache_dtype": Requested(requested=_asked(lines, "kv_cache_dtype"), resolved=_named(config, "kv_cache_dtype")),
        "kernels": kernels,
        "quantized_layers": integer(first(lines, r"Quantizing (\d+) layers of types")),
        "attention_backend": _attention(lines),
        "device": device,
        "weights_gib": number(first(lines, r"Model loading took ([\d.]+) GiB")),
        "kv_cache_gib": number(
            first(lines, r"Available KV cache memory: ([\d.]+) GiB")
            or first(lines, r"set \(([\d.]+)/[\d.]+\) GiB for KV cache")
        ),
        "kv_cache_tokens": integer(first(lines, r"KV cache size: ([\d,]+) tokens")),
        "warnings": warnings,
        "phases_s": base.phases_s or logged_phases(lines),
        "sampling_defaults": _sampling_defaults(lines),
        "unknown_variables": tuple(_unknown_variables(lines)),
        "lines": _fact_lines(lines, config),
    }
    found |= _contradictions(lines)
    found = {name: value for name, value in found.items() if getattr(base, name) in (None, (), {}) or not _plain(value)}
    return base.model_copy(update={**found, **_reasons(base, found, resolved, device)})


_SAID_ONCE: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "weights_gib": ("weights (GiB)", r"Model loading took ([\d.]+) GiB", ("weights_gib",)),
    "kv_cache_gib": ("KV cache (GiB)", r"Available KV cache memory: ([\d.]+) GiB", ("kv_cache_gib",)),
    "kv_cache_tokens": ("KV cache (tokens)", r"KV cache size: ([\d,]+) tokens", ("kv_cache_tokens",)),
    "quantization": (
        "quantization",
        r"Initializing a V1 LLM engine \(v[\w.+-]+\) with config: .{0,6000}?, quantization=([^,\s]+)",
        (),
    ),
    "kv_cache_dtype": (
        "type of the KV cache",
        r"Initializing a V1 LLM engine \(v[\w.+-]+\) with config: .{0,6000}?, kv_cache_dtype=([^,\s]+)",
        (),
    ),
}
"""Facts that a log gives once: how people call them, the line, and which fields are unknown where two lines differ."""


def _contradictions(lines: Sequence[Line]) -> dict[str, Any]:
    """Return what to say of an engine whose log says two things of one fact, and the facts that are unknown by that."""
    told: list[str] = []
    unknown: dict[str, Any] = {}
    for name, pattern, fields in _SAID_ONCE.values():
        said = contradiction(lines, pattern)
        if said is not None:
            told.append(f"{name}: {said}"[:200])
            unknown |= dict.fromkeys(fields)
    return {**unknown, "contradictions": tuple(told)} if told else {}


def _plain(value: object) -> bool:
    """Whether a known value of `base` may stand instead; composite facts come from the log alone."""
    return not isinstance(value, Quantization | Requested | tuple | dict)


def _reasons(base: EngineFacts, found: dict[str, Any], resolved: str | None, device: str | None) -> dict[str, str]:
    """Return a reason for every fact that is missing, and nothing for those that are known."""
    silent = "the engine's log does not say"
    texts = {
        "version": silent,
        "max_model_len": silent,
        "quantized_layers": "nothing was quantized while loading" if resolved == "None" else silent,
        "attention_backend": "the engine does not name the CPU's attention backend" if device == "cpu" else silent,
        "weights_gib": "the engine does not log the size of loaded weights on a CPU" if device == "cpu" else silent,
        "kv_cache_gib": silent,
        "kv_cache_tokens": silent,
        "sampling_defaults": "the log names no defaults from generation_config.json",
    }
    for name in _SAID_ONCE:
        if found.get("contradictions") and name in found and found[name] is None:
            texts[name] = "the engine's log contradicts itself"
    return {f"{name}_reason": text for name, text in texts.items() if found.get(name, getattr(base, name)) is None}


def _engine_config(lines: Sequence[Line]) -> tuple[str, str] | None:
    """Return (version, the config as printed) of the line that announces the engine."""
    return next(((match[1], match[2]) for line in lines if (match := _INITIALIZING.search(line.text))), None)


def _named(config: tuple[str, str] | None, name: str) -> str | None:
    """Return the value of `name=value` at the top of the printed config: values with a comma are cut there."""
    match = re.search(rf"(?:^|, ){name}=([^,\s]+)", config[1]) if config else None
    return match[1] if match else None


_SAYS: dict[str, str] = {
    "version": r"Initializing a V1 LLM engine",
    "asked": r"non-default args: ",
    "max_model_len": r"Using max model len \d+",
    "attention_backend": r"Using \w+ attention backend|Using AttentionBackendEnum\.\w+ backend",
    "quantized_layers": r"Quantizing \d+ layers of types",
    "weights_gib": r"Model loading took [\d.]+ GiB",
    "kv_cache_gib": r"Available KV cache memory: [\d.]+ GiB|set \([\d.]+/[\d.]+\) GiB for KV cache",
    "kv_cache_tokens": r"KV cache size: [\d,]+ tokens",
}
_UNKNOWN_VARIABLE = re.compile(r"Unknown vLLM environment variable detected: (\w{1,120})")


def _fact_lines(lines: Sequence[Line], config: tuple[str, str] | None) -> dict[str, int]:
    """Return the line that gives each fact, for a reader who wants to see it in server.log."""
    found: dict[str, int] = {}
    for name, pattern in _SAYS.items():
        compiled = re.compile(pattern)
        number = next((line.number for line in lines if compiled.search(line.text)), None)
        if number is not None:
            found[name] = number
    announced = found.get("version")
    if announced is not None:
        found |= {name: announced for name in ("quantization", "kv_cache_dtype") if _named(config, name) is not None}
    return found


def _unknown_variables(lines: Sequence[Line]) -> Iterable[str]:
    return dict.fromkeys(match[1] for line in lines if (match := _UNKNOWN_VARIABLE.search(line.text)))


def _asked(lines: Iterable[Line], name: str) -> str | None:
    arguments = next((line.text for line in lines if "non-default args: " in line.text), "")
    match = re.search(rf"'{name}': '([^']*)'", arguments)
    return match[1] if match else None


def _kernels(lines: Iterable[Line]) -> Iterable[Kernel]:
    seen: dict[tuple[str, str], list[int]] = {}
    for line in lines:
        for pattern in _KERNELS:
            if match := pattern.search(line.text):
                layers = match[2] if pattern.groups > 1 else "mixture of experts"
                seen.setdefault((match[1], layers), []).append(line.number)
    for (kernel, layers), numbers in seen.items():
        yield Kernel(kernel=kernel, layers=layers, count=len(numbers), line=numbers[0])


def _warnings(lines: Sequence[Line]) -> Iterable[LogWarning]:
    for code, pattern in _WARNINGS:
        numbers = [line.number for line in lines if re.search(pattern, line.text)]
        if numbers:
            yield LogWarning(code=code, count=len(numbers), line=numbers[0])


def _precision(
    resolved: str | None, dtype: str | None, kernels: Sequence[Kernel], warnings: Sequence[LogWarning]
) -> str | None:
    """Return the precision that linear layers compute in: weights and activations, and by which road if not natively.

    W8A8: 8-bit weights times 8-bit activations. W8A16: weights are unpacked and multiplied in 16 bits.
    """
    if resolved == "None" and dtype:
        return {"torch.bfloat16": "BF16", "torch.float16": "FP16", "torch.float32": "FP32"}.get(dtype, dtype)
    names = " ".join(kernel.kernel for kernel in kernels)
    bits = "4" if re.search(r"FP4|AWQ|GPTQ|W4", names + " ".join(kernel.layers for kernel in kernels)) else "8"
    if "Marlin" in names or any(warning.code == "fp8_weight_only" for warning in warnings):
        return f"W{bits}A16 (Marlin, weights only)"
    if "Emulation" in names or "Dequant" in names:
        return f"W{bits}A16 (emulated)"
    if "ScaledMM" in names or "DeepGemm" in names:
        return "W8A8 (torch fallback)" if "Torch" in names else "W8A8"
    return None


def _attention(lines: Sequence[Line]) -> str | None:
    pattern = re.compile(r"Using (\w{1,60}) attention backend|Using AttentionBackendEnum\.(\w{1,60}) backend")
    named = dict.fromkeys(match[1] or match[2] for line in lines if (match := pattern.search(line.text)))
    backend = " and ".join([*named][:4])  # some models have two kinds of layers; and what a log quotes must not hide behind one
    version = first(lines, r"Using FlashAttention version (\d+)")
    return f"{backend}, FlashAttention {version}" if backend and version else backend or None


def _sampling_defaults(lines: Iterable[Line]) -> Json | None:
    """Return the defaults that generation_config.json put under requests that do not pin a parameter."""
    text = first(lines, r"sampling parameters have been overridden by [^`]{0,100}`[^`]{0,200}`: `(\{[^`]{0,4000}\})`")
    try:
        value = ast.literal_eval(text) if text else None
        return json.loads(json.dumps(value, allow_nan=False)) if isinstance(value, dict) else None
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):  # no dict of JSON's, whatever it is
        return None
