"""The action, really run by `act`: workflow -> composite steps -> `docker run` -> image -> comment on the GitHub replica.

What act can not show: GitHub's own runner, its upload of artifacts (a stub stands in for that action) and a GPU.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.conftest import missing
from tests.end_to_end.conftest import ROOT, command
from tests.fakes.github import REPOSITORY, Replica

pytestmark = [pytest.mark.service, pytest.mark.timeout(1800)]

UPLOAD = """
name: stub
description: Lists what would be uploaded.
inputs:
  name: {required: true, description: n}
  path: {required: true, description: p}
  retention-days: {required: false, description: r}
  if-no-files-found: {required: false, description: i}
runs:
  using: composite
  steps:
    - shell: bash
      env: {NAME: "${{ inputs.name }}", FOLDER: "${{ inputs.path }}"}
      run: cd "$FOLDER" && find . -type f | sort | sed "s|^|uploaded $NAME |"
"""

WORKFLOW = """
on: pull_request
jobs:
  gate:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - id: servegate
        uses: ./
        with: {inputs}
      - if: always()
        env:
          SAID: ${{{{ toJSON(steps.servegate.outputs) }}}}
        run: |
          echo "$SAID" | tr -d '\\n' | sed 's/^/outputs /'; echo
"""


@dataclass(frozen=True)
class Done:
    """What one act run did."""

    code: int
    log: str

    @property
    def outputs(self) -> dict[str, str]:
        line = next(line for line in self.log.splitlines() if "| outputs {" in line)
        found: dict[str, str] = json.loads(line.partition("| outputs ")[2])
        return found


@dataclass(frozen=True)
class Act:
    """A workspace, and a function that runs a workflow in it: the action's inputs and the run's number -> what happened."""

    run: Callable[..., Done]
    workspace: Path


class Forward:
    """Lends the replica's loopback port to containers: listens where the containers' bridge reaches this machine."""

    def __init__(self, address: str, target: int) -> None:
        self.listener = socket.create_server((address, 0))
        self.target = target
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            server = socket.create_connection(("127.0.0.1", self.target))
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@pytest.fixture(scope="module")
def replica(shared_replica: Replica) -> Replica:
    return shared_replica


@pytest.fixture
def act(replica: Replica, docker: dict[str, str], image: str, tmp_path: Path) -> Iterator[Act]:
    program = shutil.which("act") or shutil.which("act", path=str(Path(sys.executable).parent)) or missing("act")
    replica.reset()
    workspace, stub, home = tmp_path / "workspace", tmp_path / "stub", tmp_path / "home"
    (workspace / ".github/workflows").mkdir(parents=True)
    home.mkdir()
    stub.mkdir()
    (stub / "action.yml").write_text(UPLOAD)
    shutil.copy(ROOT / "action.yml", workspace)
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    upload = next(step["uses"] for step in steps if step.get("uses", "").startswith("actions/upload-artifact@"))
    (tmp_path / "event.json").write_text(json.dumps({**replica.event(), "repository": {"full_name": REPOSITORY}}))
    forward = Forward(gateway(docker, image), replica.gateway)

    def commit(where: Path) -> None:
        for arguments in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "x")):
            who = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
            subprocess.run(["git", "-C", str(where), *who, *arguments], check=True, timeout=60)

    def run(inputs: dict[str, str], run_id: int, keep: bool = False) -> Done:
        given = json.dumps({"image": image, "gpus": "none", **inputs})
        (workspace / ".github/workflows/gate.yml").write_text(WORKFLOW.format(inputs=given))
        for where in (stub,) if keep else (workspace, stub):
            shutil.rmtree(where / ".git", ignore_errors=True)
            commit(where)
        proxy = f"http://{forward.listener.getsockname()[0]}:{forward.port}"
        variables = {
            "HTTPS_PROXY": proxy,
            "REQUESTS_CA_BUNDLE": str(replica.directory / "myworld-ca.pem"),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": str(run_id),
        }
        done = subprocess.run(
            [
                *(program, "pull_request", "-e", str(tmp_path / "event.json"), "-P", "ubuntu-latest=-self-hosted"),
                *("--pull=false", "--action-offline-mode", "--local-repository", f"{upload}={stub}"),
                *("-s", "GITHUB_TOKEN"),
                *(part for name, value in variables.items() for part in ("--env", f"{name}={value}")),
            ],
            cwd=workspace,
            env={**os.environ, **docker, "HOME": str(home), "GITHUB_TOKEN": replica.tokens["bot"]},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=600,
            check=False,
        )
        return Done(done.returncode, done.stdout + done.stderr)

    yield Act(run, workspace)
    forward.listener.close()


def gateway(docker: dict[str, str], image: str) -> str:
    """Address of this machine on the containers' bridge, as a container sees it."""
    program = "import pathlib,socket,struct\nfor line in pathlib.Path('/proc/net/route').read_text().splitlines()[1:]:\n"
    program += "  f=line.split()\n  if f[1]=='00000000': print(socket.inet_ntoa(struct.pack('<L',int(f[2],16))))"
    done = command("docker", "run", "--rm", "--entrypoint", "python3", image, "-c", program, environment=docker)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[0]


