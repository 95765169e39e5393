"""Starts that fail and what is tried then; engines that answer and do not generate; cards that fail meanwhile."""

from __future__ import annotations

import time

import pytest

from servegate.domain.arms import Fallback
from servegate.engines import starting, vllm
from servegate.engines.card_guard import CardGuard
from servegate.engines.readiness import ask
from servegate.engines.server import EngineFailedError
from servegate.engines.vllm import VllmEngine
from servegate.errors import RunnerError
from servegate.nvml import Xid
from tests.fakes import install
from tests.fakes.nvml import FakeNvml, device
from tests.integration.test_engine_life import arm_of, nothing_left


@pytest.fixture
def executable(tmp_path):
    return install(tmp_path / "bin")


WELL = Fallback(name="other_kernel", environment={"FAKE_VLLM_FAULT": ""})
WORSE = Fallback(name="still_broken", environment={"FAKE_VLLM_FAULT": "die-at-load"})


def test_fallbacks_are_tried_in_order_and_the_one_used_is_on_record(executable, tmp_path):
    said: list[str] = []
    engine = VllmEngine(gate="gate", fallbacks=(WORSE, WELL), progress=said.append)
    with engine.session(arm_of(executable, "die-at-load"), tmp_path / "server.log") as session:
        found = session.facts.fallback
        assert found is not None
        assert (found.name, found.environment) == ("other_kernel", {"FAKE_VLLM_FAULT": ""})
        assert "RuntimeError" in found.instead_of.exception
        assert found.failed_log == "server.failed-1.log"
    assert "Traceback" in (tmp_path / "server.failed-1.log").read_text()
    assert "Traceback" in (tmp_path / "server.failed-2.log").read_text()
    assert "Traceback" not in (tmp_path / "server.log").read_text()
    assert any("served with the fallback 'other_kernel'" in line for line in said)
    assert nothing_left(session.facts)


def test_an_arm_that_starts_uses_no_fallback(executable, tmp_path):
    with VllmEngine(gate="gate", fallbacks=(WORSE,)).session(arm_of(executable), tmp_path / "server.log") as session:
        assert session.facts.fallback is None


def test_options_of_a_fallback_reach_the_engine(executable, tmp_path):
    engine = VllmEngine(gate="gate", fallbacks=(WELL.model_copy(update={"options": {"max-model-len": 512}}),))
    arm = arm_of(executable, "die-at-load", text="model: some/model\nmax-model-len: 1024\n")
    with engine.session(arm, tmp_path / "server.log") as session:
        assert session.facts.max_model_len == 512


def test_fallbacks_that_do_not_start_either_leave_the_first_failure(executable, tmp_path):
    engine = VllmEngine(gate="gate", fallbacks=(WORSE,))
    with (
        pytest.raises(EngineFailedError, match="rehearsed: the engine dies") as caught,
        engine.session(arm_of(executable, "die-at-spawn"), tmp_path / "server.log"),
    ):
        pytest.fail("it became ready")
    assert "The fallbacks did not start either: still_broken." in caught.value.why
    assert "spawn" in (tmp_path / "server.log").read_text(), "the log of the start that is told about"
    assert caught.value.facts.diagnosis is not None


def test_a_fault_of_the_machine_is_no_case_for_a_fallback(executable, tmp_path):
    said: list[str] = []
    engine = VllmEngine(gate="gate", fallbacks=(WELL,), progress=said.append)
    arm = arm_of(executable, "die-at-start")  # memory held by somebody
    with pytest.raises(EngineFailedError) as caught, engine.session(arm, tmp_path / "server.log"):
        pytest.fail("it became ready")
    assert caught.value.facts.diagnosis is not None
    assert (caught.value.facts.diagnosis.code, caught.value.facts.diagnosis.blame) == ("gpu_memory_held", "runner")
    assert sum("trying once more" in line for line in said) == 1


def test_a_lost_race_for_the_port_is_run_once_more_on_another(executable, tmp_path, monkeypatch):
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = iter([taken.getsockname()[1], vllm.free_port()])
        monkeypatch.setattr(vllm, "free_port", lambda: next(ports))
        engine = VllmEngine(gate="gate", start_timeout_s=20)
        with engine.session(arm_of(executable), tmp_path / "server.log") as session:
            assert ask(f"{session.endpoint.base_url}/health", 2).status == 200
    assert "Address already in use" in (tmp_path / "server.failed-1.log").read_text()


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("hang-after-1", "nor for a request of one token .*while its port answers"),
        ("http-500-after-1", r"nor for a request of one token \(HTTP 500: .*EngineCore encountered an issue"),
        ("sleep-after-1", "it was put to sleep"),
    ],
)
def test_a_dead_engine_behind_a_healthy_port_is_found_by_its_tokens(executable, tmp_path, fault, said):
    engine = VllmEngine(gate="gate", request_timeout_s=1.0)
    engine.watch_look_s = 0.1
    started = time.monotonic()
    with engine.session(arm_of(executable, fault), tmp_path / "server.log") as session:
        assert ask(f"{session.endpoint.base_url}/health", 2).status == 200
        session.ensure_alive()
        with pytest.raises(EngineFailedError, match=said) as caught:
            look_until(session, started + 10)
        assert session.server.child.wait(5) is not None, "the watch ended it"
    assert caught.value.facts.diagnosis is not None
    assert caught.value.facts.diagnosis.code == "engine_hangs"
    assert nothing_left(session.facts)


def look_until(session, deadline: float) -> None:
    while time.monotonic() < deadline:
        session.ensure_alive()
        time.sleep(0.05)


def test_an_idle_engine_is_asked_for_a_token_and_left_alone(executable, tmp_path):
    engine = VllmEngine(gate="gate", request_timeout_s=0.3)
    engine.watch_look_s = 0.05
    with engine.session(arm_of(executable), tmp_path / "server.log") as session:
        time.sleep(1.5)
        session.ensure_alive()
        log = (tmp_path / "server.log").read_text()
        assert 2 <= log.count('"POST /v1/completions') <= 8


def test_a_card_that_fails_is_the_cause_whatever_became_of_the_engine(executable, tmp_path):
    nvml = FakeNvml()
    guard = CardGuard(nvml=nvml, inherited={}, who="gate", wait_s=0, directory=tmp_path)
    arm = arm_of(executable)
    engine = VllmEngine(gate="gate", guard=guard)
    with guard.claimed([arm]), engine.session(arm, tmp_path / "server.log") as session:
        session.ensure_alive()
        nvml.xids = [Xid(device().uuid, 79)]
        starting.end_group(session.facts.pid)
        assert session.server.child.wait(5) is not None
        with pytest.raises(RunnerError, match="Xid 79"):
            session.ensure_alive()
    assert nothing_left(session.facts)
