"""The image, really built and really run by podman: read-only, without capabilities, network or root."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.conftest import missing
from tests.end_to_end.conftest import ROOT, command

pytestmark = [pytest.mark.service, pytest.mark.timeout(1800)]

HARDENED = ("--rm", "--read-only", "--cap-drop", "all", "--security-opt", "no-new-privileges", "--network", "none")


def files_of(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def replay(podman: str, image: str, run: Path, *arguments: str) -> tuple[int, str]:
    mount = f"{run}:/output/run"
    done = command(podman, "run", *HARDENED, "--user", f"{os.getuid()}:{os.getgid()}", "--volume", mount, image, *arguments)
    return done.returncode, done.stdout + done.stderr


def test_it_says_its_version_and_what_it_has(podman: str, image: str) -> None:
    version = command(podman, "run", *HARDENED, image, "--version")
    assert version.stdout.startswith("servegate "), version.stderr
    doctor = command(podman, "run", *HARDENED, image, "doctor")
    without = "there is no engine" in doctor.stderr  # the base that this image is tested on may lack vLLM
    assert doctor.returncode == (2 if without else 0), doctor.stdout + doctor.stderr
    assert "lm-eval" in doctor.stdout
    assert "/opt/servegate/venv/bin/lm_eval" in doctor.stdout


def test_it_runs_as_nobody_and_carries_no_history(podman: str, image: str) -> None:
    facts = json.loads(command(podman, "image", "inspect", image).stdout)[0]
    assert facts["Config"]["User"] == "10001:10001"
    assert facts["Config"]["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    inside = command(
        podman, "run", *HARDENED, "--entrypoint", "sh", image, "-c", "id -u; ls -A /opt/servegate/source; command -v python3"
    ).stdout.split("\n")
    assert inside[0] == "10001"
    assert not {".git", "tests", ".demo", "servegate-runs"} & set(inside)
    assert "/opt/servegate" not in inside[-2], "the engine's python3 must stay the first one"


def test_a_made_run_is_judged_and_reported_and_twice_the_same(podman: str, image: str, made_run: Path) -> None:
    assert replay(podman, image, made_run, "compare", "/output/run")[0] == 3
    code, said = replay(podman, image, made_run, "report", "/output/run")
    assert code == 0, said
    first = files_of(made_run)
    assert {"verdict.json", "report/comment.md", "report/summary.md", "report/report.html"} <= set(first)
    replay(podman, image, made_run, "compare", "/output/run")
    replay(podman, image, made_run, "report", "/output/run")
    assert files_of(made_run) == first
    assert {path.stat().st_uid for path in made_run.rglob("*")} == {os.getuid()}


def test_the_recorded_run_is_judged_as_outside(podman: str, image: str, tmp_path: Path) -> None:
    recorded = ROOT / "examples" / "recorded-run"
    found = sorted(recorded.rglob("run.json"))
    if not found:
        missing("examples/recorded-run")
    for run_json in found:
        run = tmp_path / run_json.parent.name
        shutil.copytree(run_json.parent, run)
        outside = json.loads((run / "verdict.json").read_text())["data"]["outcome"] if (run / "verdict.json").exists() else None
        code, said = replay(podman, image, run, "compare", "/output/run")
        assert code in (0, 1, 3, 4, 5), said
        inside = json.loads((run / "verdict.json").read_text())["data"]["outcome"]
        assert outside in (inside, None)
        code, said = replay(podman, image, run, "report", "/output/run")
        assert code == 0, said


def test_measuring_without_a_model_and_an_engine_is_one_clear_error(podman: str, image: str, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "before.yaml").write_text("model: /nowhere\nmax-num-seqs: 1\n")
    (tmp_path / "after.yaml").write_text("model: /nowhere\nmax-num-seqs: 2\n")
    places = ("--volume", f"{tmp_path}:/workspace:ro", "--workdir", "/workspace", "--tmpfs", "/output:mode=1777")
    done = command(
        *(podman, "run", *HARDENED, *places, image),
        *("measure", "--baseline=before.yaml", "--candidate=after.yaml", "--output=/output"),
    )
    assert done.returncode in (2, 5), done.stdout + done.stderr
    assert done.stderr.startswith("error: "), done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_is_seen_before_anything_starts(podman: str, image: str, tmp_path: Path) -> None:
    """A real file system of 16 MiB where the run directory should go."""
    tmp_path.chmod(0o755)
    for name, seats in (("before", 1), ("after", 2)):
        (tmp_path / f"{name}.yaml").write_text(f"model: org/m\nmax-num-seqs: {seats}\n")
    small = ("--tmpfs", "/output:size=16m,mode=1777", "--tmpfs", "/cache:mode=1777", "--tmpfs", "/tmp:mode=1777")
    made = (
        "servegate fake-engine --install /tmp/bin && "
        "exec servegate measure --baseline=before.yaml --candidate=after.yaml --engine=/tmp/bin/vllm --output=/output"
    )
    done = command(
        *(podman, "run", *HARDENED, *small, "--volume", f"{tmp_path}:/workspace:ro", "--workdir", "/workspace"),
        *("--entrypoint", "sh", image, "-c", made),
    )
    assert done.returncode == 2, done.stdout + done.stderr
    said = done.stderr[done.stderr.index("error: ") :]
    assert said.startswith("error: not enough free space: the run directory (/output/"), said
    assert "needs 512 MiB: 512 MiB in all, and 16 MiB are free" in said
