"""`servegate calibrate` from the command line, on a fake engine that speaks vLLM's protocol."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from servegate.cli import main
from tests.integration.test_command_line import candidate, gate_in, here, nothing_left, servegate

__all__ = ["here"]  # the fixture


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gate that was run against itself twice: every start a little faster or slower, and answers that differ between rounds.

    Its tests share it, so each writes to places of its own.
    """
    here = gate_in(tmp_path_factory.mktemp("calibrated"))
    text = (here / "servegate.yaml").read_text()
    noise = 'environment: {FAKE_VLLM_DELAY_MS: "30-60", FAKE_VLLM_NOISE: "0.1"}, start_timeout_s'
    load = "  throughput: {input_tokens: 8, output_tokens: 8, concurrency: [4], judged_at: 4, windows: 2,"
    load += " requests_per_window: 8, single: null, limits: {foreign_cpu_share: 1}}\n"  # whatever else this machine does
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
    assert record["conditional"]["reason"].endswith("of prompts alone")
    if record["restart"] is None:  # other work on this machine: its speeds are void, and no spread is made up
        assert "fewer than two starts have valid speeds" in record["restart_reason"]
    else:
        assert record["restart"]["starts"] in (2, 4)
        assert record["restart"]["sd"] <= record["restart"]["upper"]
    shown = servegate(calibrated, "plan").stdout
    assert "this gate's own false-alarm record: 0 of 2 A/A runs, at most 78 %" in shown
    runs = calibrated / "servegate-runs/demo-calibration"
    done = servegate(calibrated, "calibrate", str(runs / "001"), str(runs / "002"), "--file", "again.json")
    assert done.returncode == 0, done.stderr
    again = json.loads((calibrated / "again.json").read_text())
    assert again == {**record, "runs": again["runs"]}  # judged again, without an engine


def test_a_report_shows_the_record_and_ignores_it_under_another_engine(calibrated: Path) -> None:
    done = servegate(calibrated, "run")
    assert done.returncode == 0, done.stdout + done.stderr  # it informs: the verdict is what it is without
    comment = calibrated / "servegate-runs/demo/report/comment.md"
    assert "own false-alarm record: 0 of 2" in comment.read_text()
    done = servegate(calibrated, "run", "--force", FAKE_VLLM_VERSION="0.33.0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is ignored: it was made under engine 0.32.0, here 0.33.0" in comment.read_text()
    assert "own false-alarm record" not in comment.read_text()


def test_what_is_no_independent_a_a_run_is_refused(
    calibrated: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert servegate(calibrated, "measure", "--arm", "baseline", "--output", "changed").returncode == 0
    first = "servegate-runs/demo-calibration/001"
    shutil.copytree(calibrated / first, calibrated / "copy")
    monkeypatch.chdir(calibrated)
    for arguments, said in (
        ((first, "copy"), "one run was given twice"),
        (("changed/demo",), "no A/A run: its arms differ in max-num-seqs"),
        (("servegate.yaml",), "--starts is missing"),
        (("servegate.yaml", "--starts", "3"), "an even number of at least 2, not 3"),
        (("nowhere",), "not a run directory"),
        ((first, "--starts", "2"), "go with a gate config"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(["calibrate", *arguments])
        stated = " ".join(capsys.readouterr().err.split())
        assert (ended.value.code, said in stated) == (2, True), stated


def test_a_false_alarm_is_counted_and_a_record_is_added_to(calibrated: Path) -> None:
    """Equal configs of which the second start breaks every contract: what the gate says of that run is a false alarm."""
    text = (calibrated / "servegate.yaml").read_text().replace("new.yaml", "old.yaml")
    (calibrated / "aa.yaml").write_text(text)
    (calibrated / "broken.json").write_text(json.dumps({"number": "no JSON at all"}))
    shutil.copy(calibrated / "calibration.json", calibrated / "grown.json")
    measure = ("measure", "--config", "aa.yaml", "--output", "alarm", "--arm")
    assert servegate(calibrated, *measure, "baseline").returncode == 0
    broken = str(calibrated / "broken.json")
    assert servegate(calibrated, *measure, "candidate", FAKE_VLLM_ANSWERS=broken).returncode == 0
    done = servegate(calibrated, "calibrate", "alarm/demo", "--file", "grown.json", "--add")
    assert done.returncode == 0, done.stderr  # the record was written, whatever it says
    assert "1 of 3 independent A/A runs; the rate is at most 86.5 % (exact 95 %) (prompts 1)" in done.stdout
    again = servegate(calibrated, "calibrate", "alarm/demo", "--file", "grown.json", "--add")
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
