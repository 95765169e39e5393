"""Blocks of load in turn, on two living engines of which one is asleep: the real command line, a fake engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import install

GATE = """\
version: 1
gate: demo
arms:
  baseline: {config: old.yaml}
  candidate: {config: new.yaml}
engine: {executable: ENGINE, start_timeout_s: 20, request_timeout_s: 2}
policy: quick
checks:
  engagement: {}
  prompts: {file: prompts.jsonl, max_tokens: 16}
  throughput:
    {input_tokens: 16, output_tokens: 8, concurrency: [4], judged_at: 4, windows: 4, single: null, interleave: true}
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    engine = install(tmp_path / "bin")
    (tmp_path / "old.yaml").write_text("model: org/m\nenable-sleep-mode: true\n")
    (tmp_path / "new.yaml").write_text("model: org/m\nenable-sleep-mode: true\nmax-num-seqs: 8\n")
    prompts = ({"id": f"p{n}", "category": "x", "prompt": f"Say {n}."} for n in range(3))
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(prompt) + "\n" for prompt in prompts))
    (tmp_path / "servegate.yaml").write_text(GATE.replace("ENGINE", str(engine)))
    return tmp_path


def servegate(here: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    command = [sys.executable, "-m", "servegate", *arguments]
    return subprocess.run(command, cwd=here, env=variables, capture_output=True, text=True, timeout=120, check=False)


def data(here: Path, path: str) -> dict[str, Any]:
    return json.loads((here / "servegate-runs/demo" / path).read_text())["data"]


def test_blocks_alternate_and_are_compared_pair_by_pair(here: Path) -> None:
    done = servegate(here, "run")
    assert done.returncode == 3, done.stdout + done.stderr
    stages = [(s["arm"], s["step"]) for s in data(here, "run.json")["stages"] if s["check"] == "throughput"]
    a, b = "baseline", "candidate"
    assert stages == [(a, 0), (b, 0), (b, 1), (a, 1), (a, 2), (b, 2), (b, 3), (a, 3)]
    for arm in (a, b):
        points = data(here, f"arms/{arm}/throughput.json")["points"]
        assert [point["block"] for point in sorted(points, key=lambda point: point["seed"])] == [0, 1, 2, 3]
        assert len({point["workload_sha256"] for point in points}) == 4
        assert len(data(here, f"arms/{arm}/prompts.json")["answers"]) >= 3
    comparison = data(here, "comparisons/throughput.json")
    assert comparison["unpaired"] == {"baseline_only": 0, "candidate_only": 0, "hash_differs": 0}
    assert comparison["estimates"] == {} or "paired blocks" in comparison["estimates"]["judged_ratio"]["method"]
    order = [(s["stage"], s["arm"]) for s in data(here, "run.json")["stages"] if s["stage"] != "measure"]
    assert order == [("start", a), ("start", b), ("stop", b), ("stop", a)]


def test_capacity_is_read_from_solo_starts_only(here: Path) -> None:
    servegate(here, "run")
    baseline, candidate = (data(here, f"arms/{arm}/engine.json") for arm in ("baseline", "candidate"))
    assert baseline["kv_cache_tokens"] == 93_184
    assert (candidate["kv_cache_tokens"], candidate["kv_cache_gib"]) == (None, None)
    assert "another one slept on the card" in candidate["kv_cache_tokens_reason"]
    assert baseline["added_environment"]["VLLM_SERVER_DEV_MODE"] == "1"


def test_the_sleep_endpoints_are_not_opened_without_need(here: Path) -> None:
    (here / "servegate.yaml").write_text((here / "servegate.yaml").read_text().replace(", interleave: true", ""))
    servegate(here, "run")
    assert "VLLM_SERVER_DEV_MODE" not in data(here, "arms/baseline/engine.json")["added_environment"]


def test_sleep_mode_must_be_in_both_serving_configs(here: Path) -> None:
    (here / "new.yaml").write_text("model: org/m\n")
    done = servegate(here, "plan")
    assert done.returncode == 2
    assert (
        "throughput.interleave needs `enable-sleep-mode: true` in the serving config of the candidate (new.yaml)" in done.stderr
    )


def test_one_arm_alone_can_not_be_interleaved(here: Path) -> None:
    done = servegate(here, "measure", "--arm", "baseline")
    assert done.returncode == 2
    assert "interleaved blocks need both arms in one run" in done.stderr


def test_an_engine_that_dies_asleep_or_awake_leaves_what_was_measured_as_a_part(here: Path) -> None:
    """Trial, three prompts twice, a token after each step, a warm-up, ...: the candidate dies within its blocks."""
    (here / "new.yaml").write_text("model: org/m\nenable-sleep-mode: true\nadditional-config: {fault: die-after-40}\n")
    done = servegate(here, "run")
    assert done.returncode == 5, done.stdout + done.stderr
    assert data(here, "arms/candidate/engine.json")["diagnosis"] is not None
    for arm in ("baseline", "candidate"):
        status = json.loads((here / f"servegate-runs/demo/arms/{arm}/throughput.json").read_text())["status"]
        assert status in {"partial", "not_measured"}
