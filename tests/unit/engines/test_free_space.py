"""Room is looked for before anything starts, and what lacks it is named with numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from servegate.engines.free_space import MIB, Need, check_free_space, free_at, needs
from servegate.errors import UsageError
from tests.integration.test_engine_life import arm_of

RUN, TEMPORARY, SHARED = (
    Need("the run directory", Path("/output/demo"), 512 * MIB),
    Need("temporary files", Path("/tmp"), 256 * MIB),
    Need("shared memory", Path("/dev/shm"), 32 * MIB),
)


def look(**free_mib: int):
    """File systems by the first part of a path."""
    systems = {f"/{name}": (number, mib * MIB) for number, (name, mib) in enumerate(free_mib.items())}
    return lambda path: systems.get(f"/{path.parts[1]}")


def test_enough_everywhere_is_silent() -> None:
    check_free_space((RUN, TEMPORARY, SHARED), look(output=512, tmp=256, dev=32))


@pytest.mark.parametrize(
    ("free", "said"),
    [
        (
            {"output": 3, "tmp": 900, "dev": 64},
            "the run directory (/output/demo) needs 512 MiB: 512 MiB in all, and 3 MiB are free",
        ),
        ({"output": 900, "tmp": 255, "dev": 64}, "temporary files (/tmp) needs 256 MiB: 256 MiB in all, and 255 MiB are free"),
        ({"output": 900, "tmp": 900, "dev": 1}, "shared memory (/dev/shm) needs 32 MiB: 32 MiB in all, and 1 MiB are free"),
    ],
    ids=["run directory", "/tmp", "/dev/shm"],
)  # fmt: skip
def test_each_place_is_named_with_what_it_needs_and_has(free: dict[str, int], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        check_free_space((RUN, TEMPORARY, SHARED), look(**free))
    assert caught.value.what == f"not enough free space: {said}"
    assert "--output, TMPDIR, HF_HOME or SERVEGATE_CACHE_DIR" in caught.value.advice


def test_places_on_one_disk_share_its_room() -> None:
    one = lambda _path: (7, 700 * MIB)  # noqa: E731
    check_free_space((RUN,), one)
    with pytest.raises(UsageError, match="768 MiB in all, and 700 MiB are free"):
        check_free_space((RUN, TEMPORARY), one)


def test_two_full_disks_are_told_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        check_free_space((RUN, TEMPORARY), look(output=1, tmp=2))
    assert "/output/demo" in caught.value.what
    assert "/tmp" in caught.value.why


def test_what_can_not_be_told_refuses_nothing() -> None:
    check_free_space((RUN, TEMPORARY), lambda _path: None)


def test_an_arm_needs_a_download_only_when_its_model_is_not_there(tmp_path: Path) -> None:
    environment = {"HF_HOME": str(tmp_path / "hub"), "SERVEGATE_CACHE_DIR": str(tmp_path / "kept")}
    absent = arm_of("vllm", text="model: org/m\n")
    wanted = {need.what: need for need in needs(tmp_path / "run", (absent,), (environment,))}
    assert wanted["the hub cache, to download the model"].path == tmp_path / "hub/hub"
    assert wanted["compiled graphs"].path == tmp_path / "kept/compiled"
    assert wanted["the run directory"].path == tmp_path / "run"
    (tmp_path / "hub/hub/models--org--m/snapshots").mkdir(parents=True)
    assert not [need for need in needs(tmp_path, (absent,), (environment,)) if "download" in need.what]
    local = arm_of("vllm", text=f"model: {tmp_path}\n")
    assert not [need for need in needs(tmp_path, (local,), ({},)) if "download" in need.what]


def test_several_cards_need_more_shared_memory(tmp_path: Path) -> None:
    for cards, least_mib in ((1, 32), (2, 1024)):
        arm = arm_of("vllm", text=f"model: org/m\ntensor-parallel-size: {cards}\n")
        (shared,) = [need for need in needs(tmp_path, (arm,), ({},)) if need.what == "shared memory"]
        assert shared.least_bytes == least_mib * MIB


def test_two_arms_that_write_to_one_place_need_it_once(tmp_path: Path) -> None:
    environment = {"SERVEGATE_CACHE_DIR": str(tmp_path)}
    arms = (arm_of("vllm", text="model: org/m\n"), arm_of("vllm", text="model: org/m\nmax-num-seqs: 2\n"))
    assert len(needs(tmp_path, arms, (environment, environment))) == 5


def test_free_space_is_that_of_the_folder_that_will_hold_it(tmp_path: Path) -> None:
    seen = free_at(tmp_path / "not/yet/there")
    assert seen is not None
    assert seen[0] == tmp_path.stat().st_dev
    assert seen[1] > 0
