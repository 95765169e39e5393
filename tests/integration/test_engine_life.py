"""An engine's whole life against a fake that speaks vLLM's API: every fault is told, in time, and nothing is left."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest

from servegate.domain.arms import Arm, Role
from servegate.domain.evidence import EngineStatus
from servegate.engines import vllm
from servegate.engines.readiness import ask
from servegate.engines.server import EngineFailedError
from servegate.engines.serving_config import argv, read_serving_config
from servegate.engines.vllm import VllmEngine
from servegate.errors import EngineError, UsageError
from servegate.subprocesses import carriers
from tests.fakes import install


def arm_of(executable: Path | str, fault: str = "", text: str = "model: some/model\n", **environment: str) -> Arm:
    config = read_serving_config(text, "serving.yaml")
    return Arm(
        name="candidate",
        role=Role.CANDIDATE,
        session=1,
        engine_kind="vllm",
        executable=str(executable),
        config=config,
        argv=argv(config, str(executable)),
        environment={"FAKE_VLLM_FAULT": fault, **environment} if fault else environment,
    )


@pytest.fixture
def executable(tmp_path) -> Path:
    return install(tmp_path / "bin")


def nothing_left(facts) -> bool:
    tag = next(word for word in facts.argv if word.startswith("--served-model-name=")).rpartition("-")[2]
    return carriers(tag) == () and not psutil.pid_exists(facts.pid)


def failure(
    executable, tmp_path, fault: str, *, start_timeout_s: float = 15, request_timeout_s: float = 5
) -> EngineFailedError:
    engine = VllmEngine(gate="gate", start_timeout_s=start_timeout_s, request_timeout_s=request_timeout_s)
    with pytest.raises(EngineFailedError) as caught, engine.session(arm_of(executable, fault), tmp_path / "server.log"):
        pytest.fail("it became ready")
    assert caught.value.facts.status is EngineStatus.FAILED
    assert caught.value.facts.diagnosis is not None
    assert nothing_left(caught.value.facts)
    return caught.value


def test_a_ready_engine_has_facts_and_leaves_nothing(executable, tmp_path):
    said: list[str] = []
    text = "model: some/model\nquantization: fp8_per_channel\nkv-cache-dtype: fp8\nmax-model-len: 1024\nport: 1\n"
    log = tmp_path / "arms" / "candidate" / "server.log"
    with VllmEngine(gate="gate", progress=said.append).session(arm_of(executable, text=text), log) as session:
        facts, endpoint = session.facts, session.endpoint
        assert facts.status is EngineStatus.READY
        assert (facts.version, facts.max_model_len, facts.pid) == ("0.32.0", 1024, psutil.Process(facts.pid).pid)
        assert facts.quantization.effective_precision == "W8A8 (torch fallback)"
        assert facts.kv_cache_dtype.resolved == "fp8"
        assert facts.kv_cache_tokens == 186_368
        assert {"spawn"} <= facts.phases_s.keys() <= {"spawn", "load", "warm_up", "ready"}
        assert 0 < sum(facts.phases_s.values()) < 10
        assert endpoint.tokenizer == "some/model"
        assert endpoint.model.startswith("gate-candidate-")
        models = f"{endpoint.base_url}/v1/models"
        assert ask(models, 2, api_key=endpoint.api_key).value["data"][0]["id"] == endpoint.model
        session.ensure_alive()
        assert f"--served-model-name={endpoint.model}" in facts.argv
        assert "--port=1" not in facts.argv
    assert nothing_left(facts)
    assert ask(f"{endpoint.base_url}/health", 1).refused
    assert "shutting down" in log.read_text()
    assert said[0] == "candidate: starting processes"
    with pytest.raises(EngineFailedError, match="died while it was measured"):
        session.ensure_alive()


def test_two_starts_share_neither_name_nor_port(executable, tmp_path):
    endpoints = []
    for round_ in range(2):
        with VllmEngine(gate="gate").session(arm_of(executable), tmp_path / f"{round_}.log") as session:
            endpoints.append(session.endpoint)
    assert endpoints[0].model != endpoints[1].model
    assert endpoints[0].base_url != endpoints[1].base_url


def test_death_at_the_start_names_the_first_exception_of_the_worker(executable, tmp_path):
    error = failure(executable, tmp_path, "die-at-start")
    assert "ValueError: Free memory on device cuda:0" in error.what
    assert error.facts.diagnosis.code == "gpu_memory_held"
    line = error.facts.diagnosis.line
    assert "ValueError" in (tmp_path / "server.log").read_text().splitlines()[line - 1]
    assert str(tmp_path / "server.log") in error.advice
    assert f"{executable} serve some/model --host=127.0.0.1" in error.advice
    assert error.facts.version == "0.32.0"


def test_a_start_that_never_ends_names_its_phase(executable, tmp_path):
    started = time.monotonic()
    error = failure(executable, tmp_path, "never-ready", start_timeout_s=1.5)
    assert time.monotonic() - started < 6
    assert "not ready after 1.5 s; it was loading the model" in error.what
    assert error.facts.diagnosis.code == "start_timeout"


@pytest.mark.parametrize(
    ("fault", "code", "said"),
    [
        ("wrong-model", "wrong_model", "it serves 'another-model'"),
        ("http-500", "no_generation", "HTTP 500"),
        ("garbage", "no_generation", "no JSON"),
        ("hang", "no_generation", r"no answer within 1\.0 s"),
        ("die", "exception", "CUDA error: an illegal memory access"),
    ],
)
def test_an_engine_that_only_pretends_is_found_out(executable, tmp_path, fault, code, said):
    started = time.monotonic()
    error = failure(executable, tmp_path, fault, request_timeout_s=1.0)
    assert error.facts.diagnosis.code == code
    assert re.search(said, error.what), error.what
    assert time.monotonic() - started < 8


def test_death_while_serving_is_told_with_its_cause(executable, tmp_path):
    engine = VllmEngine(gate="gate")
    with engine.session(arm_of(executable, "die-after-1"), tmp_path / "server.log") as session:
        body = {"model": session.endpoint.model, "prompt": "x"}
        url, key = f"{session.endpoint.base_url}/v1/completions", session.endpoint.api_key
        assert ask(url, 5, body, api_key=key).status == 0
        session.server.child.wait(5)
        with pytest.raises(EngineError, match="died while it was measured: RuntimeError: CUDA error") as caught:
            session.ensure_alive()
    assert caught.value.facts.quantization.resolved == "none"


def test_processes_that_ignore_sigterm_and_leave_the_session_are_gone(executable, tmp_path, monkeypatch):
    monkeypatch.setattr(vllm, "STOP_GRACE_S", 0.3)
    pids = tmp_path / "pids"
    arm = arm_of(executable, "ignore-sigterm-and-fork", FAKE_VLLM_PIDS=str(pids))
    with VllmEngine(gate="gate").session(arm, tmp_path / "server.log") as session:
        assert all(psutil.pid_exists(int(pid)) for pid in pids.read_text().split())
    assert len(pids.read_text().split()) == 4
    assert not any(psutil.pid_exists(int(pid)) for pid in pids.read_text().split())
    assert nothing_left(session.facts)


@pytest.mark.parametrize("status", [200, 401], ids=["that serves anybody", "that has another key"])
def test_a_port_that_somebody_else_holds(executable, tmp_path, monkeypatch, status):
    class Older(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = json.dumps({"object": "list", "data": [{"id": "older-model"}]} if status == 200 else {"error": "x"}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Older) as older:
        threading.Thread(target=older.serve_forever, daemon=True).start()
        monkeypatch.setattr(vllm, "free_port", lambda: older.server_address[1])
        error = failure(executable, tmp_path, "")
        older.shutdown()
    # either our child has died of it already, or the other server's answer is seen first: never a ready session
    assert error.facts.diagnosis.code in ("port_taken", "wrong_model")


def test_an_engine_that_is_not_there(tmp_path):
    for name in ("no-such-vllm", str(tmp_path / "vllm")):
        session = VllmEngine(gate="gate").session(arm_of(name), tmp_path / "server.log")
        with pytest.raises(UsageError, match="engine not found") as caught, session:
            pass
        assert name in caught.value.what
        assert "engine.executable" in caught.value.advice
    assert not (tmp_path / "server.log").exists()


def test_the_engine_gets_no_secrets_and_the_command_shows_none(executable, tmp_path):
    inherited = {**os.environ, "GITHUB_TOKEN": "s3cret", "AWS_SECRET_ACCESS_KEY": "s3cret", "HF_TOKEN": "hub", "PLAIN": "yes"}
    arm = arm_of(executable, "die-after-1", MY_TOKEN="arm-s3cret")
    with VllmEngine(gate="gate", environment=inherited).session(arm, tmp_path / "server.log") as session:
        seen = psutil.Process(session.facts.pid).environ()
        assert {"GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY"}.isdisjoint(seen)
        assert (seen["HF_TOKEN"], seen["PLAIN"], seen["MY_TOKEN"], seen["DO_NOT_TRACK"]) == ("hub", "yes", "arm-s3cret", "1")
        assert "s3cret" not in session.server.command
        assert "MY_TOKEN=..." in session.server.command


MAIN = """
import signal, sys
from pathlib import Path
sys.path[:0] = {path!r}
from servegate.cli.signals import converted
from servegate.engines.vllm import VllmEngine
from tests.integration.test_engine_life import arm_of
with converted(), VllmEngine(gate="gate").session(arm_of({executable!r}, {fault!r}), Path({log!r})) as session:
    print("ready", flush=True)
    signal.pause()