def test_two_runs_of_a_pull_request_leave_one_updated_comment(
    act: Act, replica: Replica, docker: dict[str, str], made_run: Path
) -> None:
    workspace = act.workspace
    shutil.copytree(made_run, workspace / "measured")
    lenient = {"run": "measured", "fail-on": "fail,not_comparable,error"}
    first = act.run(lenient, 7)
    assert first.code == 0, first.log
    [comment] = replica.comments()
    assert comment["user"] == "bot"
    assert " 7.1 -->" in comment["body"]
    assert "REVIEW" in comment["body"]
    assert first.outputs["verdict"] == "review"
    assert first.outputs["report-path"].endswith("/report/report.html")
    assert re.search(r"Summary - # .*REVIEW", first.log), "act shows the step summary that it was given"
    assert "uploaded servegate-run ./run/verdict.json" in first.log
    assert "uploaded servegate-run ./run/report/report.html" in first.log

    second = act.run(lenient, 8)
    assert second.code == 0, second.log
    [updated] = replica.comments()
    assert updated["id"] == comment["id"]
    assert " 8.1 -->" in updated["body"]

    # By default REVIEW fails the job; the exit code is the verdict's.
    strict = act.run({"run": "measured", "comment": "false"}, 9)
    assert strict.code != 0
    assert "exit status 3" in strict.log
    assert " 8.1 -->" in replica.comments()[0]["body"]

    for done in (first, second, strict):
        assert replica.tokens["bot"] not in done.log
    left = command("docker", "ps", "--all", "--quiet", "--filter", "label=servegate", environment=docker)
    assert left.stdout == ""
    assert {path.stat().st_uid for path in workspace.rglob("*")} == {os.getuid()}


def test_what_could_not_be_measured_is_no_pass(act: Act, replica: Replica) -> None:
    workspace = act.workspace
    for name, seats in (("before", 1), ("after", 2)):
        (workspace / f"{name}.yaml").write_text(f"model: /nowhere\nmax-num-seqs: {seats}\n")
    arms = {"baseline": {"config": "before.yaml"}, "candidate": {"config": "after.yaml"}}
    config = {"version": 1, "gate": "demo", "arms": arms, "checks": {"accuracy": {}}}
    (workspace / "servegate.yaml").write_text(yaml.safe_dump(config))
    done = act.run({}, 7)
    assert done.code != 0
    assert "Not evaluated" in done.log
    assert done.outputs["verdict"] in {"", "error"}
    assert all("PASS" not in comment["body"] for comment in replica.comments())


def test_what_changed_comes_from_git_and_a_refused_config_is_told(act: Act, docker: dict[str, str], image: str) -> None:
    """The container that reads git is really run, and so is the one that measures, which has nothing of the workspace."""
    found = command("docker", "run", "--rm", "--network", "none", "--entrypoint", "git", image, "--version", environment=docker)
    if found.returncode != 0:
        missing("git in the image (scripts/ci/make-base-image.sh makes a base that has it)")
    workspace = act.workspace

    def commit(message: str) -> None:
        who = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
        for arguments in (("add", "--all"), ("commit", "--quiet", "--message", message)):
            subprocess.run(["git", "-C", str(workspace), *who, *arguments], check=True, timeout=60)

    (workspace / "serving").mkdir()
    (workspace / "serving/a.yaml").write_text("model: org/m\n")
    changes = {"configs": [{"files": "serving/*.yaml"}]}
    config = {"version": 1, "gate": "team", "policy": "quick", "checks": {"engagement": {}}, "changes": changes}
    (workspace / "servegate.yaml").write_text(yaml.safe_dump(config))
    subprocess.run(["git", "-C", str(workspace), "init", "--quiet"], check=True, timeout=60)
    commit("base")
    (workspace / "serving/a.yaml").write_text("model: org/m\ntrust-remote-code: true\n")
    commit("change")
    given = {"compare": "git", "base": "HEAD~1", "head": "HEAD", "comment": "false", "network": "none"}
    done = act.run(given, 7, keep=True)
    assert done.code != 0, done.log
    assert "serving/a.yaml:2: a pull request may not set 'trust-remote-code'" in done.log
    assert done.outputs["verdict"] == "error"
    assert "uploaded servegate-run ./index.json" in done.log
