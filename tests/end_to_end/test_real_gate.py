"""The whole gate, for real: the command line on vLLM's CPU build, BF16 against an FP8 KV cache, one start each.

It is the demo's gate with half the questions and one long prompt a depth, since a test run has no six minutes for one test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from tests.conftest import missing

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(1500)]

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "examples/demo-cpu"
QUESTIONS = 32


def servegate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "servegate", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1400, check=False)


def smaller(directory: Path) -> Path:
    """Write the demo's gate config with less work under absolute paths and return it."""
    config = yaml.safe_load((DEMO / "servegate.yaml").read_text())
    for arm in config["arms"].values():
        arm["config"] = str(DEMO / arm["config"])
    checks = config["checks"]
    (task,) = checks["accuracy"]["tasks"]
    task |= {"file": str(DEMO / task["file"]), "questions": QUESTIONS}
    checks["prompts"]["file"] = str(DEMO / checks["prompts"]["file"])
    checks["retrieval"]["prompts_per_depth"] = 1
    path = directory / "servegate.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One gate on the real engine; every test of this module reads its directory."""
    engine = os.environ.get("SERVEGATE_TEST_ENGINE") or missing("SERVEGATE_TEST_ENGINE (a vllm executable)")
    if not (ROOT / ".demo/smollm2-135m-instruct").exists():
        missing("the demo's model (`make engine`)")
    output = tmp_path_factory.mktemp("runs")
    done = servegate(
        "run", "--config", str(smaller(output)), "--candidate", str(DEMO / "serving/fp8-kv.yaml"),
        "--gate", "end-to-end", "--engine", engine, "--output", str(output),
    )  # fmt: skip
    assert done.returncode in {1, 3}, done.stdout + done.stderr
    return output / "end-to-end"


def document(run: Path, name: str) -> dict[str, Any]:
    return json.loads((run / name).read_text())


def test_the_engines_were_what_their_configs_say(run: Path) -> None:
    baseline, candidate = (document(run, f"arms/{arm}/engine.json") for arm in ("baseline", "candidate"))
    for engine in (baseline, candidate):
        assert engine["status"] == "ready"
        assert engine["data"]["version"].startswith("0.32.0")
        assert engine["data"]["device"] == "cpu"
        assert engine["data"]["max_model_len"] == 2048
    assert candidate["data"]["kv_cache_dtype"] == {"requested": "fp8", "resolved": "fp8"}
    assert candidate["data"]["kv_cache_tokens"] == 2 * baseline["data"]["kv_cache_tokens"]


def test_every_answer_is_there_twice_in_each_arm(run: Path) -> None:
    for arm in ("baseline", "candidate"):
        answers = document(run, f"arms/{arm}/prompts.json")["data"]["answers"]
        assert len({(answer["prompt_id"], answer["round"]) for answer in answers}) == 48
        assert all(answer["status"] in {"ok", "truncated"} for answer in answers)
    comparison = document(run, "comparisons/prompts.json")["data"]
    assert comparison["unpaired"] == {"baseline_only": 0, "candidate_only": 0, "hash_differs": 0}
    assert comparison["noise"]["baseline"] is not None
    assert comparison["noise"]["candidate"] is not None


def test_lm_eval_scored_every_question_of_both_arms_under_every_filter(run: Path) -> None:
    cut = set()
    for arm in ("baseline", "candidate"):
        data = document(run, f"arms/{arm}/accuracy.json")["data"]
        cut |= {answer["doc_id"] for answer in data["responses"] if answer["status"] == "truncated"}
        assert {answer["status"] for answer in data["responses"]} <= {"ok", "truncated"}
        assert len({(row["round"], row["doc_id"], row["filter"]) for row in data["rows"]}) == 2 * QUESTIONS * 2
        right = sum(row["score"] for row in data["rows"] if row["filter"] == "flexible-extract") / (2 * QUESTIONS)
        assert 0.1 < right < 0.9, "the model neither knows nothing nor everything, so flips are real"
    comparison = document(run, "comparisons/accuracy.json")["data"]
    assert comparison["n"] == QUESTIONS - len(cut), "an answer cut at its limit is neither right nor wrong"
    assert comparison["estimates"]["drop_against_candidate"]["n"] == QUESTIONS, "but it may count against the candidate"
    assert (
        comparison["estimates"]["drop"]["low"]
        < comparison["estimates"]["drop"]["value"]
        < comparison["estimates"]["drop"]["high"]
    )


def test_long_prompts_were_asked_since_the_kv_cache_changed(run: Path) -> None:
    for arm in ("baseline", "candidate"):
        answers = document(run, f"arms/{arm}/retrieval.json")["data"]["answers"]
        assert len({(answer["prompt_id"], answer["round"]) for answer in answers}) == 2 * 3
    assert document(run, "comparisons/retrieval.json")["data"]["unpaired"] == {
        "baseline_only": 0, "candidate_only": 0, "hash_differs": 0,
    }  # fmt: skip


def test_the_load_test_measured_and_speed_is_not_judged_on_a_cpu(run: Path) -> None:
    points = document(run, "arms/candidate/throughput.json")["data"]["points"]
    assert all(point["completed"] == 8 and point["failed"] == 0 for point in points)
    assert all(point["output_tokens_per_second"] > 0 for point in points)
    findings = document(run, "verdict.json")["data"]["findings"]
    assert [item["severity"] for item in findings if item["code"] == "throughput/not-judged-cpu"] == ["info"]


def test_a_smoke_sized_gate_is_not_a_pass_and_says_so(run: Path) -> None:
    verdict = document(run, "verdict.json")["data"]
    assert verdict["outcome"] in {"review", "fail"}
    assert "accuracy/smoke-test" in {item["code"] for item in verdict["findings"]}


def test_judging_and_reporting_again_gives_the_same_bytes(run: Path) -> None:
    def products() -> dict[str, bytes]:
        paths = [run / "verdict.json", *run.glob("comparisons/*"), *(run / "report").rglob("*")]
        return {str(path.relative_to(run)): path.read_bytes() for path in paths if path.is_file()}

    before = products()
    assert servegate("compare", str(run)).returncode in {1, 3}
    assert servegate("report", str(run)).returncode == 0
    after = products()
    assert [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)] == []
    assert servegate("verify", str(run)).returncode == 0


def test_nothing_of_the_engines_is_left(run: Path) -> None:
    for arm in ("baseline", "candidate"):
        name = next(word for word in document(run, f"arms/{arm}/engine.json")["data"]["argv"] if "served-model-name" in word)
        nonce = name.rpartition("-")[2]
        environments = (process.info["environ"] or {} for process in psutil.process_iter(["environ"]))
        assert nonce not in {environment.get("SERVEGATE_ARM") for environment in environments}