"""


@pytest.mark.parametrize(
    ("fault", "number"),
    [
        ("", signal.SIGINT),
        ("", signal.SIGKILL),
        ("never-ready", signal.SIGTERM),
        ("hang", signal.SIGTERM),
        ("ignore-sigterm-and-fork", signal.SIGTERM),
        ("ignore-sigterm-and-fork", signal.SIGKILL),
    ],
)
def test_a_signal_at_any_moment_leaves_nothing(executable, tmp_path, fault, number):
    log = tmp_path / "server.log"
    code = MAIN.format(path=[str(Path.cwd()), *sys.path], executable=str(executable), fault=fault, log=str(log))
    code = code.replace("with converted()", "from servegate.engines import vllm; vllm.STOP_GRACE_S = 0.5\nwith converted()")
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if fault in ("", "ignore-sigterm-and-fork"):
        assert process.stdout.readline() == b"ready\n"
    else:
        wait_for(
            lambda: (
                log.exists()
                and ("Initializing" in log.read_text() if fault != "hang" else "Application startup" in log.read_text())
            )
        )
    processes = psutil.Process(process.pid).children(recursive=True)
    assert len(processes) >= 2
    process.send_signal(number)
    process.wait(20)
    process.stdout.close()
    wait_for(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes))


def wait_for(condition, timeout_s: float = 15) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
