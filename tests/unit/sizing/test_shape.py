"""The matrices of a model: numbers of weights that their authors published, and what tensor parallelism makes of them."""

from __future__ import annotations

import pytest

from servegate.sizing.cannot import CannotSize
from servegate.sizing.matrices import Keeps
from servegate.sizing.shape import shape_of
from tests.unit.sizing.configs import (
    DEEPSEEK_V3,
    GPT_OSS_20B,
    LLAMA3_8B,
    LLAMA3_70B,
    QWEN3_8B,
    QWEN3_30B_A3B,
    SMOLLM2,
    Config,
)


@pytest.mark.parametrize(
    ("config", "weights"),
    [(LLAMA3_8B, 8_030_261_248), (LLAMA3_70B, 70_553_706_496), (QWEN3_8B, 8_190_735_360), (SMOLLM2, 134_515_008)],
)
def test_weights_are_counted_to_the_last(config: Config, weights: int) -> None:
    assert shape_of(config).parameters == weights


@pytest.mark.parametrize(
    ("config", "billions", "active"),
    [(QWEN3_30B_A3B, 30.53, 3.35), (DEEPSEEK_V3, 671.03, 37.5), (GPT_OSS_20B, 20.9, 3.6)],
)
def test_mixtures_of_experts_are_those_of_their_model_cards(config: Config, billions: float, active: float) -> None:
    shape = shape_of(config)
    assert shape.parameters / 1e9 == pytest.approx(billions, rel=0.005)
    # Model cards count the embedding among the active ones, or not: both lie within a tenth.
    assert shape.active_parameters / 1e9 == pytest.approx(active, rel=0.11)


def test_mla_keeps_one_vector_for_all_heads() -> None:
    assert {(layer.keeps, layer.heads, layer.values) for layer in shape_of(DEEPSEEK_V3).layers} == {(Keeps.LATENT, 1, 576)}


def test_windows_are_those_of_the_layers() -> None:
    windows = [layer.window for layer in shape_of(GPT_OSS_20B).layers]
    assert windows == [128, None] * 12
    gemma = LLAMA3_8B | {"model_type": "gemma3_text", "sliding_window": 1024, "num_hidden_layers": 12}
    assert [layer.window for layer in shape_of(gemma).layers] == ([1024] * 5 + [None]) * 2
    mistral = LLAMA3_8B | {"model_type": "mistral", "sliding_window": 4096}
    assert {layer.window for layer in shape_of(mistral).layers} == {4096}
    off = LLAMA3_8B | {"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}
    assert {layer.window for layer in shape_of(off).layers} == {None}


def test_cards_share_matrices_by_whole_heads_and_repeat_heads_that_are_fewer() -> None:
    by_name = {each.name: each for each in shape_of(LLAMA3_8B).matrices}
    key, down = by_name["model.layers.0.self_attn.k_proj"], by_name["model.layers.0.mlp.down_proj"]
    assert [key.on_card(cards) for cards in (1, 2, 8, 16)] == [(1024, 4096), (512, 4096), (128, 4096), (128, 4096)]
    assert down.on_card(2) == (4096, 7168)
    assert by_name["model.layers.0.self_attn.o_proj"].on_card(2) == (4096, 2048)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "something_new"}, "model_type 'something_new' are not known"),
        ({"model_type": "x" * 5000}, "are not known"),
        ({"hidden_size": None}, "config.json has no 'hidden_size'"),
        ({"hidden_size": "4096"}, "'hidden_size' is '4096', not a number"),
        ({"hidden_size": True}, "'hidden_size' is True"),
        ({"num_hidden_layers": 10**6}, "more than 1024"),
        ({"num_hidden_layers": 10**30}, "not a number from 1"),
        ({"layer_types": ["mamba"] * 32}, "layers of kind 'mamba' are not known"),
        ({"layer_types": ["full_attention"]}, "has none for layer 1"),
        ({"model_type": "mixtral"}, "is a mixture of experts"),
    ],
)
def test_what_a_config_does_not_settle_is_refused_with_its_reason(change: Config, said: str) -> None:
    with pytest.raises(CannotSize, match=r"^.{10,200}$") as refused:
        shape_of(LLAMA3_8B | change)
    assert said in str(refused.value)
