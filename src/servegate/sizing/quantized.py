"""Which scheme a model is served with: the serving option, or what the checkpoint's `quantization_config` declares.

Names of methods and keys are those that vLLM reads (docs.vllm.ai, "Quantization"). `fp8` alone has meant different scales
in different versions; its size does not depend on that by more than a thousandth, and nothing else is read into it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servegate.sizing.cannot import CannotSize, mapping
from servegate.sizing.schemes import (
    MXFP4,
    MXFP8,
    NF4,
    NVFP4,
    PER_CHANNEL,
    PER_TENSOR,
    SIXTEEN,
    Format,
    Rate,
    Scheme,
    first,
    packed,
    patterns,
    per_block,
)

ONLINE: Mapping[str, Scheme] = {
    "fp8": Scheme("fp8, made while loading", PER_TENSOR, "fp8", notes=("`fp8` names no scales; one a matrix is counted",)),
    "fp8_per_tensor": Scheme("fp8 per tensor, made while loading", PER_TENSOR, "fp8"),
    "fp8_per_channel": Scheme("fp8 per channel, made while loading", PER_CHANNEL, "fp8"),
    "fp8_per_block": Scheme("fp8 per block of 128 x 128, made while loading", per_block(128, 128), "fp8"),
    "mxfp8": Scheme("mxfp8, made while loading", MXFP8, "fp8"),
    "bitsandbytes": Scheme("4-bit NF4, made while loading", NF4),
    "experts_int8": Scheme("int8 experts, made while loading", PER_CHANNEL, experts_only=True),
}
_RATES: Mapping[tuple[str, str], Rate] = {
    ("FP8", "8"): "fp8", ("NVFP4", "4"): "fp4", ("MXFP4", "4"): "fp4", ("INT8", "8"): "int8",
}  # fmt: skip
"""(weights, bits of activations) -> the arithmetic of the products; anything else multiplies in 16 bits."""
PLAIN_BITS = {"bfloat16": 16, "float16": 16, "half": 16, "float32": 32, "float": 32}
METHODS_OF = {"awq_marlin": "awq", "gptq_marlin": "gptq", "modelopt_fp4": "modelopt", "gpt_oss_mxfp4": "mxfp4"}


def scheme_of(config: Mapping[str, Any], options: Mapping[str, Any]) -> Scheme:
    """Return how the weights of a model are kept under serving options.

    Raises:
        CannotSize: the method is not known, or its description is not complete.
    """
    if options.get("quantization-config") is not None:
        raise CannotSize("the serving config gives its own quantization-config")
    plain = Format(_plain_bits(config, options))
    declared = config.get("quantization_config") or mapping(config.get("text_config")).get("quantization_config")
    asked = options.get("quantization")
    if isinstance(declared, dict) and declared:
        scheme = _declared(declared)
    elif asked in (None, "None"):
        scheme = Scheme("32-bit" if plain.bits == 32 else "16-bit")
    elif str(asked) in ONLINE:
        scheme = ONLINE[str(asked)]
    else:
        raise CannotSize(f"the size of weights under quantization {str(asked)[:60]!r} is not known for this checkpoint")
    if plain == SIXTEEN:
        return scheme
    return Scheme(**{**scheme.__dict__, "plain": plain})


def _plain_bits(config: Mapping[str, Any], options: Mapping[str, Any]) -> int:
    asked = str(options.get("dtype", "auto"))
    if asked == "auto":
        text = mapping(config.get("text_config"))
        stored = str(first(text, "dtype", "torch_dtype") or first(config, "dtype", "torch_dtype") or "bfloat16")
        # vLLM's `auto` serves a 32-bit checkpoint in 16 bits.
        return 16 if stored.removeprefix("torch.") in PLAIN_BITS else _unknown_type(stored)
    return PLAIN_BITS[asked] if asked in PLAIN_BITS else _unknown_type(asked)


def _unknown_type(name: str) -> int:
    raise CannotSize(f"the number type {name[:60]!r} is not known")


def _declared(declared: Mapping[str, Any]) -> Scheme:
    method = str(declared.get("quant_method") or ("modelopt" if _algorithm(declared) else ""))[:60]
    method = METHODS_OF.get(method, method)
    kept = patterns(
        *(declared.get(key) for key in ("ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules")),
        mapping(declared.get("quantization")).get("exclude_modules"),
    )
    if method == "fp8":
        block = declared.get("weight_block_size")
        linear = PER_TENSOR if not block else per_block(*_pair(block))
        return Scheme(f"fp8 checkpoint{', per block' if block else ''}", linear, "fp8", kept=kept)
    if method in ("awq", "gptq"):
        return _packed(method, declared, kept)
    if method == "mxfp4":
        return Scheme("mxfp4 checkpoint", MXFP4, experts_only=True, kept=kept)
    if method == "bitsandbytes":
        four = bool(declared.get("load_in_4bit"))
        return Scheme(f"bitsandbytes checkpoint, {4 if four else 8} bits", NF4 if four else PER_CHANNEL, kept=kept)
    if method == "modelopt":
        return _modelopt(declared, kept)
    if method == "compressed-tensors":
        return _compressed(declared, kept)
    raise CannotSize(f"the size of a checkpoint quantized by {method!r} is not known")


def _packed(method: str, declared: Mapping[str, Any], kept: tuple[str, ...]) -> Scheme:
    bits = _whole(first(declared, "bits", "w_bit"), "bits", 2, 8)
    group = _whole(first(declared, "group_size", "q_group_size"), "group_size", -1, 1 << 20)
    zero_points = bool(declared.get("zero_point", True)) if method == "awq" else not declared.get("sym", True)
    linear = packed(bits, group, zero_points=zero_points)
    name = f"{method.upper()} checkpoint, {bits} bits, " + (f"groups of {group}" if group > 0 else "one scale a row")
    return Scheme(name, linear, head=declared.get("lm_head") is True, kept=kept)


def _algorithm(declared: Mapping[str, Any]) -> str | None:
    value = declared.get("quant_algo") or mapping(declared.get("quantization")).get("quant_algo")
    return None if value is None else str(value)[:60].upper()


def _modelopt(declared: Mapping[str, Any], kept: tuple[str, ...]) -> Scheme:
    algorithm = _algorithm(declared)
    cache = declared.get("kv_cache_quant_algo") or mapping(declared.get("quantization")).get("kv_cache_quant_algo")
    kv_cache = "fp8" if str(cache).upper() == "FP8" or mapping(declared.get("kv_cache_scheme")).get("num_bits") == 8 else None
    if algorithm == "FP8":
        return Scheme("ModelOpt FP8 checkpoint", PER_TENSOR, "fp8", kept=kept, kv_cache=kv_cache)
    if algorithm == "NVFP4":
        return Scheme("ModelOpt NVFP4 checkpoint", NVFP4, "fp4", kept=kept, kv_cache=kv_cache)
    raise CannotSize(f"the size of a ModelOpt checkpoint with {algorithm!r} is not known")


def _compressed(declared: Mapping[str, Any], kept: tuple[str, ...]) -> Scheme:
    groups = mapping(declared.get("config_groups"))
    found = {_weights(mapping(group)) for group in groups.values()}
    if len(found) != 1:
        raise CannotSize(f"compressed-tensors with {len(found)} kinds of weights in one checkpoint")
    name, linear = found.pop()
    activations = {str(mapping(mapping(group).get("input_activations")).get("num_bits")) for group in groups.values()}
    rate = _RATES.get((name, "".join(sorted(activations))), "bf16")
    kv_cache = "fp8" if mapping(declared.get("kv_cache_scheme")).get("num_bits") == 8 else None
    # `ignore` names whole modules or `re:` patterns; lm_head is quantized unless it is named.
    targets = [str(item) for group in groups.values() for item in mapping(group).get("targets") or ()]
    head = "Linear" in targets and not any("lm_head" in item for item in kept)
    return Scheme(f"compressed-tensors {name} checkpoint", linear, rate, head=head, kept=kept, kv_cache=kv_cache)


def _weights(group: Mapping[str, Any]) -> tuple[str, Format]:
    weights = mapping(group.get("weights"))
    bits = _whole(weights.get("num_bits"), "num_bits", 2, 8)
    kind, strategy, size = str(weights.get("type")), str(weights.get("strategy"))[:60], weights.get("group_size")
    if kind == "float" and bits == 4:
        nvidia = _whole(size, "group_size", 1, 1 << 20) == 16
        return ("NVFP4", NVFP4) if nvidia else ("MXFP4", MXFP4)
    if bits == 8 and strategy in ("tensor", "channel", "block"):
        name = "FP8" if kind == "float" else "INT8"
        if strategy == "block":
            return name, per_block(*_pair(weights.get("block_structure")))
        return name, PER_TENSOR if strategy == "tensor" else PER_CHANNEL
    if kind == "int" and strategy in ("group", "channel"):
        width = _whole(size, "group_size", 1, 1 << 20) if strategy == "group" else -1
        return f"INT{bits}", packed(bits, width, zero_points=not weights.get("symmetric", True))
    raise CannotSize(f"compressed-tensors weights of {bits} bits, type {kind[:60]!r}, by {strategy!r}")


def _whole(value: Any, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high or value == 0:
        raise CannotSize(f"quantization_config: {name!r} is {str(value)[:60]!r}, not a number from {low} to {high}")
    return value


def _pair(value: Any) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise CannotSize(f"quantization_config: a block is {str(value)[:60]!r}, not [rows, columns]")
    return _whole(value[0], "block rows", 1, 1 << 20), _whole(value[1], "block columns", 1, 1 << 20)
