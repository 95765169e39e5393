"""Each arm measured into a folder of its own, then joined: the same verdict, and nothing of the other side is believed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servegate.artifacts import dump
from servegate.changes import NotMeasured, Pair, Watched
from servegate.pipeline.changing import INDEX, Index, read_index
from tests.integration.test_command_line import candidate, gate_in, nothing_left, servegate


def document(run: Path, name: str) -> dict[str, Any]:
    return json.loads((run / name).read_text())


@pytest.fixture(scope="module")
def arms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both arms measured as the action does it: the candidate in a copy of the baseline's output."""
    here = gate_in(tmp_path_factory.mktemp("arms"))
    assert servegate(here, "measure", "--arm=baseline", "--output=output").returncode == 0
    shutil.copytree(here / "output", here / "baseline")
    done = servegate(here, "measure", "--arm=candidate", "--output=output")
    assert done.returncode == 0, done.stderr
    (here / "output").rename(here / "candidate")
    assert nothing_left(here)
    return here


def joined(here: Path, output: Path, other: Path | None = None) -> Path:
    done = servegate(here, "join", "--baseline=baseline", f"--candidate={other or here / 'candidate'}", f"--output={output}")
    assert done.returncode == 0, done.stderr
    return output / "demo"


def test_the_joined_run_is_judged_as_one_that_was_measured_at_once(arms: Path, tmp_path: Path) -> None:
    run = joined(arms, tmp_path / "runs")
    assert servegate(arms, "verify", str(run)).returncode == 0
    assert servegate(arms, "compare", str(run)).returncode == 0
    assert servegate(arms, "report", str(run)).returncode == 0
    assert document(run, "verdict.json")["data"]["outcome"] == "pass"
    record = document(run, "run.json")
    assert record["status"] == "complete"
    measured = {(stage["arm"], stage["check"]) for stage in record["data"]["stages"] if stage["stage"] == "measure"}
    assert measured == {("baseline", "prompts"), ("candidate", "prompts")}
    assert len(record["data"]["stages"]) == 2 * 4, "start, two rounds and stop of each arm, none of them twice"
    assert [each["arm"] for each in record["data"]["merged_from"]] == ["candidate"]


