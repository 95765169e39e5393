"""`servegate calibrate` from the command line, on a fake engine that speaks vLLM's protocol."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.integration.test_command_line import candidate, here, nothing_left, servegate

__all__ = ["here"]  # the fixture


@pytest.fixture
def calibrated(here: Path) -> Path:
    """A gate whose every start is a little faster or slower, and whose answers differ from round to round."""
    text = (here / "servegate.yaml").read_text()
    noise = 'environment: {FAKE_VLLM_DELAY_MS: "4-8", FAKE_VLLM_NOISE: "0.1"}, start_timeout_s'
    load = "  throughput: {input_tokens: 8, output_tokens: 4, concurrency: [4], judged_at: 4, windows: 2,"
    load += " requests_per_window: 4, single: null, limits: {foreign_cpu_share: 1}}\n"  # whatever else this machine does
    (here / "servegate.yaml").write_text(
        text.replace("start_timeout_s", noise, 1).replace("policy: quick", load + "policy: quick")
    )
    done = servegate(here, "calibrate", "servegate.yaml", "--starts", "4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 of 2 independent A/A runs; the rate is at most 77.6 %" in done.stdout
    assert nothing_left(here)
    return here


def test_a_gate_is_run_against_itself_and_tells_its_record(calibrated: Path) -> None:
    record = json.loads((calibrated / "calibration.json").read_text())
    assert (record["kind"], record["schema_version"]) == ("calibration", 1)
    assert record["false_alarms"]["runs"] == 2
    assert record["conditional"] == {**record["conditional"], "alarms": 0, "runs": 4, "upper": None}
    assert record["restart"]["starts"] == 4
    assert record["restart"]["sd"] <= record["restart"]["upper"]
    shown = servegate(calibrated, "plan").stdout
    assert "this gate's own false-alarm record: 0 of 2 A/A runs, at most 78 %" in shown
    done = servegate(calibrated, "run")
    assert done.returncode == 0, done.stdout + done.stderr  # it informs: the verdict is what it is without
    assert "own false-alarm record: 0 of 2" in (calibrated / "servegate-runs/demo/report/comment.md").read_text()
    done = servegate(calibrated, "run", "--force", FAKE_VLLM_VERSION="0.33.0")
    assert done.returncode == 0, done.stdout + done.stderr
    comment = (calibrated / "servegate-runs/demo/report/comment.md").read_text()
    assert "is ignored: it was made under engine 0.32.0, here 0.33.0" in comment
    assert "own false-alarm record" not in comment

    runs = calibrated / "servegate-runs/demo-calibration"
    done = servegate(calibrated, "calibrate", str(runs / "001"), str(runs / "002"), "--file", "again.json")
    assert done.returncode == 0, done.stderr
    again = json.loads((calibrated / "again.json").read_text())
    assert again == {**record, "runs": again["runs"]}  # judged again, without an engine
    shutil.copytree(runs / "001", calibrated / "copy")
    for arguments, said in (
        ((str(runs / "001"), str(calibrated / "copy")), "one run was given twice"),
        (("servegate-runs/demo",), "no A/A run: its arms differ in max-num-seqs"),
        (("servegate.yaml",), "--starts is missing"),
        (("servegate.yaml", "--starts", "3"), "an even number of at least 2, not 3"),
        (("nowhere",), "not a run directory"),
        ((str(runs / "001"), "--starts", "2"), "go with a gate config"),
    ):
        done = servegate(calibrated, "calibrate", *arguments)
        assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_a_false_alarm_is_counted_and_a_record_is_added_to(calibrated: Path) -> None:
    """Equal configs of which the second start breaks every contract: what the gate says of that run is a false alarm."""
    text = (calibrated / "servegate.yaml").read_text().replace("new.yaml", "old.yaml")
    (calibrated / "servegate.yaml").write_text(text)
    (calibrated / "broken.json").write_text(json.dumps({"number": "no JSON at all"}))
    assert servegate(calibrated, "measure", "--arm", "baseline").returncode == 0
    broken = str(calibrated / "broken.json")
    assert servegate(calibrated, "measure", "--arm", "candidate", FAKE_VLLM_ANSWERS=broken).returncode == 0
    done = servegate(calibrated, "calibrate", "servegate-runs/demo", "--add")
    assert done.returncode == 0, done.stderr  # the record was written, whatever it says
    assert "1 of 3 independent A/A runs; the rate is at most 86.5 % (exact 95 %) (prompts 1)" in done.stdout
    again = servegate(calibrated, "calibrate", "servegate-runs/demo", "--add")
    assert "1 of 3 independent A/A runs" in again.stdout  # the same run is no second run


def test_a_broken_engine_has_no_rate(here: Path) -> None:
    text = (here / "servegate.yaml").read_text()
    broken = text.replace("start_timeout_s", "environment: {FAKE_VLLM_FAULT: die-at-start}, start_timeout_s", 1)
    (here / "servegate.yaml").write_text(broken)
    done = servegate(here, "calibrate", "servegate.yaml", "--starts", "4")
    assert done.returncode == 5, done.stdout + done.stderr
    assert "nothing more is started" in done.stderr
    assert not (here / "calibration.json").exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "is not JSON"), ("{}", "no calibration"), ('{"kind": "calibration", "schema_version": 9}', "schema version 9")],
)
def test_a_damaged_record_is_named_and_calibrate_replaces_it(here: Path, content: str, said: str) -> None:
    (here / "calibration.json").write_text(content)
    done = servegate(here, "plan")
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr


def test_the_candidate_of_the_gate_is_not_started(here: Path) -> None:
    candidate(here, "die-at-start")
    done = servegate(here, "calibrate", "servegate.yaml", "--starts", "2")
    assert done.returncode == 0, done.stdout + done.stderr
