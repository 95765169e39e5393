"""Predictions beside what real engines logged, and beside arithmetic that others have published."""

from __future__ import annotations

from typing import Any

import pytest

from servegate.sizing import CannotSize, Prediction, Room, find_card, predict
from servegate.sizing.kv import GIB, request_bytes, token_bytes, token_capacity
from servegate.sizing.predict import predicted
from servegate.sizing.shape import shape_of
from tests.unit.sizing.configs import DEEPSEEK_V3, GPT_OSS_20B, LLAMA3_8B, LLAMA3_70B, QWEN3_8B, SMOLLM2, Config


def on(card: str, config: Config, tokens: int = 4096, **options: Any) -> Prediction:
    found = find_card(card)
    assert found is not None
    return predict(config, {key.replace("_", "-"): value for key, value in options.items()}, {}, Room.of_card(found), tokens)


@pytest.mark.parametrize(
    ("options", "weights_gib", "tokens"),
    [
        ({}, 15.27, 814_368),
        ({"quantization": "fp8_per_channel"}, 8.8, 861_216),
        ({"quantization": "fp8_per_channel", "kv_cache_dtype": "fp8"}, 8.8, 1_722_432),
    ],
)
def test_qwen3_8b_on_an_h200_as_vllm_0_25_1_logged_it(options: Config, weights_gib: float, tokens: int) -> None:
    found = on("H200", QWEN3_8B, max_model_len=4096, **options)
    assert found.weights_gib == pytest.approx(weights_gib, rel=0.002)
    assert found.kv_tokens == pytest.approx(tokens, rel=0.015)
    assert found.kv_tokens_reserved == pytest.approx(tokens, rel=0.004)


@pytest.mark.parametrize(("cache", "tokens"), [("auto", 93_184), ("fp8", 186_368)])
def test_smollm2_on_a_cpu_as_vllm_0_32_0_logged_it(cache: str, tokens: int) -> None:
    found = predict(SMOLLM2, {"kv-cache-dtype": cache}, {"VLLM_CPU_KVCACHE_SPACE": "2"}, Room(cpu=True), 2048)
    assert (found.kv_tokens, found.kv_tokens_reserved) == (tokens, tokens)
    assert found.decode_reason == "speed is not predicted on a CPU"


def whole_residual(config: Config, card_gib: float, weights_bytes: float, number: int, cards: int = 1) -> int:
    """Tokens in what weights of a given size leave of 92 % of the cards, without blocks or reserves."""
    budget = card_gib * GIB * 0.92 - weights_bytes / cards
    return token_capacity(budget, shape_of(config), number, cards, 1, 4096, 0)


@pytest.mark.parametrize(
    ("bytes_a_weight", "number", "a_token", "tokens"),
    [(2, 2, 131_072, 58_351), (1, 2, 131_072, 119_615), (1, 1, 65_536, 239_230)],
)
def test_the_known_arithmetic_of_llama_3_8b_on_24_gib(bytes_a_weight: int, number: int, a_token: int, tokens: int) -> None:
    assert token_bytes(shape_of(LLAMA3_8B), number, 1) == a_token
    assert whole_residual(LLAMA3_8B, 24, 8.03e9 * bytes_a_weight, number) == tokens


def test_capacity_is_a_residual_llama_3_70b_on_two_cards() -> None:
    token = 320 * 1024
    assert whole_residual(LLAMA3_70B, 80, 70.6e9 * 2, 2, cards=2) == pytest.approx(51_000, rel=0.02)
    assert whole_residual(LLAMA3_70B, 80, 70.6e9, 2, cards=2) == pytest.approx(267_000, rel=0.002)
    plain, fp8 = (
        predict(LLAMA3_70B, {"tensor-parallel-size": 2, **options}, {}, Room(80.0), 4096)
        for options in ({}, {"quantization": "fp8_per_channel"})
    )
    assert plain.token_bytes == token / 2
    assert plain.kv_tokens == pytest.approx(51_600, rel=0.01)
    # Less than 267,000: embedding and head stay in 16 bits.
    assert fp8.kv_tokens == pytest.approx(260_000, rel=0.01)


def test_the_same_model_from_its_config_fits_the_plain_arithmetic() -> None:
    found = predict(LLAMA3_8B, {}, {}, Room(24.0), 4096)
    assert found.token_bytes == 131_072
    assert found.kv_tokens == pytest.approx(58_351, abs=16)