def forged(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_bytes(dump(value))


def test_nothing_but_its_arm_is_taken_of_the_other_side(arms: Path, tmp_path: Path) -> None:
    """Everything else that the candidate's container could write is written: nothing of it arrives."""
    other = tmp_path / "other"
    shutil.copytree(arms / "candidate", other)
    run = other / "demo"
    for path in [*(run / "arms/baseline").glob("*.*"), *(run / "inputs").glob("*")]:
        path.write_text("written by the candidate's engine")
    (run / "verdict.json").write_text('{"outcome": "pass"}')
    (run / "checksums.sha256").unlink()
    (run / "report").mkdir()
    (run / "report/report.html").write_text("all is well")

    def lie(value: dict[str, Any]) -> None:
        value["status"] = "complete"
        value["data"]["stages"] += [{"stage": "measure", "arm": "baseline", "check": "accuracy", "outcome": "done", "x": 1}, 7]
        value["data"]["git"] = {"head": "f" * 40}

    forged(run / "run.json", lie)
    made = joined(arms, tmp_path / "runs", other)
    files = {path.relative_to(made).as_posix() for path in made.rglob("*") if path.is_file()}
    assert not [name for name in files if name.startswith(("verdict", "report"))]
    assert "written by the candidate" not in "".join(
        path.read_text(errors="replace") for path in made.rglob("*") if path.is_file()
    )
    assert (made / "arms/candidate/serving.yaml").read_text() == (arms / "new.yaml").read_text()
    for name in ("arms/baseline/prompts.json", "arms/baseline/prompts.npz", "inputs/prompts.json", "plan.json"):
        assert (made / name).read_bytes() == (arms / "baseline/demo" / name).read_bytes()
    record = document(made, "run.json")["data"]
    assert "accuracy" not in {stage["check"] for stage in record["stages"]}
    assert record["git"] == document(arms / "baseline/demo", "run.json")["data"]["git"]
    assert servegate(arms, "compare", str(made)).returncode == 0


def a_link(run: Path) -> None:
    (run / "arms/candidate/prompts.json").unlink()
    (run / "arms/candidate/prompts.json").symlink_to("/etc/passwd")


def another_plan(run: Path) -> None:
    forged(run / "plan.json", lambda value: value["data"].update(rounds=3))


def no_record(run: Path) -> None:
    (run / "run.json").unlink()


def itself_a_link(run: Path) -> None:
    real = run.with_name("real")
    run.rename(real)
    run.symlink_to(real)


def another_serving_config(run: Path) -> None:
    (run / "arms/candidate/serving.yaml").write_text("model: another/model\n")


@pytest.mark.parametrize("damage", [a_link, another_plan, another_serving_config, no_record, itself_a_link])
def test_a_side_that_can_not_be_believed_is_left_out_and_is_no_pass(arms: Path, tmp_path: Path, damage: Any) -> None:
    other = tmp_path / "other"
    shutil.copytree(arms / "candidate", other)
    damage(other / "demo")
    made = joined(arms, tmp_path / "runs", other)
    assert not (made / "arms/candidate/prompts.json").exists()
    assert document(made, "run.json")["status"] == "failed"
    assert servegate(arms, "compare", str(made)).returncode in (3, 4, 5)
    assert document(made, "verdict.json")["data"]["outcome"] != "pass"


def test_a_candidate_whose_container_never_started_leaves_no_complete_run(arms: Path, tmp_path: Path) -> None:
    """Its folder is then the copy of the baseline's that it was given to read, whose record says complete."""
    made = joined(arms, tmp_path / "runs", arms / "baseline")
    assert document(made, "run.json")["status"] == "failed"
    assert servegate(arms, "compare", str(made)).returncode == 3


def test_a_cancelled_candidate_leaves_a_cancelled_run(arms: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(arms / "candidate", other)
    forged(other / "demo/run.json", lambda value: value.update(status="cancelled"))
    made = joined(arms, tmp_path / "runs", other)
    assert document(made, "run.json")["status"] == "cancelled"
    assert servegate(arms, "compare", str(made)).returncode == 3


def test_no_candidate_is_started_after_a_baseline_that_failed(tmp_path: Path) -> None:
    here = gate_in(tmp_path)
    candidate(here, "none")
    text = (here / "servegate.yaml").read_text()
    fault = "{config: old.yaml, environment: {FAKE_VLLM_FAULT: die-at-start}}"
    (here / "servegate.yaml").write_text(text.replace("{config: old.yaml}", fault))
    servegate(here, "measure", "--arm=baseline", "--output=one")
    done = servegate(here, "measure", "--arm=candidate", "--output=one")
    assert done.returncode == 0, done.stderr
    run = here / "one/demo"
    assert not (run / "arms/candidate/server.log").exists(), "nothing was started"
    reason = document(run, "arms/candidate/prompts.json")["reason"]
    assert reason == {"code": "engine_failed", "message": "not started, since the baseline engine failed"}
    assert servegate(here, "compare", str(run)).returncode == 5


def an_index(*not_measured: NotMeasured) -> Index:
    watched = Watched(files="serving/*.yaml")
    pairs = tuple(Pair(f"team-{name}", f"{name}.yaml", f"{name}.yaml", watched) for name in "ab")
    return Index("b" * 40, "b" * 40, "c" * 40, "base", (), pairs, {}, not_measured)


def test_an_index_takes_what_a_side_could_not_measure_and_nothing_away(tmp_path: Path) -> None:
    for name in ("pairs", "baseline", "candidate"):
        (tmp_path / name).mkdir()
    equal = NotMeasured("c.yaml", "equal", "changes nothing")
    (tmp_path / "pairs" / INDEX).write_bytes(dump(an_index(equal).to_json()))
    late = NotMeasured("b.yaml", "budget", "was not started")
    (tmp_path / "baseline" / INDEX).write_bytes(dump(an_index(equal, late).to_json()))
    gone = {**an_index().to_json(), "pairs": [], "rules_changed": [], "head": "d" * 40}
    (tmp_path / "candidate" / INDEX).write_bytes(dump(gone))
    words = ["join", *(f"--{name}={tmp_path / name}" for name in ("baseline", "candidate", "pairs"))]
    assert servegate(tmp_path, *words, f"--output={tmp_path / 'runs'}").returncode == 0
    index = read_index(tmp_path / "runs")
    assert [pair.gate for pair in index.pairs] == ["team-a", "team-b"]
    assert index.not_measured == (equal, late)
    assert index.head == "c" * 40
    lost = NotMeasured("a.yaml", "failed", "the card stayed busy", "failed")
    (tmp_path / "candidate" / INDEX).write_bytes(dump(an_index(equal, lost).to_json()))
    assert servegate(tmp_path, *words, f"--output={tmp_path / 'runs'}").returncode == 0
    assert read_index(tmp_path / "runs").not_measured == (equal, late, lost), "a lost machine is an error, not forgotten"
    (tmp_path / "candidate" / INDEX).write_text('{"pairs": 7}')
    assert servegate(tmp_path, *words, f"--output={tmp_path / 'runs'}").returncode == 0
    assert read_index(tmp_path / "runs").not_measured == (equal, late)


def test_an_output_without_a_run_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    done = servegate(tmp_path, "join", "--baseline=a", "--candidate=a", "--output=o")
    assert done.returncode == 2
    assert done.stderr.startswith("error: a holds no run")


def test_two_images_are_never_measured_by_one_process(tmp_path: Path) -> None:
    here = gate_in(tmp_path)
    done = servegate(here, "measure", "--images", "engine:1", "engine:2")
    assert done.returncode == 2
    assert done.stderr.startswith("error: the arms have container images of their own")
    assert not (here / "servegate-runs").exists()
    assert servegate(here, "measure", "--arm=baseline", "--images", "engine:1", "engine:2").returncode == 0
    plan = document(here / "servegate-runs/demo", "plan.json")["data"]
    assert {"name": "engine.image", "baseline": "engine:1", "candidate": "engine:2", "source": "gate config"} in plan["knobs"]


ATTACKER = """\
#!/bin/sh
case "$*" in
  *demo-candidate-*) for file in 'RUN'/arms/baseline/*.json; do sed -i s/number/nomber/ "$file"; done ;;
esac
exec 'FAKE' "$@"
"""


def test_one_process_that_measures_both_notices_what_it_can_not_prevent(tmp_path: Path) -> None:
    """The candidate's engine edits the baseline's answers while it is served, and leaves them valid JSON."""
    here = gate_in(tmp_path)
    vllm, run = here / "bin/vllm", here / "servegate-runs/demo"
    vllm.rename(here / "bin/fake")
    vllm.write_text(ATTACKER.replace("RUN", str(run)).replace("FAKE", str(here / "bin/fake")))
    vllm.chmod(0o755)
    (here / "answers.json").write_text(json.dumps({f"number {n}.": json.dumps({"number": n}) for n in reversed(range(24))}))
    done = servegate(here, "run")
    assert done.returncode == 5, done.stdout + done.stderr
    assert "arms/baseline/prompts.json was changed after its arm was measured" in done.stderr
    assert document(run, "run.json")["status"] == "failed"
    assert servegate(here, "compare", str(run)).returncode in (3, 5)
    assert document(run, "verdict.json")["data"]["outcome"] != "pass"


def test_measuring_an_arm_anew_leaves_no_verdict_of_the_arm_before(arms: Path) -> None:
    run = joined(arms, arms / "output")  # the plan that was measured names this output
    try:
        for verb in ("compare", "report"):
            assert servegate(arms, verb, str(run)).returncode == 0
        assert document(run, "verdict.json")["data"]["outcome"] == "pass"
        again = servegate(arms, "measure", "--arm=candidate", "--output=output")
        assert again.returncode == 0, again.stderr
        assert [name for name in ("verdict.json", "report", "comparisons") if (run / name).exists()] == []
        published = servegate(arms, "publish", str(run))
        assert published.returncode == 2
        assert "servegate report" in published.stderr
        assert servegate(arms, "verify", str(run)).returncode == 0
    finally:
        shutil.rmtree(run.parent)
