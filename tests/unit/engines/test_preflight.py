"""Faults of a runner that are seen before a start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from servegate.engines.preflight import check_hub_cache, check_quantization, check_shared_memory, hub_cache, offline
from servegate.errors import UsageError
from tests.unit.samples import arm

MIB = 1 << 20


def test_several_cards_need_shared_memory() -> None:
    several = arm("candidate", **{"tensor-parallel-size": 2})
    with pytest.raises(UsageError, match="has 64 MiB") as refused:
        check_shared_memory(several, 64 * MIB)
    assert "--shm-size" in refused.value.advice
    check_shared_memory(several, 1024 * MIB)
    check_shared_memory(several, None)
    check_shared_memory(arm(), 64 * MIB)


@pytest.mark.parametrize(
    ("environment", "path"),
    [
        ({"HF_HUB_CACHE": "/a"}, "/a"),
        ({"HF_HOME": "/b"}, "/b/hub"),
        ({"XDG_CACHE_HOME": "/c"}, "/c/huggingface/hub"),
        ({"HOME": "/d"}, "/d/.cache/huggingface/hub"),
    ],
)
def test_the_cache_is_where_the_hubs_client_looks(environment: dict[str, str], path: str) -> None:
    assert hub_cache(environment) == Path(path)


def test_a_cache_that_may_not_be_written_and_lacks_the_model(tmp_path: Path) -> None:
    served = arm().model_copy(update={"config": arm().config.model_copy(update={"options": {"model": "org/m"}})})
    environment = {"HF_HOME": str(tmp_path / "home")}
    asked: list[Path] = []

    def refused(path: Path) -> bool:
        asked.append(path)
        return False

    with pytest.raises(UsageError, match="'org/m' is not in the hub cache") as error:
        check_hub_cache(served, environment, refused)
    assert f"uid {os.getuid()} may not write to {str(tmp_path)!r}" in error.value.what
    assert asked == [tmp_path]
    check_hub_cache(served, environment)
    (tmp_path / "home" / "hub" / "models--org--m" / "snapshots").mkdir(parents=True)
    check_hub_cache(served, environment, refused)


def test_a_model_on_this_machine_needs_no_cache(tmp_path: Path) -> None:
    here = arm().model_copy(update={"config": arm().config.model_copy(update={"options": {"model": str(tmp_path)}})})
    check_hub_cache(here, {"HF_HOME": "/nowhere"}, lambda _path: False)


@pytest.mark.parametrize(
    ("flag", "method", "refused"),
    [
        ("fp8", "compressed-tensors", True),
        ("fp8_per_channel", "fp8", True),
        ("fp8_per_tensor", "gptq", True),
        ("awq", "gptq", True),
        ("gptq_marlin", "gptq", False),
        ("awq_marlin", "awq", False),
        ("compressed-tensors", "compressed_tensors", False),
        ("fp8", "fp8", False),
        ("a_plug_in_of_ours", "gptq", False),
        ("fp8", "of-tomorrow", False),
        (None, "gptq", False),
        ("fp8", None, False),
    ],
)
def test_a_flag_that_contradicts_the_checkpoint(flag: str | None, method: str | None, refused: bool) -> None:
    served = arm("candidate", **({"quantization": flag} if flag else {}))
    config = {"quantization_config": {"quant_method": method}} if method else {"hidden_size": 1}
    if not refused:
        check_quantization(served, config)
        return
    with pytest.raises(UsageError) as error:
        check_quantization(served, config)
    assert f"quantization: {flag}" in error.value.what
    assert repr(method) in error.value.what


ACCEPTED = {
    "gptq": ("auto_gptq", "gptq", "gptq_marlin", "humming", "moe_wna16"),
    "awq": ("awq", "humming"),
    "compressed-tensors": ("humming", "compressed-tensors"),
    "fp8": ("fp8", "humming", "deepseek_v4_fp8"),
    "modelopt": ("awq", "fp8", "modelopt", "modelopt_fp4", "gptq", "compressed-tensors", "fp8_per_channel", "mxfp8"),
    "mxfp4": ("humming", "mxfp4"),
    "torchao": ("humming", "torchao"),
    "quark": ("humming", "quark"),
}
"""Checkpoint's method -> values of the option that vLLM 0.32.0 (CPU build) starts with, as its own classes answered when
each was asked by `override_quantization_method`, in the order of `ModelConfig._verify_quantization`."""


@pytest.mark.parametrize(("method", "flag"), [(method, flag) for method, flags in ACCEPTED.items() for flag in flags])
def test_what_the_engine_accepts_is_never_refused(method: str, flag: str) -> None:
    check_quantization(arm("candidate", quantization=flag), {"quantization_config": {"quant_method": method}})


@pytest.mark.parametrize("config", [None, [], {"quantization_config": 3}, {"quantization_config": {"quant_method": 8}}])
def test_an_unknown_checkpoint_contradicts_nothing(config: object) -> None:
    check_quantization(arm("candidate", quantization="fp8"), config)


def test_a_whole_model_in_a_read_only_cache_is_served_offline(tmp_path: Path) -> None:
    served = arm().model_copy(update={"config": arm().config.model_copy(update={"options": {"model": "org/m"}})})
    environment = {"HF_HOME": str(tmp_path)}
    assert offline(served, environment, lambda _path: False) == {}, "it is not there"
    (tmp_path / "hub" / "models--org--m" / "snapshots").mkdir(parents=True)
    assert offline(served, environment, lambda _path: False) == {"HF_HUB_OFFLINE": "1"}
    assert offline(served, environment, lambda _path: True) == {}
    assert offline(served, {**environment, "HF_HUB_OFFLINE": "0"}, lambda _path: False) == {}, "somebody decided"