@pytest.mark.parametrize(
    ("card", "options", "tokens_per_second"),
    [("L40S", {}, 57.6), ("L40S", {"quantization": "fp8"}, 107.6), ("RTX 5070 Ti", {"quantization": "fp8"}, 111.6)],
)
def test_known_decode_ceilings_of_llama_3_8b(card: str, options: Config, tokens_per_second: float) -> None:
    # At one token of context, since those were worked out without the cache.
    found = on(card, LLAMA3_8B, tokens=1, **options)
    assert found.decode_one == pytest.approx(tokens_per_second, rel=0.003)


def test_a_token_of_deepseek_v3_costs_the_same_on_every_card() -> None:
    one, eight = on("H200", DEEPSEEK_V3), on("H200", DEEPSEEK_V3, tensor_parallel_size=8)
    assert one.token_bytes == eight.token_bytes == 61 * 576 * 2
    assert (one.kv_tokens, one.kv_tokens_reason) == (None, one.kv_gib_reason)
    assert one.kv_gib_reason is not None
    assert "the weights alone take" in one.kv_gib_reason
    assert eight.kv_tokens is not None
    assert any("MLA" in note for note in eight.notes)


def test_windows_cost_no_more_than_themselves() -> None:
    shape = shape_of(GPT_OSS_20B)
    short, long = (request_bytes(shape, 2, 1, tokens, 16) for tokens in (128, 131_072))
    token = 8 * 128 * 2
    assert short == 24 * 128 * token
    assert long == 12 * 131_072 * token + 12 * 144 * token
    found = on("H200", GPT_OSS_20B, max_model_len=131_072)
    assert found.layers == {"window of 128": 12, "full": 12}
    assert found.kv_gib is not None
    assert found.kv_tokens is not None
    full = found.kv_gib * GIB / found.token_bytes
    assert full * 1.8 < found.kv_tokens < full * 2


def test_a_card_without_fp8_is_told_and_multiplies_in_16_bits() -> None:
    plain, fp8 = on("A100", LLAMA3_8B), on("A100", LLAMA3_8B, quantization="fp8")
    assert fp8.prefill == plain.prefill
    assert any("no FP8 arithmetic" in note for note in fp8.notes)
    assert on("RTX PRO 6000", LLAMA3_8B).prefill_reason == "the card table has no dense BF16 rate of RTX PRO 6000"


def test_options_that_give_the_cache_or_take_the_room() -> None:
    given = on("L4", LLAMA3_8B, kv_cache_memory_bytes="1G")
    assert (given.kv_gib, given.kv_tokens) == (1.0, 8192)
    assert given.reserve_gib is None
    assert on("L4", LLAMA3_8B, cpu_offload_gb=4).weights_gib == pytest.approx(14.96 - 4, abs=0.01)
    fewer = on("L4", LLAMA3_8B, quantization="fp8", max_num_seqs=2)
    assert fewer.requests_in_flight == 2
    assert (
        on("L4", LLAMA3_8B | {"quantization_config": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}).token_bytes == 65_536
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pipeline-parallel-size": 2}, "pipeline parallelism"),
        ({"hf-overrides": {"num_hidden_layers": 2}}, "hf-overrides"),
        ({"kv-cache-dtype": "invented"}, "'invented' is not known"),
        ({"gpu-memory-utilization": 1.5}, "not a share"),
        ({"gpu-memory-utilization": "nan"}, "not a number from 0"),
        ({"tensor-parallel-size": "two"}, "not a whole number"),
    ],
)
def test_what_is_not_modelled_is_said(options: Config, said: str) -> None:
    with pytest.raises(CannotSize) as refused:
        predict(LLAMA3_8B, options, {}, Room(24.0), 4096)
    assert said in str(refused.value)
    assert said in str(predicted(LLAMA3_8B, options, {}, Room(24.0), 4096))


def test_unknown_room_still_predicts_weights_and_gives_a_reason_for_the_rest() -> None:
    found = predict(LLAMA3_8B, {}, {}, Room(), 4096)
    assert found.weights_gib > 14
    assert (found.kv_tokens, found.kv_tokens_reason) == (None, "no card is known")
    cpu = predict(LLAMA3_8B, {}, {}, Room(cpu=True), 4096)
    assert "VLLM_CPU_KVCACHE_SPACE is not set" in str(cpu.kv_tokens_reason)
