"""Bytes by format, worked out by hand, and which matrices a checkpoint leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from servegate.sizing.cannot import CannotSize
from servegate.sizing.kv import GIB
from servegate.sizing.matrices import Matrix, Part
from servegate.sizing.quantized import scheme_of
from servegate.sizing.schemes import MXFP4, MXFP8, NF4, NVFP4, PER_CHANNEL, PER_TENSOR, Format, packed, per_block
from servegate.sizing.shape import shape_of
from tests.unit.sizing.configs import DEEPSEEK_V3, GPT_OSS_20B, LLAMA3_8B, Config

ROWS, COLUMNS = 1024, 4096
NUMBERS = ROWS * COLUMNS


@pytest.mark.parametrize(
    ("kept", "size"),
    [
        (PER_TENSOR, NUMBERS + 4),
        (PER_CHANNEL, NUMBERS + ROWS * 4),
        (per_block(128, 128), NUMBERS + 8 * 32 * 4),
        (MXFP8, NUMBERS + NUMBERS / 32),
        (MXFP4, NUMBERS / 2 + NUMBERS / 32),
        (NVFP4, NUMBERS / 2 + NUMBERS / 16 + 8),
        (NF4, NUMBERS / 2 + NUMBERS / 64 * 4),
        (packed(4, 128, zero_points=True), NUMBERS / 2 + NUMBERS / 128 * 2.5),
        (packed(4, 128, zero_points=False), NUMBERS / 2 + NUMBERS / 128 * 2),
        (packed(4, -1, zero_points=False), NUMBERS / 2 + ROWS * 2),
    ],
)
def test_bytes_of_a_matrix_with_its_scales(kept: Format, size: float) -> None:
    assert kept.bytes_of(ROWS, COLUMNS) == size


def test_a_block_that_is_not_whole_has_a_scale_of_its_own() -> None:
    assert per_block(128, 128).bytes_of(130, 100) == 130 * 100 + 2 * 4


GROUP = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128, "symmetric": True}


NV_FLOAT = {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}


def compressed(weights: Config, activations: Config | None = None, **more: Any) -> Config:
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"], **more}


@pytest.mark.parametrize(
    ("declared", "linear", "rate"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, per_block(128, 128), "fp8"),
        ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}, packed(4, 128, zero_points=True), "bf16"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": True}, packed(4, 64, zero_points=False), "bf16"),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1, "sym": False}, packed(8, -1, zero_points=True), "bf16"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, NVFP4, "fp4"),
        ({"quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}, PER_TENSOR, "fp8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, NF4, "bf16"),
        (compressed(GROUP), packed(4, 128, zero_points=False), "bf16"),
        (compressed({"num_bits": 8, "type": "float", "strategy": "channel"}, {"num_bits": 8}), PER_CHANNEL, "fp8"),
        (compressed({"num_bits": 8, "type": "int", "strategy": "channel"}, {"num_bits": 8}), PER_CHANNEL, "int8"),
        (compressed(NV_FLOAT, {"num_bits": 4}), NVFP4, "fp4"),
        (compressed({"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32}), MXFP4, "bf16"),
    ],
)  # fmt: skip
def test_checkpoints_declare_their_format(declared: Config, linear: Format, rate: str) -> None:
    scheme = scheme_of(LLAMA3_8B | {"quantization_config": declared}, {})
    assert (scheme.linear, scheme.rate, scheme.head) == (linear, rate, False)


def test_published_sizes_of_4_bit_checkpoints() -> None:
    # Llama-3-8B in AWQ groups of 128 is a checkpoint of 5.73e9 bytes; gpt-oss-20b in MXFP4 one of 13.76e9.
    awq = LLAMA3_8B | {"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}}
    assert scheme_of(awq, {}).bytes_of(shape_of(awq)) == pytest.approx(5.73e9, rel=0.005)
    assert scheme_of(GPT_OSS_20B, {}).bytes_of(shape_of(GPT_OSS_20B)) == pytest.approx(13.76e9, rel=0.01)


def test_fp8_keeps_embedding_and_head_in_16_bits() -> None:
    shape = shape_of(LLAMA3_8B)
    online = scheme_of(LLAMA3_8B, {"quantization": "fp8_per_channel"})
    assert online.bytes_of(shape) / GIB == pytest.approx(8.46, abs=0.01)
    assert scheme_of(LLAMA3_8B, {}).bytes_of(shape) / GIB == pytest.approx(14.96, abs=0.005)


def test_routers_are_never_quantized_and_mxfp4_touches_experts_only() -> None:
    scheme = scheme_of(GPT_OSS_20B, {})
    kinds = {each.part: scheme.format_of(each).bits for each in shape_of(GPT_OSS_20B).matrices}
    assert kinds == {Part.EMBEDDING: 16, Part.HEAD: 16, Part.LINEAR: 16, Part.ROUTER: 16, Part.EXPERT: 4}


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        ("model.layers.3.mlp.down_proj", True),
        ("model.layers.3.mlp", True),
        ("down_proj", True),
        ("re:.*down_proj", True),
        ("re:.*\\.mlp\\..*", True),
        ("model.layers.*.mlp*", True),
        ("model.layers.30.mlp", False),
        ("down", False),
        ("re:.*up_proj$", False),
        ("re:(a+)+$", False),
    ],
)
def test_modules_that_a_checkpoint_does_not_quantize(pattern: str, kept: bool) -> None:
    declared = {"quant_method": "fp8", "modules_to_not_convert": [pattern]}
    scheme = scheme_of(LLAMA3_8B | {"quantization_config": declared}, {})
    matrix = Matrix("model.layers.3.mlp.down_proj", Part.LINEAR, 8, 8, 8)
    assert (scheme.format_of(matrix).bits == 16) is kept


def test_a_hostile_pattern_costs_no_time() -> None:
    declared = {"quant_method": "fp8", "ignore": ["re:" + ".*a" * 60 + "$", "x" * 10**6, 7, None]}
    scheme = scheme_of(LLAMA3_8B | {"quantization_config": declared}, {})
    assert scheme.format_of(Matrix("model." + "a" * 80 + "!", Part.LINEAR, 8, 8, 8)).bits == 8
    assert len(scheme.kept) == 1


def test_what_a_step_reads_of_experts_grows_with_requests() -> None:
    shape, scheme = shape_of(DEEPSEEK_V3), scheme_of(DEEPSEEK_V3, {})
    one, many = scheme.read_bytes(shape, 1, 1), scheme.read_bytes(shape, 1, 1000)
    embedding = 129280 * 7168 * 2
    assert one == pytest.approx(38.5e9, rel=0.03)
    assert many == pytest.approx(scheme.bytes_of(shape) - embedding, rel=1e-6)


@pytest.mark.parametrize(
    ("declared", "options", "said"),
    [
        ({"quant_method": "quip"}, {}, "'quip' is not known"),
        ({"quant_method": "awq", "bits": "four"}, {}, "'bits' is 'four'"),
        ({"quant_method": "awq", "bits": 4}, {}, "'group_size' is 'None'"),
        ({"quant_method": "fp8", "weight_block_size": [0, 128]}, {}, "'block rows' is '0'"),
        ({"quant_method": "compressed-tensors"}, {}, "0 kinds of weights"),
        ({"quant_method": "modelopt", "quant_algo": "W4A8"}, {}, "'W4A8' is not known"),
        (None, {"quantization": "invented"}, "'invented' is not known"),
        (None, {"quantization-config": {"a": 1}}, "quantization-config"),
        (None, {"dtype": "float8"}, "'float8' is not known"),
    ],
)
def test_formats_of_unknown_size_are_refused(declared: Config | None, options: Config, said: str) -> None:
    with pytest.raises(CannotSize) as refused:
        scheme_of(LLAMA3_8B | {"quantization_config": declared}, options)
    assert said in str(refused.value)
