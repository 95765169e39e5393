"""The measuring step as a runner starts and cancels it, with a real container and an engine that never becomes ready.

GitHub's runner sends SIGINT to the step's entry process only, SIGTERM after 7.5 s, and kills it after 2.5 s more
(https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-cancellation); then `always()` steps run.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.end_to_end.acting import Act, left_behind
from tests.end_to_end.conftest import command, fake_engine, measuring
from tests.fakes.github import Replica
from tests.project.action_file import STEPS

pytestmark = [pytest.mark.service, pytest.mark.timeout(600)]

LABEL = "servegate=7.1.cancelled"


@pytest.fixture
def step(tmp_path: Path, docker: dict[str, str], image: str) -> dict[str, str]:
    """Environment of the measuring step: a workspace whose engine is the fake one, which is told never to be ready."""
    return measuring(tmp_path, docker, image, LABEL, FAKE_VLLM_FAULT="never-ready")


def containers(docker: dict[str, str]) -> list[str]:
    return command("docker", "ps", "--all", "--quiet", "--filter", f"label={LABEL}", environment=docker).stdout.split()


def until(what: Any, seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.2)
    return bool(what())


def test_a_cancelled_measurement_leaves_nothing_and_says_so(
    step: dict[str, str], docker: dict[str, str], tmp_path: Path
) -> None:
    running = subprocess.Popen(
        ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", STEPS["measure"]["run"]],
        env=step,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        log = tmp_path / "arms/baseline/demo/arms/baseline/server.log"
        assert until(lambda: (log.exists() and log.stat().st_size > 0) or running.poll() is not None, 90)
        assert running.poll() is None, running.stdout.read() if running.stdout else ""
        _is_confined(docker)
        for number, grace_s in ((signal.SIGINT, 7.5), (signal.SIGTERM, 2.5), (signal.SIGKILL, 5.0)):
            running.send_signal(number)
            if until(lambda: running.poll() is not None, grace_s):
                break
    finally:
        if running.poll() is None:
            running.kill()
        running.wait(10)
    ended_by = number
    cleaning = STEPS["Remove what a cancelled step left"]["run"]
    cleaned = command("bash", "-e", "-o", "pipefail", "-c", cleaning, environment={**step}, timeout=60)
    assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
    assert containers(docker) == []
    status = json.loads((tmp_path / "arms/baseline/demo/run.json").read_text())["status"]
    assert (ended_by, status) == (signal.SIGINT, "cancelled")
    assert {path.stat().st_uid for path in (tmp_path / "arms").rglob("*")} == {os.getuid()}


def _is_confined(docker: dict[str, str]) -> None:
    """What Docker itself says of the running container."""
    [one] = containers(docker)
    facts = json.loads(command("docker", "inspect", one, environment=docker).stdout)[0]
    host = facts["HostConfig"]
    assert host["Privileged"] is False
    assert host["ReadonlyRootfs"] is True
    assert host["PidsLimit"] == 8192
    assert host["NetworkMode"] == "none"
    assert host["IpcMode"] != "host"
    assert "no-new-privileges" in " ".join(host["SecurityOpt"])
    assert not host.get("CapAdd")
    assert host["CapDrop"]
    assert "canary" not in json.dumps(facts)
    targets = {mount["Destination"]: mount["RW"] for mount in facts["Mounts"] if mount["Type"] == "bind"}
    assert targets == {"/workspace": False, "/output": True, "/cache": True}
    assert not any("docker.sock" in mount.get("Source", "") for mount in facts["Mounts"])


HANGS = """\
case "$*" in
  *demo-candidate-*) [ ! -e /cache/hang ] || export FAKE_VLLM_FAULT=never-ready ;;
esac
"""
PROMPTS = [{"id": f"p{n}", "category": "c", "prompt": f"JSON {n}.", "expect": {"json": True}} for n in range(24)]


def test_a_job_cancelled_in_the_middle_leaves_no_pass(
    act: Act, replica: Replica, docker: dict[str, str], image: str, tmp_path: Path
) -> None:
    """A whole job, twice: the first one passes and says so on the pull request, the second is cancelled in its candidate."""
    cache, workspace = tmp_path / "models/pull-request", act.workspace
    cache.mkdir(parents=True)
    fake_engine(cache, docker, image, HANGS)
    (cache / "answers.json").write_text(json.dumps({f"JSON {n}.": json.dumps({"n": n}) for n in reversed(range(24))}))
    for name, seats in (("old", 1), ("new", 2)):
        (workspace / f"{name}.yaml").write_text(f"model: org/m\nmax-num-seqs: {seats}\n")
    (workspace / "prompts.jsonl").write_text("".join(json.dumps(prompt) + "\n" for prompt in PROMPTS))
    config = {
        "version": 1,
        "gate": "demo",
        "policy": "quick",
        "arms": {"baseline": {"config": "old.yaml"}, "candidate": {"config": "new.yaml"}},
        "engine": {"executable": "/cache/bin/vllm", "environment": {"FAKE_VLLM_ANSWERS": "/cache/answers.json"}},
        "checks": {"prompts": {"file": "prompts.jsonl", "max_tokens": 64}},
        "publish": {"check_run": True},
    }
    (workspace / "servegate.yaml").write_text(yaml.safe_dump(config))
    inputs = {"model-cache": str(tmp_path / "models"), "network": "none", "gate": "demo", "shm-size": "64m"}
    passed = act.run(inputs, 70)
    assert passed.code == 0, passed.log
    assert passed.outputs["verdict"] == "pass"
    [comment] = replica.comments()
    assert "PASS" in comment["body"]
    assert [check["conclusion"] for check in replica.check_runs()] == ["success"]

    (cache / "hang").touch()
    for log in act.outside.rglob("server.log"):
        log.unlink()
    running = act.start(inputs, 80, cancelled=True)
    assert until(lambda: _candidate_is_starting(act) or running.process.poll() is not None, 120)
    assert running.process.poll() is None, running.log.read_text()
    ended_by = running.cancel()
    done = running.finish(120)

    assert ended_by is signal.SIGINT, "servegate ends by itself within the 7.5 seconds"
    [updated] = replica.comments()
    assert updated["id"] == comment["id"]
    assert "NOT EVALUATED" in updated["body"]
    assert "cancelled" in updated["body"]
    assert "PASS" not in updated["body"].replace("PASSED", "")
    assert [check["conclusion"] for check in replica.check_runs()][-1] == "cancelled"
    assert done.outputs["verdict"] != "pass"
    assert "uploaded servegate-run ./baseline/demo/run.json" in done.log
    assert "uploaded servegate-run ./candidate/demo/run.json" in done.log
    assert left_behind(docker, 70, 80) == []
    assert replica.tokens["bot"] not in done.log


def _candidate_is_starting(act: Act) -> bool:
    """Whether the engine of the second arm has written into its log."""
    return any(log.stat().st_size for log in act.outside.rglob("arms/candidate/demo/arms/candidate/server.log"))
