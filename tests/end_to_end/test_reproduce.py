"""`reproduce.sh` really reproduces: the demo's FP8 KV cache with 8 questions, measured, then measured again by the script.

The engine is started through a script that notes the API keys it was given, so the real vLLM, lm-eval and `vllm bench serve`
are also seen to work with a key that is written nowhere.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import missing

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples/demo-cpu"
QUESTIONS = 8


def document(run: Path, name: str) -> dict[str, Any]:
    return json.loads((run / name).read_text())


def scores(run: Path, arm: str) -> dict[tuple[int, int, str], tuple[str, float]]:
    rows = document(run, f"arms/{arm}/accuracy.json")["data"]["rows"]
    return {(row["round"], row["doc_id"], row["filter"]): (row["prompt_hash"], row["score"]) for row in rows}


def test_the_script_measures_the_same_again(tmp_path: Path) -> None:
    engine = os.environ.get("SERVEGATE_TEST_ENGINE") or missing("SERVEGATE_TEST_ENGINE (a vllm executable)")
    if not (ROOT / ".demo/smollm2-135m-instruct").exists():
        missing("the demo's model (`make engine`)")
    keys, vllm = tmp_path / "keys", tmp_path / 'it\'s a "vllm" $(touch owned)'
    vllm.write_text(f'#!/bin/sh\necho "${{VLLM_API_KEY-}}" >> {shlex.quote(str(keys))}\nexec {shlex.quote(engine)} "$@"\n')
    vllm.chmod(0o755)
    config = yaml.safe_load((DEMO / "servegate.yaml").read_text())
    for arm, name in (("baseline", "bf16"), ("candidate", "fp8-kv")):
        config["arms"][arm]["config"] = str(DEMO / f"serving/{name}.yaml")
    (task,) = config["checks"]["accuracy"]["tasks"]
    task |= {"file": str(DEMO / task["file"]), "questions": QUESTIONS}
    load = {"input_tokens": 32, "output_tokens": 8, "concurrency": [4], "judged_at": 4, "windows": 2}
    config["checks"] = {"engagement": {}, "accuracy": config["checks"]["accuracy"], "throughput": load}
    gate = tmp_path / "servegate.yaml"
    gate.write_text(yaml.safe_dump(config))
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin/servegate"  # what the script calls, as it is installed for a reader
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m servegate "$@"\n')
    command.chmod(0o755)
    environment = {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}

    def ran(*words: str) -> None:
        done = subprocess.run(
            words, cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace", timeout=400, check=False
        )
        assert done.returncode in (0, 1, 3), done.stdout + done.stderr

    first, again = tmp_path / "first" / "kv", tmp_path / "again" / "kv"
    ran("servegate", "run", f"--config={gate}", "--gate=kv", f"--engine={vllm}", f"--output={first.parent}")
    ran("sh", str(first / "report/reproduce.sh"), "gate", f"--output={again.parent}")

    assert document(again, "plan.json")["plan"] == document(first, "plan.json")["plan"], "the same plan, to its fingerprint"
    for arm in ("baseline", "candidate"):
        for check in ("accuracy", "throughput"):
            assert document(again, f"arms/{arm}/{check}.json")["status"] == "measured"
        before, after = scores(first, arm), scores(again, arm)
        assert before.keys() == after.keys()
        assert len({doc_id for _round, doc_id, _filter in before}) == QUESTIONS
        assert {place: row[0] for place, row in before.items()} == {place: row[0] for place, row in after.items()}
    # The baseline is deterministic on this machine: where it is steady within the first run it answers the same again.
    steady = [key for key, row in scores(first, "baseline").items() if scores(first, "baseline")[(1 - key[0], *key[1:])] == row]
    same = sum(scores(again, "baseline")[key] == scores(first, "baseline")[key] for key in steady)
    assert same >= 0.9 * len(steady) > 0

    drawn = {key for key in keys.read_text().split() if key}
    assert len(drawn) == 4, "one for each of four starts"
    files = [path for root in (first, again) for path in root.rglob("*") if path.is_file()]
    assert [str(path) for path in files for key in drawn if key.encode() in path.read_bytes()] == []
    assert not list(tmp_path.rglob("owned")) + list(ROOT.glob("owned"))
