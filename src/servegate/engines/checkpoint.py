"""What a checkpoint says about its own quantization: the method in config.json, the recipe beside it.

Scales that were fixed by a calibration depend on the data of that calibration, which no number in a report can replace:
so the recipe is shown, or "unknown" with the reason.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from servegate.engines.model_files import local_config
from servegate.engines.paths import path_of
from servegate.errors import UsageError

RECIPE = "recipe.yaml"
"""What llm-compressor writes beside the weights (https://github.com/vllm-project/llm-compressor)."""
MAX_RECIPE_BYTES = 20_000


def checkpoint_facts(model: str) -> dict[str, Any]:
    """Return the fields of EngineFacts about the checkpoint, each with its reason where it is not known."""
    remote = "the model is not a directory on this machine"
    try:
        config = local_config(model)
    except UsageError as error:
        return {"checkpoint_quantization_reason": error.what, "checkpoint_recipe_reason": error.what}
    if config is None:
        return {"checkpoint_quantization_reason": remote, "checkpoint_recipe_reason": remote}
    own = config.get("quantization_config")
    if own is None:
        reason = "the checkpoint's config.json names no quantization"
        return {"checkpoint_quantization_reason": reason, "checkpoint_recipe_reason": reason}
    return {"checkpoint_quantization": own, **_recipe(path_of(model) / RECIPE)}


def _recipe(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            text = file.read(MAX_RECIPE_BYTES + 1)
    except FileNotFoundError:
        return {"checkpoint_recipe_reason": f"the checkpoint holds no {RECIPE}"}
    except OSError as error:
        return {"checkpoint_recipe_reason": f"{RECIPE} cannot be read: {error.strerror}"}
    if len(text) > MAX_RECIPE_BYTES:
        return {"checkpoint_recipe_reason": f"{RECIPE} is longer than {MAX_RECIPE_BYTES} bytes"}
    return {"checkpoint_recipe": text.decode("utf-8", "replace")}
