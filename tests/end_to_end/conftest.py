"""Fixtures of the container tests: the image, built once a session, Docker's API served by podman, a run to replay."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from servegate.artifacts import RunDirectory
from tests.conftest import missing
from tests.fakes.github import Replica
from tests.unit.samples import engine_facts, manifest, plan

if TYPE_CHECKING:
    from tests.end_to_end.acting import Act

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "localhost/servegate:test"


def command(
    *arguments: str, environment: Mapping[str, str] | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a command and return what it said; a failure is for the test to judge."""
    env = {**os.environ, **(environment or {})}
    return subprocess.run(arguments, capture_output=True, text=True, errors="replace", env=env, timeout=timeout, check=False)


@pytest.fixture(scope="session")
def podman() -> str:
    return shutil.which("podman") or missing("podman (scripts/ci/setup-podman.sh)")


@pytest.fixture(scope="session")
def image(podman: str) -> str:
    """The image of this tree's Dockerfile on a Python base without an engine, or the one that SERVEGATE_TEST_IMAGE names.

    Only where a base was named on purpose: a build installs packages, which podman as it is may not be allowed to.
    """
    if made := os.environ.get("SERVEGATE_TEST_IMAGE"):
        return made
    base = os.environ.get("SERVEGATE_TEST_BASE_IMAGE") or missing("SERVEGATE_TEST_BASE_IMAGE (scripts/ci/make-base-image.sh)")
    if command(podman, "image", "exists", base).returncode != 0:
        missing(f"the image {base} (scripts/ci/make-base-image.sh)")
    wheels = os.environ.get("SERVEGATE_TEST_WHEELS")
    # With a folder of wheels (scripts/ci/make-wheelhouse.sh) nothing outside is reached, and nothing could be.
    offline = (
        *("--network", "none", "--volume", f"{wheels}:/wheels:ro"),
        *("--build-arg", "PIP_FIND_LINKS=/wheels", "--build-arg", "PIP_NO_INDEX=1"),
    )
    build = command(
        *(podman, "build", "--pull=never", "--build-arg", f"BASE_IMAGE={base}", "--tag", IMAGE),
        *("--build-arg", "GIT_PACKAGE="),
        *(offline if wheels else ()),
        str(ROOT),
        timeout=1500,
    )
    assert build.returncode == 0, f"the image does not build:\n{build.stdout[-3000:]}\n{build.stderr[-3000:]}"
    return IMAGE


@pytest.fixture(scope="session")
def docker(tmp_path_factory: pytest.TempPathFactory, podman: str) -> Iterator[dict[str, str]]:
    """Environment in which the `docker` command works: the one that is set, or podman behind Docker's API."""
    if shutil.which("docker") is None:
        missing("docker (the command)")
    if os.environ.get("DOCKER_HOST"):
        yield {"DOCKER_HOST": os.environ["DOCKER_HOST"]}
        return
    script, directory = str(ROOT / "scripts/ci/podman-as-docker.sh"), tmp_path_factory.mktemp("docker")
    # The service keeps a pipe open, so its output goes to a file.
    with (directory / "started").open("wb") as said:
        subprocess.run([script, str(directory), "start"], stdout=said, stderr=said, check=True, timeout=60)
    try:
        yield {"DOCKER_HOST": f"unix://{directory}/podman.sock", "DOCKER_BUILDKIT": "0"}
    finally:
        command(script, str(directory), "stop")


@pytest.fixture(scope="module")
def replica(shared_replica: Replica) -> Replica:
    return shared_replica


@pytest.fixture
def act(replica: Replica, docker: dict[str, str], image: str, tmp_path: Path) -> Iterator[Act]:
    """act in a workspace of its own, with the replica as it was made."""
    from tests.end_to_end import acting

    program = shutil.which("act") or shutil.which("act", path=str(Path(sys.executable).parent)) or missing("act")
    replica.reset()
    made, forward = acting.make(program, replica, docker, image, tmp_path)
    yield made
    forward.listener.close()


@pytest.fixture
def made_run(tmp_path: Path) -> Path:
    """A small run directory in which both arms started and no check was on: the verdict is REVIEW."""
    run, made = RunDirectory.create(tmp_path / "made" / "demo"), plan()
    run.write_run("running", {}, gate=made.gate, plan=made.fingerprint())
    run.write_plan(made)
    for role in ("baseline", "candidate"):
        run.write_engine(made, role, engine_facts(role))
        run.write_manifest(made, role, manifest())
    run.write_run("complete", {}, gate=made.gate, plan=made.fingerprint())
    return run.root


def fake_engine(cache: Path, docker: dict[str, str], image: str, before: str = "") -> None:
    """Install the fake engine as /cache/bin/vllm of a container; lines of shell `before` it see its arguments and variables."""
    made = command(
        *("docker", "run", "--rm", "--user", f"{os.getuid()}:{os.getgid()}", "--network", "none"),
        *("--volume", f"{cache}:/cache", image, "fake-engine", "--install", "/cache/bin"),
        environment=docker,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    if before:
        vllm = cache / "bin/vllm"
        vllm.rename(vllm.with_name("fake"))
        vllm.write_text(f'#!/bin/sh\n{before}\nexec /cache/bin/fake "$@"\n')
        vllm.chmod(0o755)


def measuring(
    tmp_path: Path, docker: dict[str, str], image: str, label: str, before: str = "", **engine: str
) -> dict[str, str]:
    """Make a workspace whose engine is the fake one, and return the environment of the action's steps; `engine` is its own."""
    for name in ("workspace/.git", "runs", "arms/baseline", "arms/candidate", "cache", "pairs"):
        (tmp_path / name).mkdir(parents=True)
    fake_engine(tmp_path / "cache", docker, image, before)
    for name, seats in (("old", 1), ("new", 2)):
        (tmp_path / f"workspace/{name}.yaml").write_text(f"model: org/m\nmax-num-seqs: {seats}\n")
    config = {
        "version": 1,
        "gate": "demo",
        "policy": "quick",
        "arms": {"baseline": {"config": "old.yaml"}, "candidate": {"config": "new.yaml"}},
        "engine": {"executable": "/cache/bin/vllm", "environment": engine},
        "checks": {"prompts": {"file": "bundled:prompts.jsonl"}},
    }
    (tmp_path / "workspace/servegate.yaml").write_text(yaml.safe_dump(config))
    values = {
        "IMAGE": image,
        "CONFIG": "servegate.yaml",
        "WORKING_DIRECTORY": ".",
        "GPUS": "none",
        "NETWORK": "none",
        "SHM_SIZE": "64m",
        "EXTRA_ARGUMENTS": "",
        "COMPARE": "config",
        "LOCKS": "",
        "PAIRS": str(tmp_path / "pairs"),
        "ISOLATE_ARMS": "true",
        "RUNS": str(tmp_path / "runs"),
        "ARMS": str(tmp_path / "arms"),
        "CACHE": str(tmp_path / "cache"),
        "OWNER": f"{os.getuid()}:{os.getgid()}",
        "LABEL": label,
        "GITHUB_WORKSPACE": str(tmp_path / "workspace"),
        "GITHUB_TOKEN": "ghs_canary0123456789",
        "RUNNER_TEMP": str(tmp_path),
    }
    return {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **docker, **values}
