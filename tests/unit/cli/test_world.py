"""What a run is made of: the manifest of an arm names the cards that the arm is served on."""

from __future__ import annotations

from pathlib import Path

import pytest

from servegate import nvml
from servegate.cli import world
from servegate.engines.card_guard import CardGuard
from tests.fakes.nvml import FakeNvml, device
from tests.unit.samples import arm, engine_facts


@pytest.mark.parametrize(
    ("variables", "served_on"),
    [({"CUDA_VISIBLE_DEVICES": "1"}, [1]), ({}, [0]), ({"CUDA_VISIBLE_DEVICES": ""}, [0, 1])],
    ids=["the second card", "one card of two", "none, so nothing is left out"],
)
def test_a_manifest_names_the_cards_that_the_arm_uses(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variables: dict[str, str], served_on: list[int]
) -> None:
    two = FakeNvml(cards=(device(0), device(1)))
    monkeypatch.setattr(nvml, "opened", lambda: two)
    guard = CardGuard(nvml=two, inherited=variables, who="a gate", wait_s=0, directory=tmp_path)
    made = world._manifest(arm(), engine_facts(), guard)
    assert [card.uuid for card in made.gpus] == [device(index).uuid for index in served_on]
