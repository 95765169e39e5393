"""A workspace in which `act` runs the action, against the GitHub replica, and a cancel as GitHub's own runner does it.

act ends a cancelled step with SIGKILL at once. GitHub's runner sends SIGINT to the step's entry process only, SIGTERM after
7.5 s, SIGKILL after 2.5 s more, and begins the next step when that process is gone
(https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-cancellation). So `bash` is a stand-in here
(`ENTRY`): what act kills is only that, the shell itself goes on until it is told, and the next step waits for it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import yaml

from tests.end_to_end.conftest import ROOT, command
from tests.fakes.github import REPOSITORY, Replica

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
      if: always()
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
        if: {condition}
        with: {inputs}
      - if: always()
        env:
          SAID: ${{{{ toJSON(steps.servegate.outputs) }}}}
        run: |
          echo "$SAID" | tr -d '\\n' | sed 's/^/outputs /'; echo
"""

ENTRY = """\
#!{python}
import fcntl, pathlib, subprocess, sys, tempfile
here = pathlib.Path({here!r})
running = open(here / "running", "w")
fcntl.flock(running, fcntl.LOCK_EX)  # held by the step before, also where act has given that one up
log = tempfile.NamedTemporaryFile(dir=here, prefix="log", delete=False)
shell = [{bash!r}, *sys.argv[1:]]
step = subprocess.Popen(
    shell, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[running.fileno()], start_new_session=True
)
(here / "entry").write_text(str(step.pid))
code = step.wait()
sys.stdout.write(pathlib.Path(log.name).read_text(errors="replace"))
sys.exit(code if code >= 0 else 128 - code)
"""
GRACE_S = ((signal.SIGINT, 7.5), (signal.SIGTERM, 2.5), (signal.SIGKILL, 5.0))


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


class Running:
    """An act run that goes on."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, steps: Path) -> None:
        self.process, self.log, self.steps = process, log, steps

    def finish(self, timeout: float = 600) -> Done:
        try:
            self.process.wait(timeout)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait(10)
        return Done(self.process.returncode, self.log.read_text(errors="replace"))

    def cancel(self) -> signal.Signals:
        """Cancel the job as GitHub's runner does; returns the signal that ended the running step."""
        entry = psutil.Process(int((self.steps / "entry").read_text()))
        self.process.send_signal(signal.SIGINT)
        for number, grace_s in GRACE_S:
            entry.send_signal(number)
            if _gone(entry, grace_s):
                return number
        raise AssertionError("the step outlived SIGKILL")


@dataclass(frozen=True)
class Act:
    """A workspace with a workflow that uses the action, and what act needs to run it."""

    program: str
    image: str
    workspace: Path
    """A checkout copies it: what lies here is what the job has."""
    outside: Path
    """A folder beside it."""
    environment: Mapping[str, str]
    variables: Mapping[str, str]
    upload: str

    def run(self, inputs: dict[str, str], run_id: int, *, keep: bool = False) -> Done:
        """Run the workflow; the action's inputs, the run's number, and whether the workspace is a repository already."""
        return self.start(inputs, run_id, keep=keep).finish()

    def start(self, inputs: dict[str, str], run_id: int, *, keep: bool = False, cancelled: bool = False) -> Running:
        """Begin to. `cancelled`: it is going to be (act skips a whole composite action then, unless it is to run always)."""
        given = json.dumps({"image": self.image, "gpus": "none", **inputs})
        condition = "always()" if cancelled else "true"
        (self.workspace / ".github/workflows/gate.yml").write_text(WORKFLOW.format(inputs=given, condition=condition))
        stub = self.outside / "stub"
        for where in (stub,) if keep else (self.workspace, stub):
            shutil.rmtree(where / ".git", ignore_errors=True)
            commit(where, "x", start=True)
        steps = self.outside / f"steps-{run_id}"
        steps.mkdir()
        environment = dict(self.environment)
        if cancelled:
            entry = steps / "bin/bash"
            entry.parent.mkdir()
            entry.write_text(ENTRY.format(python=sys.executable, here=str(steps), bash=shutil.which("bash")))
            entry.chmod(0o755)
            environment["PATH"] = f"{entry.parent}:{environment['PATH']}"
        variables = {**self.variables, "GITHUB_RUN_ID": str(run_id)}
        log = steps / "act.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [
                    *(self.program, "pull_request", "-e", str(self.outside / "event.json"), "-P", "ubuntu-latest=-self-hosted"),
                    *("--pull=false", "--action-offline-mode", "--local-repository", f"{self.upload}={stub}"),
                    *("-s", "GITHUB_TOKEN"),
                    *(part for name, value in variables.items() for part in ("--env", f"{name}={value}")),
                ],
                cwd=self.workspace,
                env=environment,
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        return Running(process, log, steps)


