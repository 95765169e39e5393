"""The table of cards: every row has its source, names are found however they are written, ceilings bound measurements."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servegate.data.cards import CARDS
from servegate.errors import UsageError
from servegate.sizing import card_named, find_card, has_native_fp8
from servegate.sizing.predict import Room, predict
from tests.unit.sizing.configs import QWEN3_8B, Config

RECORDED = Path(__file__).parents[2] / "recorded" / "throughput" / "h200-qwen3-8b.json"


def test_every_row_has_a_source_and_figures_of_the_right_size() -> None:
    for card in CARDS:
        assert "NVIDIA" in card.source
        assert (card.visible_gib is None) == (card.visible_source is None)
        assert card.memory_gib >= (card.visible_gib or 0)
        assert 16 <= card.memory_gib <= 300
        assert 200 <= card.bandwidth_gb_s <= 10_000
        if card.fp8_tflops is not None:
            assert has_native_fp8(card.compute_capability)
            assert card.bf16_tflops is not None
            assert card.fp8_tflops == pytest.approx(2 * card.bf16_tflops, rel=0.02)
    names = [name.lower() for card in CARDS for name in {card.name, *card.nvml_names}]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("h200", "H200"), ("NVIDIA H200", "H200"), ("NVIDIA H200 NVL", "H200 NVL"), ("NVIDIA H100 80GB HBM3", "H100"),
        ("rtx-4090", "RTX 4090"), ("NVIDIA GeForce RTX 5090", "RTX 5090"), ("NVIDIA L4", "L4"), ("L40S", "L40S"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000"),
    ],
)  # fmt: skip
def test_names_of_ours_and_of_the_driver(said: str, name: str) -> None:
    found = find_card(said)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("said", ["", "NVIDIA", "L", "H20", "RTX", "A1000", "\ud800"])
def test_a_part_of_a_name_is_no_card(said: str) -> None:
    assert find_card(said) is None


def test_an_unknown_card_names_those_that_are_known() -> None:
    with pytest.raises(UsageError, match="did you mean 'H200'"):
        card_named("h20")


@pytest.mark.parametrize(("capability", "native"), [("8.9", True), ("8.6", False), ("9.0", True), ("12.0", True), ("?", None)])
def test_fp8_needs_compute_capability_8_9(capability: str, native: bool | None) -> None:
    assert has_native_fp8(capability) is native


@pytest.mark.parametrize(
    ("arm", "options"), [("bf16", {}), ("fp8_per_channel", {"quantization": "fp8_per_channel"})]
)  # fmt: skip
def test_what_was_measured_on_an_h200_stays_below_the_ceiling(arm: str, options: Config) -> None:
    points = json.loads(RECORDED.read_text())["arms"][arm]
    card = find_card("H200")
    assert card is not None
    for point in points:
        ceiling = predict(QWEN3_8B, {**options, "max-num-seqs": point["max_concurrency"]}, {}, Room.of_card(card), 640)
        assert ceiling.decode_full is not None
        assert 0.25 * ceiling.decode_full < point["output_throughput"] < ceiling.decode_full
