"""A run that was cancelled, lost or never begun leaves a comment and a check run that say so, never yesterday's PASS.

The real command, the real client, and the stateful replica of GitHub.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from servegate.artifacts import RunDirectory, dump
from servegate.cli import _code
from servegate.domain.plan import Origin
from servegate.publish import remote
from servegate.publish.event import Run
from servegate.publish.marks import Shown
from servegate.publish.outputs import FIGURES, UNKNOWN
from servegate.publish.pull_request import connect
from tests.fakes.github import REPOSITORY, Replica
from tests.unit.publish.test_workflow_commands import runner_outputs
from tests.unit.samples import engine_facts, manifest, plan

SETTINGS = {"publish.check_run": {"value": True, "source": "default"}}


@pytest.fixture
def replica(shared_replica: Replica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Replica:
    shared_replica.reset()
    (tmp_path / "event.json").write_text(json.dumps(shared_replica.event()))
    variables = {
        **shared_replica.network(),
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_RUN_ID": "100",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_TOKEN": shared_replica.tokens["bot"],
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(remote, "connect", lambda url, token: connect(url, token, pause_s=0))
    return shared_replica


def written(root: Path, head: str, status: str = "complete", gate: str = "demo") -> Path:
    """Write a run whose arms both started; no check is on, so it is a REVIEW when it is judged."""
    origin = Origin(base="a" * 40, merge_base="a" * 40, head=head, baseline_path="s.yaml", candidate_path="s.yaml")
    run, made = RunDirectory.create(root), plan(gate=gate, origin=origin, settings=SETTINGS)
    stages = [{"stage": "start", "arm": "baseline", "check": None, "seconds": 31.4, "outcome": "<b>@all</b>"}]
    run.write_run("running", {}, gate=made.gate, plan=made.fingerprint())
    run.write_plan(made)
    for role in ("baseline", "candidate"):
        run.write_engine(made, role, engine_facts(role, kv_cache_tokens=1000 if role == "baseline" else 1900))
        run.write_manifest(made, role, manifest())
    run.write_run(status, {"stages": stages}, gate=made.gate, plan=made.fingerprint())
    run.write_checksums()
    return root


def passed(root: Path) -> None:
    """Leave what an earlier run of the same folder left: a PASS and its comment."""
    assert _code(["compare", str(root)]) == 3
    assert _code(["report", str(root)]) == 0
    verdict = json.loads((root / "verdict.json").read_text())
    verdict["data"]["outcome"] = "pass"
    (root / "verdict.json").write_text(json.dumps(verdict))
    (root / "report/comment.md").write_text("**PASS** of an earlier run\n")


def test_a_cancelled_run_takes_the_place_of_an_older_pass(replica: Replica, tmp_path: Path) -> None:
    _, head = replica.commits()
    root = written(tmp_path / "run", head)
    passed(root)
    assert _code(["publish", str(root)]) == 0
    assert "PASS" in replica.comments()[0]["body"]
    assert replica.check_runs()[0]["conclusion"] == "success"
    # The next run of the same folder is cancelled in the middle, with the old verdict still lying there.
    made = RunDirectory.open(root)
    data = made.read_run().data
    made.write_run("cancelled", data, gate="demo", plan=made.read_plan().fingerprint())
    os.environ["GITHUB_RUN_ID"] = "101"
    (tmp_path / "output").unlink()
    assert _code(["publish", str(root), "--ended", "cancelled"]) == 0
    [comment] = replica.comments()
    assert "PASS" not in comment["body"]
    assert "NOT EVALUATED: `demo`" in comment["body"]
    assert "The run was cancelled, or its time was up, before there was a verdict." in comment["body"]
    assert " 101.1 -->" in comment["body"]
    assert "baseline start: &lt;b&gt;@\u200ball&lt;/b&gt;, 31 s" in comment["body"]
    [check] = replica.check_runs()
    assert check["conclusion"] == "cancelled"
    assert check["output"]["title"].startswith("error: not evaluated")
    assert not (tmp_path / "output").exists(), "without a verdict there is nothing to branch on"
    assert "NOT EVALUATED" in (tmp_path / "summary.md").read_text()


@pytest.mark.parametrize(
    ("status", "told", "said"),
    [
        ("cancelled", None, "was cancelled"),
        ("failed", "failure", "broke off"),
        ("running", "failure", "was killed or lost its machine"),
        ("running", "cancelled", "was cancelled"),
        ("complete", "failure", "broke off"),
    ],
)
def test_a_record_without_a_verdict_is_told(replica: Replica, tmp_path: Path, status: str, told: str | None, said: str) -> None:
    _, head = replica.commits()
    root = written(tmp_path / "run", head, status)
    assert _code(["publish", str(root), *(["--ended", told] if told else [])]) == 0
    assert said in replica.comments()[0]["body"]
    assert replica.check_runs()[0]["conclusion"] in {"cancelled", "failure"}


def test_a_finished_run_that_nobody_judged_is_an_error_where_nobody_says_that_it_broke(
    replica: Replica, tmp_path: Path, capsys: Any
) -> None:
    root = written(tmp_path / "run", replica.commits()[1])
    assert _code(["publish", str(root)]) == 2
    assert "servegate report" in capsys.readouterr().err
    assert replica.comments() == []


def test_a_run_that_left_nothing_is_told_under_the_gate_that_was_named(replica: Replica, tmp_path: Path, capsys: Any) -> None:
    assert _code(["publish", str(tmp_path / "nothing"), "--ended", "cancelled", "--gate", "demo"]) == 0
    assert "<!-- servegate:demo -->" in replica.comments()[0]["body"]
    assert [(check["name"], check["conclusion"]) for check in replica.check_runs()] == [("servegate/demo", "cancelled")]
    assert _code(["publish", str(tmp_path / "nothing")]) == 2
    assert "is not a run directory" in capsys.readouterr().err
    assert _code(["publish", str(tmp_path / "nothing"), "--ended", "failure", "--gate", "x -->"]) == 2


def index(
    folder: Path, head: str, *gates: str, left: dict[str, str] | None = None, also: dict[str, list[str]] | None = None
) -> Path:
    watched = {"files": "serving/*.yaml", "arguments": None, "environment": None, "document": None}
    pairs = [{"before": f"serving/{g}.yaml", "after": f"serving/{g}.yaml", "gate": g, "watched": watched} for g in gates]
    others = [{"path": path, "code": "budget", "reason": why, "weight": "review"} for path, why in (left or {}).items()]
    data = {
        "kind": "index", "schema_version": 1, "base": "a" * 40, "merge_base": "a" * 40, "head": head, "judged_by": "base",
        "rules_changed": [], "pairs": pairs, "also": also or {}, "not_measured": others,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "index.json").write_bytes(dump(data))
    return folder


def test_of_several_gates_the_one_that_was_cancelled_keeps_the_whole_from_passing(replica: Replica, tmp_path: Path) -> None:
    _, head = replica.commits()
    folder = index(tmp_path / "runs", head, "a", "b", "c")
    passed(written(folder / "a", head, gate="a"))
    written(folder / "b", head, "cancelled", gate="b")
    assert _code(["publish", str(folder), "--ended", "cancelled"]) == 0
    bodies = {body.split("servegate:")[1].split(" ")[0]: body for body in (each["body"] for each in replica.comments())}
    assert set(bodies) == {"a", "b", "all-serving-configs"}, "no comment is made for what was not begun"
    assert "was cancelled" in bodies["b"]
    whole = bodies["all-serving-configs"]
    assert "2 of 3 changed serving configs were not measured" in whole
    assert "✅ **PASS** `serving/a.yaml`" in whole
    checks = {check["name"]: check["conclusion"] for check in replica.check_runs()}
    assert checks["servegate/all-serving-configs"] == "failure"
    assert checks["servegate/b"] == checks["servegate/c"] == "cancelled"
    outputs = runner_outputs((tmp_path / "output").read_text())
    assert outputs["verdict"] == "error"
    assert outputs["report-path"] == f"{folder}/a/report/report.html"
    assert outputs["kv-cache-ratio"] == "1.9", "one run was measured, so its figures are the step's"


def test_a_config_over_the_budget_loses_its_older_pass_and_is_a_review(replica: Replica, tmp_path: Path) -> None:
    _, head = replica.commits()
    passed(written(tmp_path / "old", head, gate="b"))
    assert _code(["publish", str(tmp_path / "old")]) == 0
    os.environ["GITHUB_RUN_ID"] = "101"
    why = "was not started: `changes.budget_minutes: 1` would not hold it"
    folder = index(tmp_path / "runs", head, "b", left={"serving/b.yaml": why})
    assert _code(["publish", str(folder), "--neutral", "review,not_comparable"]) == 0
    bodies = "".join(each["body"] for each in replica.comments())
    assert "PASS" not in bodies
    assert bodies.count("was not started") >= 2
    checks = {check["name"]: check["conclusion"] for check in replica.check_runs()}
    assert checks == {"servegate/b": "action_required", "servegate/all-serving-configs": "action_required"}, (
        "neutral is for verdicts"
    )
    outputs = runner_outputs((tmp_path / "output").read_text().rpartition("verdict<<")[2].join(["verdict<<", ""]))
    assert outputs["verdict"] == "review"
    assert all(outputs[name] == UNKNOWN for name in FIGURES)


@pytest.mark.parametrize(("left", "outcome"), [({}, "ERROR"), ({"serving/b.yaml": "was not started"}, "REVIEW")])
def test_a_config_that_equals_one_that_was_not_measured_is_counted_too(
    replica: Replica, tmp_path: Path, left: dict[str, str], outcome: str
) -> None:
    folder = index(tmp_path / "runs", replica.commits()[1], "b", left=left, also={"b": ["serving/same.yaml"]})
    assert _code(["publish", str(folder), "--ended", "failure"]) == 0
    [whole] = [each["body"] for each in replica.comments()]
    assert "2 of 2 changed serving configs were not measured" in whole
    assert f"{outcome}: serving configs of this pull request" in whole


def damage(run: Path, how: str) -> None:
    """Damage a judged run as a disk, a stranger or a mistake does."""
    if how == "run.json":
        (run / "run.json").write_text("{")
    elif how == "plan.json":
        (run / "plan.json").write_text(json.dumps({"kind": "plan"}))
    elif how == "verdict.json":
        (run / "verdict.json").write_text('{"data": NaN}')
    elif how == "evidence":
        (run / "arms/candidate/engine.json").write_text("{}")
    elif how == "link":
        (run / "arms/candidate/x").symlink_to("/etc/passwd")
    elif how == "gate":
        record = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps({**record, "gate": "a"}))


@pytest.mark.parametrize("how", ["run.json", "plan.json", "verdict.json", "evidence", "link", "gate"])
@pytest.mark.parametrize("gates", [("b", "c"), ("c", "b")])
def test_one_damaged_run_is_an_error_in_its_place_and_the_others_are_published(
    replica: Replica, tmp_path: Path, how: str, gates: tuple[str, str], capsys: Any
) -> None:
    _, head = replica.commits()
    folder = index(tmp_path / "runs", head, *gates)
    for gate in gates:
        passed(written(folder / gate, head, gate=gate))
    damage(folder / "b", how)
    assert _code(["publish", str(folder)]) == 2
    bodies = {body.split("servegate:")[1].split(" ")[0]: body for body in (each["body"] for each in replica.comments())}
    assert "**PASS** of an earlier run" in bodies["c"]
    assert "NOT EVALUATED: `b`" in bodies["b"]
    assert "Its run can not be read: " in bodies["b"]
    assert "1 of 2 changed serving configs were not measured: serving/b.yaml" in bodies["all-serving-configs"]
    assert "ERROR: serving configs of this pull request" in bodies["all-serving-configs"]
    checks = {check["name"]: check["conclusion"] for check in replica.check_runs()}
    assert checks == {"servegate/b": "failure", "servegate/c": "success", "servegate/all-serving-configs": "failure"}
    outputs = runner_outputs((tmp_path / "output").read_text())
    assert (outputs["verdict"], outputs["may-merge"]) == ("error", "false")
    assert capsys.readouterr().err.count("servegate: ") <= 1


@pytest.mark.parametrize("how", ["run.json", "plan.json", "verdict.json", "evidence", "link"])
def test_a_single_run_that_is_damaged_takes_its_older_pass_away(replica: Replica, tmp_path: Path, how: str) -> None:
    root = written(tmp_path / "run", replica.commits()[1])
    passed(root)
    assert _code(["publish", str(root), "--gate", "demo"]) == 0
    assert "PASS" in replica.comments()[0]["body"]
    damage(root, how)
    os.environ["GITHUB_RUN_ID"] = "101"
    (tmp_path / "output").unlink()
    assert _code(["publish", str(root), "--gate", "demo"]) == 2
    [comment] = replica.comments()
    assert "NOT EVALUATED: `demo`" in comment["body"]
    assert [check["conclusion"] for check in replica.check_runs()] == ["failure"]
    assert not (tmp_path / "output").exists()


def test_a_damaged_run_that_still_says_its_gate_takes_that_gates_pass_away(replica: Replica, tmp_path: Path) -> None:
    """The workflow need not name the gate: the record of the run does, whatever else is damaged."""
    root = written(tmp_path / "run", replica.commits()[1])
    passed(root)
    assert _code(["publish", str(root)]) == 0
    damage(root, "evidence")
    os.environ["GITHUB_RUN_ID"] = "101"
    assert _code(["publish", str(root)]) == 2
    [comment] = replica.comments()
    assert "NOT EVALUATED: `demo`" in comment["body"]
    assert [(check["name"], check["conclusion"]) for check in replica.check_runs()] == [("servegate/demo", "failure")]


def test_a_run_of_another_commit_brings_no_pass_into_the_overview(replica: Replica, tmp_path: Path) -> None:
    _, head = replica.commits()
    folder = index(tmp_path / "runs", head, "a")
    passed(written(folder / "a", "d" * 40, gate="a"))
    assert _code(["publish", str(folder)]) == 2
    bodies = "".join(each["body"] for each in replica.comments())
    assert "PASS" not in bodies
    assert "about the commit dddddddddddd" in bodies
    assert {check["conclusion"] for check in replica.check_runs()} == {"failure"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pairs": 3}, "pairs"), ({"also": []}, "also"), ({"head": None}, "head"), ({"rules_changed": [1]}, "rules_changed"),
        ({"judged_by": "me"}, "judged_by"), ({"not_measured": [{"path": "x"}]}, "not_measured.0"),
        ({"pairs": [{"gate": "../../x", "before": "a", "after": "a", "watched": {"files": "*"}}]}, "no gate id"),
        ({"pairs": [{"gate": "x -->", "before": "a", "after": "a", "watched": {"files": "*"}}]}, "no gate id"),
        ({"pairs": [{"gate": "a", "before": "a", "after": n, "watched": {"files": "*"}} for n in "ab"]}, "twice"),
        ({"pairs": [{"gate": f"a{n}", "before": "", "after": "", "watched": {"files": "*"}} for n in range(101)]}, "than 100"),
    ],
)  # fmt: skip
def test_a_damaged_index_is_one_clear_error(
    replica: Replica, tmp_path: Path, change: dict[str, Any], said: str, capsys: Any
) -> None:
    folder = index(tmp_path / "runs", replica.commits()[1], "a")
    record = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps({**record, **change}))
    assert _code(["publish", str(folder)]) == 2
    assert said in capsys.readouterr().err
    assert "NOT EVALUATED: `all-serving-configs`" in replica.comments()[0]["body"]
    assert [check["conclusion"] for check in replica.check_runs()] == ["failure"]


def test_a_job_cancelled_before_it_knew_what_changed_leaves_no_older_commits_pass(replica: Replica, tmp_path: Path) -> None:
    """A check run stands on its commit, so the new one has none; a comment stands on the pull request, whatever its head."""
    for gate in ("a", "b"):
        replica.comment_as("bot", f"{Shown(gate, 'd' * 40, Run(90, 1), 'e' * 64).lines()}## \u2705 PASS: {gate}\n")
    assert _code(["publish", str(tmp_path / "nothing"), "--ended", "cancelled"]) == 0
    bodies = [each["body"] for each in replica.comments()]
    assert len(bodies) == 3
    assert "PASS" not in "".join(bodies)
    assert [body.partition("## ")[2].split("`")[0] for body in bodies] == [
        "\u23f3 OUTDATED: ", "\u23f3 OUTDATED: ", "\u23f9\ufe0f NOT EVALUATED: ",
    ]  # fmt: skip
    assert {check["name"]: check["conclusion"] for check in replica.check_runs()} == {
        "servegate/all-serving-configs": "cancelled"
    }


def test_a_serving_config_that_the_newest_commit_no_longer_changes_loses_its_old_fail(replica: Replica, tmp_path: Path) -> None:
    _, head = replica.commits()
    replica.comment_as("bot", f"{Shown('reverted', 'd' * 40, Run(90, 1)).lines()}## FAIL\n")
    folder = index(tmp_path / "runs", head, "a")
    passed(written(folder / "a", head, gate="a"))
    assert _code(["publish", str(folder)]) == 0
    assert "OUTDATED: `reverted`" in replica.comments()[0]["body"]
    assert "PASS" in replica.comments()[1]["body"]


def test_another_workflows_verdict_is_not_believed_where_its_own_comment_is_refused(
    replica: Replica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that names another commit than the event is not published, and must not bring its PASS into the overview."""
    _, head = replica.commits()
    folder = index(tmp_path / "runs", head, "a")
    passed(written(folder / "a", "d" * 40, gate="a"))
    run = {"head_sha": head, "head_branch": "feat/x", "head_repository": {"full_name": REPOSITORY}, "pull_requests": []}
    (tmp_path / "event.json").write_text(json.dumps({"workflow_run": run}))
    monkeypatch.setenv("GITHUB_EVENT_NAME", "workflow_run")
    assert _code(["publish", str(folder)]) == 2
    assert "PASS" not in "".join(each["body"] for each in replica.comments())
    assert {check["conclusion"] for check in replica.check_runs()} == {"failure"}


