"""What a checkpoint says of its own quantization, and why it does not."""

from __future__ import annotations

import json
from pathlib import Path

from servegate.engines.checkpoint import MAX_RECIPE_BYTES, checkpoint_facts


def test_the_recipe_beside_the_weights_or_why_there_is_none(tmp_path: Path) -> None:
    config = {"quantization_config": {"quant_method": "compressed-tensors"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    without = checkpoint_facts(str(tmp_path))
    assert without["checkpoint_quantization"] == config["quantization_config"]
    assert without["checkpoint_recipe_reason"] == "the checkpoint holds no recipe.yaml"
    (tmp_path / "recipe.yaml").write_bytes(b"dataset: \xff\n")
    assert checkpoint_facts(str(tmp_path))["checkpoint_recipe"] == "dataset: \ufffd\n"
    (tmp_path / "recipe.yaml").write_text("x" * (MAX_RECIPE_BYTES + 1))
    assert "longer than" in checkpoint_facts(str(tmp_path))["checkpoint_recipe_reason"]


def test_a_model_of_the_hub_or_of_16_bits_has_its_reason(tmp_path: Path) -> None:
    assert "not a directory" in checkpoint_facts("org/m")["checkpoint_recipe_reason"]
    (tmp_path / "config.json").write_text("{}")
    assert "names no quantization" in checkpoint_facts(str(tmp_path))["checkpoint_recipe_reason"]
    assert "no such directory" in checkpoint_facts("./absent")["checkpoint_recipe_reason"]
