"""What a pull request changes, read from git and measured in the action's own steps: real containers, two images, two files.

Beside it, what Docker says of each of them, and what an engine in one sees: nobody but the publisher has a token, nobody but
the reader of git has the history, and an arm's container has nothing of the other's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import missing
from tests.end_to_end.acting import commit
from tests.end_to_end.conftest import command, measuring
from tests.project.action_file import STEPS

pytestmark = [pytest.mark.service, pytest.mark.timeout(900)]

CANARY = "ghs_canary0123456789"
VERSIONS = {"baseline": "0.32.0", "candidate": "0.33.1"}
LAYER = """\
FROM {image}
USER 0
RUN servegate fake-engine --install /opt/engine && mv /opt/engine/vllm /opt/engine/fake
COPY vllm /opt/engine/vllm
ENV FAKE_VLLM_VERSION={version}
USER 10001:10001
"""
LOOKS = """\
#!/bin/sh
case "$*" in
  serve*)
    {
      env
      grep -E 'Cap|NoNewPrivs' /proc/self/status
      find / -xdev -maxdepth 2 2> /dev/null
      find /output /pairs /workspace /cache -maxdepth 4 -not -name '*.pyc' 2> /dev/null
      cut -d ' ' -f 5,6 /proc/self/mountinfo
      find / -type s 2> /dev/null
      touch /opt/engine/written /written 2> /dev/null && echo 'the root was written'
    } | sed 's/^/seen: /' >&2
    ;;
esac
exec /opt/engine/fake "$@"
"""
WATCHING = """\
#!/bin/sh
# Docker's own word on every container, taken between its making and its start.
[ "$1" = run ] || exec {docker} "$@"
shift
one=$({docker} create "$@") || exit
{docker} inspect "$one" > "{seen}/$(date +%s%N).json"
exec {docker} start --attach "$one"
"""


@pytest.fixture(scope="module")
def images(podman: str, image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Two thin layers on the image under test: in each an engine of another version, which tells what it can see."""
    made = {}
    for arm, version in VERSIONS.items():
        folder = tmp_path_factory.mktemp(arm)
        (folder / "Dockerfile").write_text(LAYER.format(image=image, version=version))
        (folder / "vllm").write_text(LOOKS)
        (folder / "vllm").chmod(0o755)
        made[arm] = f"localhost/servegate-git:{arm}"
        done = command(podman, "build", "--pull=never", "--network", "none", "--tag", made[arm], str(folder), timeout=300)
        assert done.returncode == 0, done.stderr
    yield made
    command(podman, "rmi", "--force", *made.values())