def make(program: str, replica: Replica, docker: dict[str, str], image: str, outside: Path) -> tuple[Act, Forward]:
    """Make the workspace; the second is to be closed."""
    workspace, stub, home = outside / "workspace", outside / "stub", outside / "home"
    (workspace / ".github/workflows").mkdir(parents=True)
    home.mkdir()
    stub.mkdir()
    (stub / "action.yml").write_text(UPLOAD)
    shutil.copy(ROOT / "action.yml", workspace)
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    upload = next(step["uses"] for step in steps if step.get("uses", "").startswith("actions/upload-artifact@"))
    (outside / "event.json").write_text(json.dumps({**replica.event(), "repository": {"full_name": REPOSITORY}}))
    forward = Forward(gateway(docker, image), replica.gateway)
    variables = {
        "HTTPS_PROXY": f"http://{forward.listener.getsockname()[0]}:{forward.port}",
        "REQUESTS_CA_BUNDLE": str(replica.directory / "myworld-ca.pem"),
        "GITHUB_REPOSITORY": REPOSITORY,
    }
    environment = {**os.environ, **docker, "HOME": str(home), "GITHUB_TOKEN": replica.tokens["bot"]}
    return Act(program, image, workspace, outside, environment, variables, upload), forward


def left_behind(docker: dict[str, str], *run_ids: int) -> list[str]:
    """Labels of containers and networks that runs of these numbers left; tests beside this one have their own."""
    shown = ("--filter", "label=servegate", "--format", "{{.Labels}}")
    said = [command("docker", *words, *shown, environment=docker) for words in (("ps", "--all"), ("network", "ls"))]
    assert all(each.returncode == 0 for each in said), said
    marks = [f"servegate={number}.1." for number in run_ids]
    return [line for each in said for line in each.stdout.splitlines() if any(mark in line for mark in marks)]


def commit(where: Path, message: str, *, start: bool = False) -> None:
    """Commit everything in a folder, as nobody."""
    who = ("-c", "user.name=t", "-c", "user.email=t@t.invalid")
    steps = (("init", "--quiet"),) if start else ()
    for arguments in (*steps, ("add", "--all"), ("commit", "--quiet", "--message", message)):
        subprocess.run(["git", "-C", str(where), *who, *arguments], check=True, timeout=60)


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


def gateway(docker: dict[str, str], image: str) -> str:
    """Address of this machine on the containers' bridge, as a container sees it."""
    program = "import pathlib,socket,struct\nfor line in pathlib.Path('/proc/net/route').read_text().splitlines()[1:]:\n"
    program += "  f=line.split()\n  if f[1]=='00000000': print(socket.inet_ntoa(struct.pack('<L',int(f[2],16))))"
    done = command("docker", "run", "--rm", "--entrypoint", "python3", image, "-c", program, environment=docker)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()[0]


def _gone(process: psutil.Process, seconds: float) -> bool:
    """Wait for a process that is not our child; one that nobody has waited for is gone, too."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False
