"""What would fail minutes into a start and can be seen before it: too little shared memory, a hub cache without room.

Both are faults of the runner and not of the change under test, so they are said before anything is started.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from servegate.domain.arms import Arm
from servegate.domain.records import Json
from servegate.engines.paths import path_of
from servegate.errors import UsageError

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - the mount itself, not a file in it
LEAST_SHARED_BYTES = 1 << 30
"""For workers of several cards, as NCCL's guide asks for in containers (`--shm-size=1g`); Docker gives 64 MiB."""


def check_shared_memory(arm: Arm, total_bytes: int | None) -> None:
    """Check that workers of several cards have room to talk; `total_bytes` None means that it is not known.

    Raises:
        UsageError: there is less than `LEAST_SHARED_BYTES` for an arm with tensor parallelism.
    """
    cards = str(arm.config.options.get("tensor-parallel-size", 1))
    if cards in ("1", "None") or total_bytes is None or total_bytes >= LEAST_SHARED_BYTES:
        return
    raise UsageError(
        f"{arm.config.path}: tensor-parallel-size {cards[:20]} needs shared memory, and {SHARED_MEMORY} has "
        f"{total_bytes >> 20} MiB",
        why="The workers of several cards exchange data there; with too little the start hangs or ends in a bus error.",
        advice="Start the container with `--ipc=host`, or with `--shm-size=1g` or more.",
    )


_KERNELS_OF = {
    "gptq": {"gptq", "gptq-marlin", "auto-gptq", "moe-wna16", "humming", "inc"},
    "awq": {"awq", "awq-marlin", "auto-awq", "moe-wna16", "humming", "inc"},
    "compressed-tensors": {"compressed-tensors", "humming"},
    "fp8": {"fp8", "deepseek-v4-fp8", "humming", "modelopt"},
    "mxfp4": {"mxfp4", "gpt-oss-mxfp4", "humming"},
    "torchao": {"torchao", "humming"},
    "quark": {"quark", "humming"},
}
"""A checkpoint's method -> words of `quantization` that vLLM reads as that method (its `override_quantization_method`s);
methods that are not listed are left to the engine."""
_ONLINE = {
    "fp8-per-tensor", "fp8-per-block", "fp8-per-channel", "int8-per-channel-weight-only", "nvfp4-per-token", "mxfp8", "online",
}  # fmt: skip
"""Words that quantize 16-bit weights while loading (0.32.0); a checkpoint that is quantized already has none."""


def check_quantization(arm: Arm, config: Json | None) -> None:
    """Check the option `quantization` against what the checkpoint's own config.json says; `config` None is unknown.

    Raises:
        UsageError: they contradict each other, so that the engine would refuse to start.
    """
    asked = arm.config.options.get("quantization")
    own = config.get("quantization_config") if isinstance(config, dict) else None
    method = own.get("quant_method") if isinstance(own, dict) else None
    if not isinstance(asked, str) or not isinstance(method, str):
        return
    word, kept = (each.lower().replace("_", "-") for each in (asked, method))
    known = _ONLINE.union(*_KERNELS_OF.values())
    if word not in known or kept not in _KERNELS_OF or word in _KERNELS_OF[kept]:
        return  # equal, a kernel of the same format, or a word that only the engine (or a plug-in of it) knows
    raise UsageError(
        f"{arm.config.path}: `quantization: {asked}` contradicts the checkpoint, whose config.json says {method!r}",
        why="The engine refuses to start: a checkpoint that is quantized already keeps its own method "
        "(https://huggingface.co/neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8/discussions/3).",
        advice="Remove `quantization` from the serving config, or serve the 16-bit checkpoint.",
    )


def offline(arm: Arm, environment: Mapping[str, str], writable: Callable[[Path], bool] | None = None) -> dict[str, str]:
    """Return HF_HUB_OFFLINE=1 where the model is in a hub cache that this user may not write to, else nothing.

    The hub's client would take a lock in the cache and fail, although everything it needs is there.
    """
    model = str(arm.config.options.get("model", ""))
    if "HF_HUB_OFFLINE" in environment or "://" in model or path_of(model).exists():
        return {}
    cache = hub_cache(environment)
    here = (cache / f"models--{model.replace('/', '--')}" / "snapshots").is_dir()
    return {"HF_HUB_OFFLINE": "1"} if here and not (writable or _writable)(cache) else {}


def shared_memory_bytes() -> int | None:
    """Return the size of the shared memory mount, or None where there is none."""
    try:
        return shutil.disk_usage(SHARED_MEMORY).total
    except OSError:
        return None


def hub_cache(environment: Mapping[str, str]) -> Path:
    """Return where the hub's client keeps models (huggingface_hub, "Environment variables")."""
    if environment.get("HF_HUB_CACHE"):
        return Path(environment["HF_HUB_CACHE"]).expanduser()
    home = environment.get("HF_HOME") or os.path.join(  # noqa: PTH118 - an empty HOME must stay relative
        environment.get("XDG_CACHE_HOME") or os.path.join(environment.get("HOME", "~"), ".cache"),  # noqa: PTH118
        "huggingface",
    )
    return Path(home).expanduser() / "hub"


def check_hub_cache(arm: Arm, environment: Mapping[str, str], writable: Callable[[Path], bool] | None = None) -> None:
    """Check that a model of the hub is in the cache, or that the cache can take it.

    Raises:
        UsageError: the model is not in the cache, and this user may not write there.
    """
    model = str(arm.config.options.get("model", ""))
    if "://" in model or path_of(model).exists():
        return
    cache = hub_cache(environment)
    if (cache / f"models--{model.replace('/', '--')}" / "snapshots").is_dir():
        return
    existing = next((each for each in (cache, *cache.parents) if each.exists()), Path("/"))
    if (writable or _writable)(existing):
        return
    raise UsageError(
        f"model {model!r} is not in the hub cache {str(cache)!r}, and uid {os.getuid()} may not write to {str(existing)!r}",
        why="The engine would fail with a permission error while it downloads or locks the model.",
        advice="Give that user the directory, set HF_HOME to one of its own, or fill the cache beforehand.",
    )


def _writable(path: Path) -> bool:
    return os.access(path, os.W_OK | os.X_OK)
