"""Faults of a runner that are seen before a start."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from servegate.engines.preflight import check_hub_cache, check_shared_memory, hub_cache
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