@pytest.mark.parametrize(
    ("neutral", "conclusion"), [("none", "action_required"), ("review", "neutral"), ("not_comparable", "action_required")]
)
def test_neutral_is_given_by_the_command_line_alone(replica: Replica, tmp_path: Path, neutral: str, conclusion: str) -> None:
    root = written(tmp_path / "run", replica.commits()[1])
    _code(["compare", str(root)])
    _code(["report", str(root)])
    assert _code(["publish", str(root), "--neutral", neutral]) == 0
    assert [check["conclusion"] for check in replica.check_runs()] == [conclusion]


@pytest.mark.parametrize("status", ["cancelled", "failed"])
def test_a_run_that_did_not_end_is_never_neutral(replica: Replica, tmp_path: Path, status: str) -> None:
    """Its verdict is a REVIEW because evidence is missing: whoever lets reviews merge did not mean a job cut short."""
    head = replica.commits()[1]
    folder = index(tmp_path / "runs", head, "demo")
    run = written(folder / "demo", head, status)
    _code(["compare", str(run)])
    _code(["report", str(run)])
    assert _code(["publish", str(folder), "--neutral", "review"]) == 0
    assert {check["conclusion"] for check in replica.check_runs()} == {"action_required"}


@pytest.mark.parametrize("neutral", ["pass", "fail", "error", "review,fail", ""])
def test_neutral_is_for_review_and_not_comparable(replica: Replica, tmp_path: Path, neutral: str, capsys: Any) -> None:
    assert _code(["publish", str(tmp_path), "--neutral", neutral]) == 2
    assert "Allowed: none" in capsys.readouterr().err
