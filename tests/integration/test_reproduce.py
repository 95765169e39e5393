"""`reproduce.sh` of a real run, run by a real shell: the same gate is measured again, and no name in it runs anything."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.fakes import install
from tests.integration.test_command_line import GATE, gate_in, nothing_left, servegate

HOSTILE = 'it\'s "$(touch owned)" `touch owned`; touch owned & \n--output=x \u202e\u200b* ü'
"""A folder's name may be anything but a slash and a NUL."""


def document(run: Path, name: str) -> dict[str, Any]:
    return json.loads((run / name).read_text())


def again(here: Path, run: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the script where the gate ran, with `servegate` as a command on the PATH."""
    command = here / "commands/servegate"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m servegate "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
        "FAKE_VLLM_ANSWERS": str(here / "answers.json"),
    }
    return subprocess.run(
        ["sh", str(run / "report/reproduce.sh"), *words],
        cwd=here, env=environment, capture_output=True, text=True, errors="replace", timeout=90, check=False,
    )  # fmt: skip


def ensure_same(first: Path, second: Path) -> None:
    plans = [document(run, "plan.json")["data"] for run in (first, second)]
    assert plans[0]["fingerprints"] == plans[1]["fingerprints"], "workload, policy and both arms are the same"
    assert plans[0]["schedule"] == plans[1]["schedule"]
    before, after = (document(run, "verdict.json")["data"] for run in (first, second))
    assert (after["outcome"], after["headline"]) == (before["outcome"], before["headline"])
    for arm in ("baseline", "candidate"):
        answers = [document(run, f"arms/{arm}/prompts.json")["data"]["answers"] for run in (first, second)]
        texts = [{(one["prompt_id"], one["round"]): one["text"] for one in each} for each in answers]
        assert texts[0] == texts[1] != {}


def test_the_script_repeats_the_gate_beside_the_first_run(tmp_path: Path) -> None:
    here = gate_in(tmp_path)
    first = here / "servegate-runs/demo"
    assert servegate(here, "run").returncode == 0
    kept = {path: path.read_bytes() for path in first.rglob("*") if path.is_file()}
    done = again(here, first, "gate")
    assert done.returncode == 0, done.stdout + done.stderr
    ensure_same(first, here / "servegate-again/demo")
    assert {path: path.read_bytes() for path in first.rglob("*") if path.is_file()} == kept, "nothing is written over"
    refused = again(here, first, "gate")
    assert refused.returncode == 2
    assert "already holds files" in refused.stderr
    assert again(here, first, "gate", "--output=third").returncode == 0
    ensure_same(first, here / "third/demo")
    assert again(here, first).returncode == 2
    assert nothing_left(here)


def test_hostile_names_stay_names(tmp_path: Path) -> None:
    """The gate config, both serving configs, the prompts and the engine all lie under a name that a shell would act on."""
    here = gate_in(tmp_path)
    folder = here / HOSTILE
    folder.mkdir()
    engine = install(folder / "bin")
    for name in ("old.yaml", "new.yaml", "prompts.jsonl"):
        (here / name).rename(folder / name)
    config = json.dumps(str(engine))
    (folder / "gate.yaml").write_text(GATE.replace("ENGINE", config))
    given = (f"--config={HOSTILE}/gate.yaml", f"--candidate={HOSTILE}/new.yaml", f"--engine={engine}")
    done = servegate(here, "run", *given)
    assert done.returncode == 0, done.stdout + done.stderr
    first = here / "servegate-runs/demo"
    repeated = again(here, first, "gate")
    assert repeated.returncode == 0, repeated.stdout + repeated.stderr
    ensure_same(first, here / "servegate-again/demo")
    assert not list(tmp_path.rglob("owned"))
    text = (first / "report/reproduce.sh").read_text()
    assert "\u202e" not in text
    assert "\u200b" not in text
