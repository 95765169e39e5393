"""The action, really run by `act`: workflow -> composite steps -> `docker run` -> image -> comment on the GitHub replica.

What act can not show: GitHub's own runner, its upload of artifacts (a stub stands in for that action) and a GPU.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.conftest import missing
from tests.end_to_end.acting import Act, commit, left_behind
from tests.end_to_end.conftest import command
from tests.fakes.github import Replica

pytestmark = [pytest.mark.service, pytest.mark.timeout(1800)]


def test_two_runs_of_a_pull_request_leave_one_updated_comment(
    act: Act, replica: Replica, docker: dict[str, str], made_run: Path
) -> None:
    workspace = act.workspace
    shutil.copytree(made_run, workspace / "measured")
    lenient = {"run": "measured", "fail-on": "fail,not_comparable,error"}
    first = act.run(lenient, 7)
    assert first.code == 0, first.log
    [comment] = replica.comments()
    assert comment["user"] == "bot"
    assert " 7.1 -->" in comment["body"]
    assert "REVIEW" in comment["body"]
    assert first.outputs["verdict"] == "review"
    assert first.outputs["report-path"].endswith("/report/report.html")
    assert re.search(r"Summary - # .*REVIEW", first.log), "act shows the step summary that it was given"
    assert "uploaded servegate-run ./run/verdict.json" in first.log
    assert "uploaded servegate-run ./run/report/report.html" in first.log

    second = act.run(lenient, 8)
    assert second.code == 0, second.log
    [updated] = replica.comments()
    assert updated["id"] == comment["id"]
    assert " 8.1 -->" in updated["body"]

    # By default REVIEW fails the job; the exit code is the verdict's.
    strict = act.run({"run": "measured", "comment": "false"}, 9)
    assert strict.code != 0
    assert "exit status 3" in strict.log
    assert " 8.1 -->" in replica.comments()[0]["body"]

    for done in (first, second, strict):
        assert replica.tokens["bot"] not in done.log
    assert left_behind(docker, 7, 8, 9) == []
    assert {path.stat().st_uid for path in workspace.rglob("*")} == {os.getuid()}


def test_what_could_not_be_measured_is_no_pass(act: Act, replica: Replica) -> None:
    workspace = act.workspace
    for name, seats in (("before", 1), ("after", 2)):
        (workspace / f"{name}.yaml").write_text(f"model: /nowhere\nmax-num-seqs: {seats}\n")
    arms = {"baseline": {"config": "before.yaml"}, "candidate": {"config": "after.yaml"}}
    config = {"version": 1, "gate": "demo", "arms": arms, "checks": {"accuracy": {}}}
    (workspace / "servegate.yaml").write_text(yaml.safe_dump(config))
    done = act.run({}, 7)
    assert done.code != 0
    assert "Not evaluated" in done.log
    assert done.outputs["verdict"] in {"", "error"}
    assert all("PASS" not in comment["body"] for comment in replica.comments())


def test_what_changed_comes_from_git_and_a_refused_config_is_told(act: Act, docker: dict[str, str], image: str) -> None:
    """The container that reads git is really run, and so is the one that measures, which has nothing of the workspace."""
    found = command("docker", "run", "--rm", "--network", "none", "--entrypoint", "git", image, "--version", environment=docker)
    if found.returncode != 0:
        missing("git in the image (scripts/ci/make-base-image.sh makes a base that has it)")
    workspace = act.workspace

    (workspace / "serving").mkdir()
    (workspace / "serving/a.yaml").write_text("model: org/m\n")
    changes = {"configs": [{"files": "serving/*.yaml"}]}
    config = {"version": 1, "gate": "team", "policy": "quick", "checks": {"engagement": {}}, "changes": changes}
    (workspace / "servegate.yaml").write_text(yaml.safe_dump(config))
    subprocess.run(["git", "-C", str(workspace), "init", "--quiet"], check=True, timeout=60)
    commit(workspace, "base")
    (workspace / "serving/a.yaml").write_text("model: org/m\ntrust-remote-code: true\n")
    commit(workspace, "change")
    given = {"compare": "git", "base": "HEAD~1", "head": "HEAD", "comment": "false", "network": "none"}
    done = act.run(given, 7, keep=True)
    assert done.code != 0, done.log
    assert "serving/a.yaml:2: a pull request may not set 'trust-remote-code'" in done.log
    assert done.outputs["verdict"] == "error"
    assert "uploaded servegate-run ./index.json" in done.log