@pytest.fixture
def step(tmp_path: Path, docker: dict[str, str], image: str, images: dict[str, str]) -> Iterator[dict[str, str]]:
    """Environment of the steps: a repository in which a pull request changes two serving configs and touches a third."""
    found = command("docker", "run", "--rm", "--network", "none", "--entrypoint", "git", image, "--version", environment=docker)
    if found.returncode != 0:
        missing("git in the image (scripts/ci/make-base-image.sh makes a base that has it)")
    values = measuring(tmp_path, docker, image, f"servegate=7.1.git-{os.getpid()}")
    shutil.rmtree(tmp_path / "cache/bin")
    workspace = tmp_path / "workspace"
    shutil.rmtree(workspace)
    (workspace / "serving").mkdir(parents=True)
    config = {
        "version": 1,
        "gate": "team",
        "policy": "quick",
        "engine": {"executable": "/opt/engine/vllm"},
        "checks": {"prompts": {"file": "prompts.jsonl", "max_tokens": 64}},
        "changes": {"configs": [{"files": "serving/*.yaml"}]},
    }
    (workspace / "servegate.yaml").write_text(yaml.safe_dump(config))
    (workspace / "prompts.jsonl").write_text(json.dumps({"id": "a", "category": "c", "prompt": "Say 1."}) + "\n")
    for name in "abc":
        (workspace / f"serving/{name}.yaml").write_text(f"model: org/{name}\nmax-num-seqs: 8\n")
    commit(workspace, "base", start=True)
    for name, seats in (("a", 16), ("b", 4)):
        (workspace / f"serving/{name}.yaml").write_text(f"model: org/{name}\nmax-num-seqs: {seats}\n")
    (workspace / "serving/c.yaml").write_text("# only a comment\nmodel: org/c\nmax-num-seqs: 8\n")
    commit(workspace, "change")
    (workspace / ".git/credentials").write_text(CANARY)
    watched = tmp_path / "watching/docker"
    watched.parent.mkdir()
    (tmp_path / "seen").mkdir()
    watched.write_text(WATCHING.format(docker=shutil.which("docker"), seen=tmp_path / "seen"))
    watched.chmod(0o755)
    made = {
        **values,
        "PATH": f"{watched.parent}:{values['PATH']}",
        "IMAGE": images["baseline"],
        "CANDIDATE_IMAGE": images["candidate"],
        "COMPARE": "git",
        "NETWORK": "own",
        "BASE": "HEAD~1",
        "HEAD": "HEAD",
        "TRUST_HEAD": "false",
        "RUN": "",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    yield made
    ran(made, "Remove what a cancelled step left")


def ran(step: dict[str, str], name: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return command("bash", "-e", "-o", "pipefail", "-c", STEPS[name]["run"], environment={**step, **environment}, timeout=300)


def seen(tmp_path: Path) -> dict[str, list[dict[str, Any]]]:
    """What Docker said of each container, by the verb of servegate that it ran; of `ci`, with its arm."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((tmp_path / "seen").glob("*.json")):
        [facts] = json.loads(path.read_text())
        words = facts["Config"]["Cmd"]
        arm = next((word.partition("=")[2] for word in words if word.startswith("--arm=")), "")
        found.setdefault(arm or words[0], []).append(facts)
    return found


def test_two_changed_files_are_two_pairs_in_isolated_containers(tmp_path: Path, step: dict[str, str]) -> None:
    for name in ("pairs", "measure", "candidate", "judge"):
        done = ran(step, name)
        assert done.returncode in {0, 3}, (name, done.stdout + done.stderr)
    runs = tmp_path / "runs"
    index = json.loads((runs / "index.json").read_text())
    assert [pair["after"] for pair in index["pairs"]] == ["serving/a.yaml", "serving/b.yaml"]
    assert [each["path"] for each in index["not_measured"]] == ["serving/c.yaml"]
    for pair in index["pairs"]:
        run = runs / pair["gate"]

        def document(name: str, run: Path = run) -> dict[str, Any]:
            data: dict[str, Any] = json.loads((run / name).read_text())["data"]
            return data

        assert json.loads((run / "run.json").read_text())["status"] == "complete"
        assert {arm: document(f"arms/{arm}/engine.json")["version"] for arm in VERSIONS} == VERSIONS
        assert {knob["name"] for knob in document("plan.json")["knobs"]} == {"max-num-seqs", "engine.image"}
        verdict = document("verdict.json")
        codes = {item["code"] for item in verdict["findings"]}
        assert not codes & {"arms/version-differs", "arms/run-incomplete", "prompts/not-measured"}, verdict
        assert (run / "report/comment.md").is_file()

    published = ran(
        step, "publish", RUN=str(runs), COMMENT="true", ALLOW_NO_CHANGE="false", NEUTRAL="none", MEASURED_RESULT="success",
        GATE="team", CANCELLED="", JUDGED="success",
    )  # fmt: skip
    assert "nothing to publish to" in published.stdout, published.stdout + published.stderr
    containers = seen(tmp_path)
    assert {name: len(each) for name, each in containers.items()} == {
        "pairs": 1, "baseline": 1, "candidate": 1, "join": 1, "compare": 2, "report": 2, "publish": 1,
    }  # fmt: skip
    _are_confined(containers, tmp_path, step)
    for arm, other in (("baseline", "candidate"), ("candidate", "baseline")):
        _sees_nothing(tmp_path / f"arms/{arm}" / index["pairs"][0]["gate"] / f"arms/{arm}/server.log", other, step)
    cleaned = ran(step, "Remove what a cancelled step left")
    assert cleaned.returncode == 0, cleaned.stderr


def _are_confined(containers: dict[str, list[dict[str, Any]]], tmp_path: Path, step: dict[str, str]) -> None:
    measured = {"baseline", "candidate"}
    for name, each in containers.items():
        for facts in each:
            host, text = facts["HostConfig"], json.dumps(facts)
            assert host["ReadonlyRootfs"] is True, name
            assert host["Privileged"] is False, name
            assert not host.get("CapAdd"), name
            assert host["CapDrop"], name
            assert "no-new-privileges" in " ".join(host["SecurityOpt"]), name
            assert host["PidsLimit"] == (8192 if name in measured else 512), name
            assert not host.get("Devices"), name
            assert not host.get("DeviceRequests"), name
            assert host["IpcMode"] != "host", name
            assert host["PidMode"] != "host", name
            if name != "publish":  # which has to reach GitHub
                own = "servegate-" + step["LABEL"].partition("=")[2]
                assert (list(facts["NetworkSettings"]["Networks"]) == [own]) == (name in measured), (
                    name,
                    facts["NetworkSettings"],
                )
                assert host["NetworkMode"] == "none" or name in measured, name
            assert (CANARY in text) == (name == "publish"), name
            assert "docker.sock" not in text, name
            assert "podman.sock" not in text, name
            assert facts["Config"]["User"] == f"{os.getuid()}:{os.getgid()}", name
    image = {name: each[0]["Config"]["Image"] for name, each in containers.items()}
    assert image["candidate"] == step["CANDIDATE_IMAGE"]
    assert {image[name] for name in image if name != "candidate"} == {step["IMAGE"]}
    expected = {
        "pairs": {"/workspace": ("workspace", False), "/pairs": ("pairs", True)},
        "baseline": {"/pairs": ("pairs", False), "/cache": ("cache", True), "/output": ("arms/baseline", True)},
        "candidate": {"/pairs": ("pairs", False), "/cache": ("cache", True), "/output": ("arms/candidate", True)},
        "join": {
            **{f"/{arm}": (f"arms/{arm}", False) for arm in ("baseline", "candidate")},
            "/pairs": ("pairs", False),
            "/output": ("runs", True),
        },
    }
    for name, mounts in expected.items():
        assert _mounts(containers[name][0], tmp_path) == mounts, name
    for name in ("compare", "report"):
        for facts in containers[name]:
            [(target, (source, written))] = _mounts(facts, tmp_path).items()
            assert (target, written) == ("/output/run", True)
            assert source.startswith("runs/team-")
    assert all(not written for _, written in _mounts(containers["publish"][0], tmp_path).values() if "runs" in _)


def _mounts(facts: dict[str, Any], tmp_path: Path) -> dict[str, tuple[str, bool]]:
    """Return what is bound into a container: target -> (what of the test's folder, whether it may be written)."""
    return {
        mount["Destination"]: (str(Path(mount["Source"]).relative_to(tmp_path)), mount["RW"])
        for mount in facts["Mounts"]
        if mount["Type"] == "bind" and Path(mount["Source"]).is_relative_to(tmp_path)
    }


def _sees_nothing(log: Path, other: str, step: dict[str, str]) -> None:
    """What the arm's engine itself could see."""
    lines = [line.partition("seen: ")[2] for line in log.read_text(errors="replace").splitlines() if "seen: " in line]
    assert "FAKE_VLLM_VERSION" in {line.partition("=")[0] for line in lines}, "the engine did tell"
    names = {line.partition("=")[0] for line in lines}
    assert not names & {"GITHUB_TOKEN", "ACTIONS_RUNTIME_TOKEN", "RUNNER_TEMP", "DOCKER_HOST"}
    assert CANARY not in "\n".join(lines)
    capabilities = {line.split(":")[0]: line.split(":")[1].strip() for line in lines if line.startswith(("Cap", "NoNewPrivs"))}
    assert {name: int(value, 16) for name, value in capabilities.items()} == {
        **dict.fromkeys(("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"), 0),
        "NoNewPrivs": 1,
    }
    assert not [line for line in lines if line.endswith("/.git") or "/.git/" in line]
    assert "/workspace/serving" not in lines
    assert not [line for line in lines if line.endswith(".sock")]
    assert not [line for line in lines if step["RUNNER_TEMP"] in line.split(" ")[0]]
    assert "the root was written" not in lines
    measured = [
        line
        for line in lines
        if line.startswith("/output/") and f"/arms/{other}/" in line and not line.endswith("/serving.yaml")
    ]
    assert other == "baseline" or measured == [], "the candidate has a copy of the baseline's to read, and not the other way"
