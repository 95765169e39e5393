"""Which cards an arm uses, whether they are free, and what a gate that finds them taken says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from servegate.domain.arms import Arm, Role
from servegate.engines import card_guard
from servegate.engines.card_guard import CardGuard
from servegate.engines.card_lock import lock_path, try_lock
from servegate.engines.cards import cards_of
from servegate.engines.serving_config import argv, read_serving_config
from servegate.errors import ExitCode, RunnerError
from servegate.nvml import Absent, GpuProcess, Xid
from tests.fakes.nvml import GIB, FakeNvml, device

MIB = 1 << 20


def arm(text: str = "model: some/model\n", **environment: str) -> Arm:
    config = read_serving_config(text, "serving.yaml")
    return Arm(
        name="candidate", role=Role.CANDIDATE, session=1, engine_kind="vllm", executable="vllm", config=config,
        argv=argv(config, "vllm"), environment=environment,
    )  # fmt: skip


TWO = "model: some/model\ntensor-parallel-size: 2\n"
SAME = [device(0), device(1), device(2)]
MIXED = [device(0), device(1, "NVIDIA A10")]


@pytest.mark.parametrize(
    ("served", "inherited", "devices", "used"),
    [
        (arm(), {}, SAME, [0]),
        (arm(TWO), {}, SAME, [0, 1]),
        (arm(TWO), {"CUDA_VISIBLE_DEVICES": "2,1,0"}, SAME, [2, 1]),
        (arm(CUDA_VISIBLE_DEVICES="1"), {"CUDA_VISIBLE_DEVICES": "2"}, SAME, [1]),
        (arm(), {"CUDA_VISIBLE_DEVICES": SAME[1].uuid[:12]}, SAME, [1]),
        (arm(), {"CUDA_VISIBLE_DEVICES": ""}, SAME, []),
        (arm(), {"CUDA_VISIBLE_DEVICES": "-1"}, SAME, []),
        (arm(TWO), {"CUDA_VISIBLE_DEVICES": "1,9,0"}, SAME, [1]),
        # CUDA's own order is not the bus's when cards differ: everything that may be meant is taken
        (arm(), {"CUDA_VISIBLE_DEVICES": "0"}, MIXED, [0, 1]),
        (arm(), {}, MIXED, [0, 1]),
        (arm(), {"CUDA_VISIBLE_DEVICES": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, MIXED, [1]),
        (arm("model: m/m\ntensor-parallel-size: 0\n"), {}, SAME, [0]),
        (arm(), {}, [], []),
    ],
)
def test_cards_of_an_arm(served, inherited, devices, used):
    assert [card.index for card in cards_of(served, inherited, devices)] == used


class Clock:
    def __init__(self) -> None:
        self.now, self.then = 0.0, lambda _now: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.then(self.now)


def guard(tmp_path: Path, nvml, *, wait_s: float = 60, names=lambda _pid: ("python3", None), who: str = "gate a"):
    said: list[str] = []
    clock = Clock()
    made = CardGuard(
        nvml=nvml, inherited={}, who=who, wait_s=wait_s, say=said.append, directory=tmp_path, describe=names, clock=clock,
        sleep=clock.sleep,
    )  # fmt: skip
    return made, clock, said


def test_a_busy_card_is_refused_with_the_process_named(tmp_path):
    nvml = FakeNvml(running={device().uuid: (GpuProcess(4711, 6000 * MIB),)}, used={device().uuid: [6100 * MIB]})
    made, clock, said = guard(tmp_path, nvml)
    with pytest.raises(RunnerError) as caught, made.claimed([arm()]):
        pytest.fail("the card is somebody else's")
    assert caught.value.what == f"NVIDIA H200 ({device().uuid}) is in use by pid 4711 (python3), 6,000 MiB"
    assert caught.value.exit_code is ExitCode.ERROR
    assert clock.now == 60, "it waited as long as it may, and no longer"
    assert len(said) == 1
    assert "waiting" in said[0]
    assert "wait_minutes" in caught.value.advice


def test_a_card_that_becomes_free_is_waited_for(tmp_path):
    nvml = FakeNvml(running={device().uuid: (GpuProcess(4711, None),)})
    made, clock, said = guard(tmp_path, nvml)
    clock.then = lambda now: nvml.running.clear() if now >= 3 else None
    with made.claimed([arm()]):
        assert clock.now == 3
    assert "memory unknown" in said[0]


def test_what_an_earlier_servegate_left_is_told_apart_and_not_ended(tmp_path):
    nvml = FakeNvml(running={device().uuid: (GpuProcess(99, MIB),)})
    made, _clock, _said = guard(tmp_path, nvml, wait_s=0, names=lambda _pid: ("VLLM::EngineCore", "nonce"))
    with pytest.raises(RunnerError, match="left behind by an earlier servegate") as caught, made.claimed([arm()]):
        pass
    assert "kill -9 99" in caught.value.advice


def test_memory_without_a_visible_owner_is_refused(tmp_path):
    made, _clock, _said = guard(tmp_path, FakeNvml(used={device().uuid: [20 * GIB]}), wait_s=0)
    with pytest.raises(RunnerError, match="20,480 MiB in use, and no process that is visible from here"), made.claimed([arm()]):
        pass
    made, _clock, _said = guard(tmp_path, FakeNvml(used={device().uuid: [300 * MIB]}), wait_s=0)
    with made.claimed([arm()]):
        assert made.said(arm()) == (f"locked and watched: {device().uuid} (300 MiB in use before the first start)", None)


def test_memory_is_awaited_before_the_next_start(tmp_path):
    nvml = FakeNvml()
    made, clock, _said = guard(tmp_path, nvml)
    with made.claimed([arm()]):
        nvml.used[device().uuid] = [90 * GIB, 40 * GIB, 10 * MIB]
        made.before_start(arm())
        assert clock.now == 2
        nvml.used[device().uuid] = [90 * GIB]
        with pytest.raises(RunnerError, match=r"not given back within 60 s: .* still holds 92,160 MiB more") as caught:
            made.before_start(arm())
        assert clock.now == 62
        assert "fault of the runner" in caught.value.why
        nvml.used[device().uuid] = [0]
        nvml.running[device().uuid] = (GpuProcess(5, 4 * MIB),)
        with pytest.raises(RunnerError, match="is in use by pid 5"):
            made.before_start(arm())


def test_an_unknown_level_is_no_reason_to_refuse_and_a_part_of_a_card_is_not_judged(tmp_path):
    nvml = FakeNvml(used={device().uuid: [None]})
    made, _clock, _said = guard(tmp_path, nvml)
    with made.claimed([arm()]):
        made.before_start(arm())
        assert "unknown memory" in made.said(arm())[0]
    part = FakeNvml(cards=(device(mig=True),), running={device().uuid: (GpuProcess(5, 4 * MIB),)})
    made, _clock, _said = guard(tmp_path, part, wait_s=0)
    with made.claimed([arm()]):
        made.before_start(arm())


def test_one_card_one_gate(tmp_path):
    """A second gate waits, names the first, gives up in time; a holder that is killed lets go by itself."""
    code = (
        "import sys, time; from pathlib import Path; from servegate.engines.card_lock import try_lock\n"
        f"with try_lock(Path({str(lock_path(tmp_path, device().uuid))!r}), 'servegate, gate first') as holder:\n"
        "    print(holder, flush=True); time.sleep(60)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=environment) as first:
        try:
            assert first.stdout is not None
            assert first.stdout.readline() == "None\n"
            made, clock, said = guard(tmp_path, FakeNvml(), wait_s=5)
            with pytest.raises(RunnerError) as caught, made.claimed([arm()]):
                pytest.fail("two gates on one card")
            assert f"is taken by servegate, gate first, pid {first.pid}" in caught.value.what
            assert (clock.now, len(said)) == (5, 1)
        finally:
            first.kill()
    made, clock, _said = guard(tmp_path, FakeNvml(), wait_s=5)
    with made.claimed([arm()]):
        assert clock.now == 0
        with try_lock(lock_path(tmp_path, device().uuid), "other") as holder:
            assert holder == f"gate a, pid {os.getpid()}"
    with try_lock(lock_path(tmp_path, device().uuid), "other") as holder:
        assert holder is None, "a run that is over holds nothing"


@pytest.mark.parametrize("written", [b"", b"\x00\xff", b"[]", b'{"pid": "x", "who": 1}', b'{"pid": 1}'])
def test_a_lock_file_with_anything_in_it(tmp_path, written):
    path = tmp_path / "some.lock"
    path.write_bytes(written)
    with try_lock(path, "first") as holder:
        assert holder is None
        path.write_bytes(written)
        with try_lock(path, "second") as other:
            assert other == "another servegate"


def test_a_link_in_the_way_is_not_followed(tmp_path):
    target = tmp_path / "target"
    (tmp_path / "some.lock").symlink_to(target)
    with pytest.raises(Exception, match="lock cannot be opened"), try_lock(tmp_path / "some.lock", "first"):
        pass
    assert not target.exists()


@pytest.mark.parametrize(("number", "machine"), [(79, True), (48, True), (13, False), (31, False)])
def test_an_error_of_the_card_ends_the_run_and_one_of_a_program_does_not(tmp_path, number, machine):
    nvml = FakeNvml()
    made, _clock, _said = guard(tmp_path, nvml)
    with made.watching(arm()) as watch:
        watch.ensure_well()
        assert nvml.watched == (device().uuid,)
        nvml.xids = [Xid(device().uuid, number)]
        if machine:
            with pytest.raises(RunnerError, match=f"Xid {number} on {device().uuid}"):
                watch.ensure_well()
        else:
            watch.ensure_well()
            assert watch.xids == [Xid(device().uuid, number)]


def test_a_lost_card_is_noticed_while_an_arm_is_served(tmp_path):
    nvml = FakeNvml()
    made, _clock, _said = guard(tmp_path, nvml)
    with made.watching(arm()) as watch:
        nvml.is_lost = True
        with pytest.raises(RunnerError, match=r"the GPU of this runner failed: .*GPU is lost"):
            watch.ensure_well()


def test_without_a_driver_there_is_none_of_it_and_the_manifest_says_so(tmp_path):
    made, _clock, _said = guard(tmp_path, Absent("no NVIDIA driver answers: NVML Shared Library Not Found"))
    with made.claimed([arm()]), made.watching(arm()) as watch:
        made.before_start(arm())
        watch.ensure_well()
    assert made.said(arm()) == (
        None, "no card was locked or watched: no NVIDIA driver answers: NVML Shared Library Not Found",
    )  # fmt: skip
    assert list(tmp_path.iterdir()) == []
    made, _clock, _said = guard(tmp_path, FakeNvml())
    assert made.said(arm(CUDA_VISIBLE_DEVICES=""))[1] == "no card was locked or watched: the arm uses none"


def test_a_process_of_this_machine_is_described():
    name, tag = card_guard._described(os.getpid())
    assert name
    assert tag is None
    assert card_guard._described(2**22 + 1) == (None, None)
