"""The action's shell steps, really run by bash, with a `docker` that writes down what it was asked to do.

This shows what each container may see (the end-to-end test shows that such containers work), without podman or act.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.project.action_file import ACTION, STEPS

DOCKER = f"""#!{sys.executable}
import json, os, pathlib, sys
log = pathlib.Path(os.environ["DOCKER_LOG"])
with log.open("a") as stream:
    stream.write(json.dumps({{"argv": sys.argv[1:], "token": "GITHUB_TOKEN" in os.environ}}) + "\\n")
answers = json.loads(os.environ.get("DOCKER_ANSWERS", "{{}}"))
verb = next((word for word in sys.argv if word in ("pairs", "ci", "measure", "join", "compare", "report", "publish")), "")
if verb == "compare" and os.environ.get("DOCKER_VERDICT"):
    source = next(word for word in sys.argv if word.startswith("type=bind")).split("source=")[1].split(",")[0]
    (pathlib.Path(source) / "verdict.json").write_text("{{}}")
sys.exit(answers.get(verb, 0))
"""


@dataclass
class Runner:
    """A job's folders and environment; `run` executes one step of action.yml as the runner does."""

    root: Path
    variables: dict[str, str] = field(default_factory=dict)
    said: str = ""

    def run(self, step: str, expected: int = 0, **variables: str) -> dict[str, str]:
        """Run a step with exactly the variables that its `env:` names; returns its outputs."""
        declared = set(STEPS[step].get("env", {}))
        defaults = {name: self.value_of(text) for name, text in STEPS[step].get("env", {}).items()}
        assert set(variables) <= declared | {"GITHUB_EVENT_PATH", "DOCKER_ANSWERS", "DOCKER_VERDICT"}, "not declared in env:"
        output = self.root / "output"
        output.write_text("")
        base = {
            "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
            "HOME": str(self.root),
            "DOCKER_LOG": str(self.root / "docker.log"),
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", STEPS[step]["run"]],
            env={**base, **self.variables, **defaults, **variables, "GITHUB_OUTPUT": str(output)},
            cwd=self.root / "workspace",
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        self.said = done.stdout + done.stderr
        assert done.returncode == expected, self.said
        outputs = dict(line.split("=", 1) for line in output.read_text().splitlines())
        self.variables.update({f"OUTPUT_{step}_{name}": value for name, value in outputs.items()})
        return outputs

    def value_of(self, expression: str) -> str:
        """What the runner would put in for `${{ inputs.x }}` (its default) or `${{ steps.s.outputs.o }}`."""
        inner = expression.removeprefix("${{ ").removesuffix(" }}")
        if inner.startswith("inputs.") and " " not in inner:
            return str(ACTION["inputs"][inner[7:]].get("default", ""))
        if inner.startswith("steps.") and ".outputs." in inner:
            _, step, _, output = inner.split(".")
            return self.variables.get(f"OUTPUT_{step}_{output}", "")
        return ""

    def containers(self) -> list[dict[str, Any]]:
        """Every docker command so far."""
        log = self.root / "docker.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def last(self) -> list[str]:
        """Arguments of the last docker command."""
        argv: list[str] = self.containers()[-1]["argv"]
        return argv


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    for folder in ("bin", "temp", "workspace/.git", "workspace/serving"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "bin" / "docker").write_text(DOCKER)
    (tmp_path / "bin" / "docker").chmod(0o755)
    (tmp_path / "event.json").write_text("{}")
    (tmp_path / "summary").write_text("")
    variables = {
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "GITHUB_WORKSPACE": str(tmp_path / "workspace"),
        "GITHUB_RUN_ID": "7",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    return Runner(tmp_path, variables)


IMAGE = "registry.example/servegate@sha256:" + "0" * 64


def value_after(argv: list[str], option: str) -> str:
    return argv[argv.index(option) + 1]


def mounts(argv: list[str]) -> dict[str, bool]:
    """Target of every bind mount -> whether it can be written."""
    found = [value for option, value in pairwise(argv) if option == "--mount"]
    return {value.split("target=")[1].split(",")[0]: not value.endswith(",readonly") for value in found}


def test_the_measuring_container_sees_the_workspace_read_only_and_no_secret(runner: Runner) -> None:
    runner.run("prepare", IMAGE=IMAGE)
    runner.run("measure", IMAGE=IMAGE)
    argv = runner.last()
    assert value_after(argv, "--gpus") == "all"
    assert value_after(argv, "--network").startswith("servegate-7.1.")
    made = runner.containers()[-2]["argv"]
    assert made[:2] == ["network", "create"]
    assert made[-1] == value_after(argv, "--network")
    assert value_after(argv, "--pids-limit") == "8192"
    assert value_after(argv, "--user") == f"{os.getuid()}:{os.getgid()}"
    assert value_after(argv, "--cap-drop") == "ALL"
    assert value_after(argv, "--security-opt") == "no-new-privileges"
    assert "--read-only" in argv
    assert mounts(argv) == {"/workspace": False, "/output": True, "/cache": True}
    assert "/workspace/.git" in argv
    assert not {"--env", "-e", "--env-file", "--privileged"} & set(argv)
    assert argv[argv.index(IMAGE) :] == [IMAGE, "measure", "--config=servegate.yaml", "--output=/output", "--arm=baseline"]
    assert runner.containers()[-1]["token"] is False


def test_only_the_step_that_reads_git_sees_the_history_and_it_has_nothing_else(runner: Runner) -> None:
    runner.run("prepare", IMAGE=IMAGE, COMPARE="git")
    runner.run("pairs", IMAGE=IMAGE, BASE="main", HEAD="x; touch /pwned")
    argv = runner.last()
    assert value_after(argv, "--network") == "none"
    event = str(runner.root / "event.json")
    assert mounts(argv) == {"/workspace": False, "/pairs": True, event: False}
    assert not {"--gpus", "--tmpfs /workspace/.git"} & set(argv)
    assert [argv[index + 1] for index, word in enumerate(argv) if word == "--env"] == ["GITHUB_ACTIONS", "GITHUB_EVENT_PATH"]
    expected = [
        "--config=./servegate.yaml",
        "--repository=/workspace",
        "--output=/pairs",
        "--base=main",
        "--head=x; touch /pwned",
    ]
    assert argv[argv.index(IMAGE) + 1 :] == ["pairs", *expected]


def test_pairs_are_measured_without_the_workspace(runner: Runner) -> None:
    outputs = runner.run("prepare", IMAGE=IMAGE, COMPARE="git")
    runner.run("measure", expected=2, IMAGE=IMAGE, COMPARE="git")
    assert "Not evaluated: what changed could not be read from git" in runner.said
    (Path(outputs["pairs"]) / "index.json").write_text("{}")
    runner.run("measure", IMAGE=IMAGE, COMPARE="git", NETWORK="none")
    argv = runner.last()
    assert mounts(argv) == {"/pairs": False, "/output": True, "/cache": True}
    assert argv[argv.index(IMAGE) + 1 :] == [
        *("ci", "--pairs=/pairs", "--config=./servegate.yaml", "--output=/output", "--arm=baseline"),
    ]


def measured_arm(runner: Runner, arm: str, gate: str = "demo") -> Path:
    """What the container of an arm leaves."""
    folder = Path(runner.variables["OUTPUT_prepare_arms"]) / arm / gate
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(f'{{"of": "{arm}"}}')
    return folder


def test_each_arm_writes_into_a_folder_that_the_others_container_does_not_have(runner: Runner) -> None:
    arms = Path(runner.run("prepare", IMAGE=IMAGE)["arms"])
    runner.run("measure", IMAGE=IMAGE)
    first = runner.last()
    evidence = measured_arm(runner, "baseline")
    runner.run("candidate")
    second = runner.last()
    for argv, arm in ((first, "baseline"), (second, "candidate")):
        sources = [value for option, value in pairwise(argv) if option == "--mount" and "target=/output" in value]
        assert sources == [f"type=bind,source={arms / arm},target=/output"]
        other = "candidate" if arm == "baseline" else "baseline"
        assert not any(str(arms / other) in word for word in argv)
        assert argv[-1] == f"--arm={arm}"
    output = first.index("--mount")
    assert second[:output] == first[:output], "all else is the same container"
    assert second[output + 2 : -1] == first[output + 2 : -1]
    copy = arms / "candidate/demo/run.json"
    copy.write_text("changed")
    assert "changed" not in (evidence / "run.json").read_text()


def test_the_judge_joins_both_arms_and_can_write_neither(runner: Runner) -> None:
    outputs = runner.run("prepare", IMAGE=IMAGE)
    measured_arm(runner, "baseline")
    measured_arm(runner, "candidate")
    runner.run("judge", expected=5, IMAGE=IMAGE)  # this docker joins nothing, so there is nothing to judge
    argv = runner.last()
    assert mounts(argv) == {"/baseline": False, "/candidate": False, "/pairs": False, "/output": True}
    assert f"type=bind,source={outputs['runs']},target=/output" in argv
    assert value_after(argv, "--network") == "none"
    assert not {"--gpus", "--env"} & set(argv)
    assert argv[argv.index(IMAGE) + 1 :] == ["join", "--baseline=/baseline", "--candidate=/candidate", "--output=/output"]
    (Path(outputs["pairs"]) / "index.json").write_text("{}")
    runner.run("judge", expected=5, IMAGE=IMAGE, COMPARE="git")
    assert runner.last()[-1] == "--pairs=/pairs"


def test_a_candidate_has_its_own_image_and_the_plan_says_so(runner: Runner) -> None:
    runner.run("prepare", IMAGE=IMAGE, CANDIDATE_IMAGE="next@sha256:1")
    runner.run("measure", IMAGE=IMAGE, CANDIDATE_IMAGE="next@sha256:1")
    first = runner.last()
    measured_arm(runner, "baseline")
    runner.run("candidate")
    second = runner.last()
    expected = ["measure", "--config=servegate.yaml", "--output=/output", "--images", IMAGE, "next@sha256:1"]
    assert first[first.index("measure") - 1 :] == [IMAGE, *expected, "--arm=baseline"]
    assert second[second.index("measure") - 1 :] == ["next@sha256:1", *expected, "--arm=candidate"]
    runner.run("prepare", expected=2, IMAGE=IMAGE, CANDIDATE_IMAGE="next", ISOLATE_ARMS="false")
    assert '"candidate-image" needs "isolate-arms: true"' in runner.said


def test_without_a_baseline_no_candidate_is_measured(runner: Runner) -> None:
    runner.run("prepare", IMAGE=IMAGE)
    runner.run("candidate", expected=5)
    assert "No baseline was measured" in runner.said
    assert runner.containers() == []


def test_both_arms_in_one_container_only_where_it_was_asked_for(runner: Runner) -> None:
    outputs = runner.run("prepare", IMAGE=IMAGE, ISOLATE_ARMS="false")
    runner.run("measure", IMAGE=IMAGE, ISOLATE_ARMS="false")
    assert f"type=bind,source={outputs['runs']},target=/output" in runner.last()
    assert not [word for word in runner.last() if word.startswith("--arm")]
    assert STEPS["candidate"]["if"] == "${{ inputs.run == '' && inputs.isolate-arms == 'true' }}"


def test_jobs_of_one_machine_see_each_others_locks_of_a_card(runner: Runner) -> None:
    runner.run("prepare", IMAGE=IMAGE)
    locks = runner.root / "locks"
    runner.run("measure", IMAGE=IMAGE, LOCKS=str(locks))
    assert mounts(runner.last())["/run/lock"] is True
    assert locks.stat().st_mode & 0o7777 == 0o1777
    runner.run("measure", IMAGE=IMAGE, LOCKS=str(locks), GPUS="none")
    assert "/run/lock" not in mounts(runner.last())


def test_every_run_of_an_index_is_judged_and_all_are_published_together(runner: Runner) -> None:
    folder = measured(runner, "a", "b")
    (runner.root / "workspace" / folder / "index.json").write_text("{}")
    outputs = runner.run("prepare", IMAGE=IMAGE, RUN=folder)
    judged = runner.run("judge", IMAGE=IMAGE, DOCKER_VERDICT="yes", DOCKER_ANSWERS='{"compare": 3}')
    assert judged["run"] == outputs["runs"]
    assert [entry["argv"][-2] for entry in runner.containers()] == ["compare", "report", "compare", "report"]
    for gate in "ab":
        assert (Path(outputs["runs"]) / gate / "verdict.json").read_text() == "{}"


def test_an_index_without_a_run_is_published_too(runner: Runner) -> None:
    (runner.root / "workspace/measured").mkdir()
    (runner.root / "workspace/measured/index.json").write_text("{}")
    outputs = runner.run("prepare", IMAGE=IMAGE, RUN="measured")
    assert runner.run("judge", IMAGE=IMAGE)["run"] == outputs["runs"]
    runner.run("publish", IMAGE=IMAGE, RUN=outputs["runs"], COMMENT="true", ALLOW_NO_CHANGE="true")
    assert runner.last()[-2:] == ["--allow-no-change", outputs["runs"]]


def test_hostile_inputs_stay_single_arguments(runner: Runner) -> None:
    runner.run("prepare", IMAGE=IMAGE)
    attack = "x; touch $(pwd)/pwned `id` \"'--privileged"
    runner.run("measure", IMAGE=IMAGE, CONFIG=attack, EXTRA_ARGUMENTS=f"--rounds\n2\n\n{attack}\n", GPUS="device=0,1")
    argv = runner.last()
    expected = ["measure", f"--config={attack}", "--output=/output", "--rounds", "2", attack, "--arm=baseline"]
    assert argv[argv.index(IMAGE) + 1 :] == expected
    measured_arm(runner, "baseline")
    runner.run("candidate")
    assert runner.last()[runner.last().index(IMAGE) + 1 :] == [*expected[:-1], "--arm=candidate"]
    assert value_after(argv, "--gpus") == '"device=0,1"'
    assert not list(runner.root.rglob("pwned"))


def test_no_gpu_is_no_option(runner: Runner) -> None:
    runner.run("prepare", IMAGE=IMAGE)
    runner.run("measure", IMAGE=IMAGE, GPUS="none", NETWORK="none")
    assert "--gpus" not in runner.last()
    assert value_after(runner.last(), "--network") == "none"


def test_a_git_file_is_hidden_too(runner: Runner) -> None:
    (runner.root / "workspace/.git").rmdir()
    (runner.root / "workspace/.git").write_text("gitdir: /elsewhere")
    runner.run("prepare", IMAGE=IMAGE)
    runner.run("measure", IMAGE=IMAGE)
    assert "type=bind,source=/dev/null,target=/workspace/.git,readonly" in runner.last()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("IMAGE", ""),
        ("IMAGE", "--privileged"),
        ("IMAGE", "a b"),
        ("WORKING_DIRECTORY", "/etc"),
        ("WORKING_DIRECTORY", "a/../../b"),
        ("WORKING_DIRECTORY", ".."),
        ("NETWORK", "host"),
        ("NETWORK", "container:other"),
        ("COMMENT", "yes"),
        ("COMPARE", "both"),
        ("TRUST_HEAD", "yes"),
        ("BASE", "--upload-pack=x"),
        ("HEAD", "-h"),
        ("ALLOW_NO_CHANGE", "yes"),
        ("NEUTRAL", "fail"),
        ("NEUTRAL", "review,error"),
        ("MEASURED_RESULT", "ok"),
        ("GATE", "a b"),
        ("ISOLATE_ARMS", "1"),
        ("CANDIDATE_IMAGE", "--privileged"),
        ("FAIL_ON", ""),
        ("FAIL_ON", "fail,pass"),
        ("FAIL_ON", "fail, error"),
        ("MODEL_CACHE", "relative"),
        ("MODEL_CACHE", "/nowhere"),
        ("RUN", "nowhere"),
        ("RUN", "-delete"),
    ],
)
def test_a_wrong_input_is_named_before_anything_starts(runner: Runner, name: str, value: str) -> None:
    runner.run("prepare", expected=2, **{"IMAGE": IMAGE, name: value})
    assert f'"{name.lower().replace("_", "-")}"' in runner.said
    assert runner.said.startswith("::error title=servegate::")
    assert runner.containers() == []


def measured(runner: Runner, *names: str) -> str:
    folder = runner.root / "workspace" / "measured"
    for name in names:
        (folder / name).mkdir(parents=True)
        (folder / name / "run.json").write_text("{}")
        (folder / name / "verdict.json").write_text('{"of": "another job"}')
    return "measured"


def test_judging_gets_neither_gpu_nor_network_nor_workspace(runner: Runner) -> None:
    runner.run("prepare", IMAGE=IMAGE, RUN=measured(runner, "demo"))
    runner.run("judge", IMAGE=IMAGE, DOCKER_VERDICT="yes", DOCKER_ANSWERS='{"compare": 3}')
    asked = [entry["argv"] for entry in runner.containers()]
    assert [argv[argv.index(IMAGE) + 1 :] for argv in asked] == [["compare", "/output/run"], ["report", "/output/run"]]
    for argv in asked:
        assert value_after(argv, "--network") == "none"
        assert mounts(argv) == {"/output/run": True}
        assert not {"--gpus", "--env"} & set(argv)


def test_a_verdict_of_another_job_does_not_count(runner: Runner) -> None:
    runner.run("prepare", IMAGE=IMAGE, RUN=measured(runner, "demo"))
    runner.run("judge", expected=5, IMAGE=IMAGE, DOCKER_ANSWERS='{"compare": 5}')
    assert "Not evaluated" in runner.said


@pytest.mark.parametrize(("code", "expected"), [(2, 2), (137, 137), (125, 125)])
def test_a_broken_judge_is_no_verdict(runner: Runner, code: int, expected: int) -> None:
    runner.run("prepare", IMAGE=IMAGE, RUN=measured(runner, "demo"))
    runner.run("judge", expected=expected, IMAGE=IMAGE, DOCKER_ANSWERS=json.dumps({"compare": code}))


def test_no_run_and_two_runs_are_refused(runner: Runner) -> None:
    runner.run("prepare", IMAGE=IMAGE)
    runner.run("judge", expected=5, IMAGE=IMAGE)
    runner.run("prepare", IMAGE=IMAGE, RUN=measured(runner, "a", "b"))
    runner.run("judge", expected=2, IMAGE=IMAGE)
    assert "once for each gate" in runner.said


def test_a_link_in_the_evidence_is_refused(runner: Runner) -> None:
    given = measured(runner, "demo")
    (runner.root / "workspace/measured/demo/link").symlink_to("/etc/passwd")
    runner.run("prepare", expected=2, IMAGE=IMAGE, RUN=given)
    assert "neither a file nor a folder" in runner.said


def test_publishing_gets_the_token_and_the_runners_files_only(runner: Runner) -> None:
    run = str(runner.root / "temp/run")
    runner.run("publish", IMAGE=IMAGE, COMMENT="true", GITHUB_TOKEN="ghs_canary", RUN=run, JUDGED="success")
    argv = runner.last()
    passed = [value for option, value in pairwise(argv) if option == "--env"]
    assert "GITHUB_TOKEN" in passed
    assert not any("canary" in word for word in argv), "a token on a command line shows in the process list"
    assert not any("=" in value for value in passed)
    assert mounts(argv) == {
        run: False,
        str(runner.root / "output"): True,
        str(runner.root / "summary"): True,
        str(runner.root / "event.json"): False,
    }
    given = ["--ended=success", "--gate=all-serving-configs", "--neutral=none"]
    assert argv[argv.index(IMAGE) + 1 :] == ["publish", *given, run]


def test_publishing_without_a_comment_needs_neither_token_nor_network(runner: Runner) -> None:
    runner.run("publish", IMAGE=IMAGE, COMMENT="false", RUN="/r")
    argv = runner.last()
    assert "GITHUB_TOKEN" not in argv
    assert value_after(argv, "--network") == "none"
    assert argv[-3:] == ["--no-comment", "--no-check", "/r"]


@pytest.mark.parametrize(
    ("cancelled", "judged", "measured", "ended"),
    [
        (False, "success", "success", "success"),
        (True, "skipped", "success", "cancelled"),
        (False, "failure", "success", "failure"),
        (False, "failure", "cancelled", "cancelled"),
        (False, "success", "failure", "failure"),
        (False, "failure", "skipped", "skipped"),
    ],
)
def test_publishing_is_told_how_the_run_ended(runner: Runner, cancelled: bool, judged: str, measured: str, ended: str) -> None:
    runner.run("prepare", IMAGE=IMAGE)
    assert "cancelled() &&" in STEPS["cancelled"]["if"]
    if cancelled:
        runner.run("cancelled")
    runner.run("publish", IMAGE=IMAGE, COMMENT="true", JUDGED=judged, MEASURED_RESULT=measured, GATE="demo")
    argv = runner.last()
    runs = runner.variables["OUTPUT_prepare_runs"]
    assert argv[argv.index(IMAGE) + 1 :] == ["publish", f"--ended={ended}", "--gate=demo", "--neutral=none", runs]
    assert mounts(argv)[runs] is False


def test_a_cancelled_run_is_published_from_what_it_left(runner: Runner) -> None:
    """The record of the one run, or the index of several, is there although no step judged it."""
    outputs = runner.run("prepare", IMAGE=IMAGE)
    arm = measured_arm(runner, "baseline")
    runner.run("publish", IMAGE=IMAGE, COMMENT="true", CANCELLED="cancelled")
    assert runner.last()[-1] == str(arm), "cancelled before the arms were joined"
    run = Path(outputs["runs"], "demo")
    run.mkdir()
    (run / "run.json").write_text("{}")
    runner.run("publish", IMAGE=IMAGE, COMMENT="true", CANCELLED="cancelled")
    assert runner.last()[-1] == str(run)
    Path(outputs["runs"], "index.json").write_text("{}")
    runner.run("publish", IMAGE=IMAGE, COMMENT="true", CANCELLED="cancelled")
    assert runner.last()[-1] == outputs["runs"]
    assert str(STEPS["publish"]["if"]).startswith("${{ always() &&")


@pytest.mark.parametrize(
    ("outcome", "code", "published", "fail_on", "expected"),
    [
        ("review", "3", "success", ACTION["inputs"]["fail-on"]["default"], 3),
        ("pass", "0", "success", "fail,not_comparable,error", 0),
        ("review", "3", "success", "fail,not_comparable,error", 0),
        ("review", "3", "success", "fail,review", 3),
        ("fail", "1", "success", "fail,not_comparable,error", 1),
        ("not_comparable", "4", "success", "fail,not_comparable,error", 4),
        ("error", "5", "success", "fail,not_comparable,error", 5),
        ("fail", "1", "failure", "fail", 1),
        ("pass", "0", "failure", "fail", 6),
        ("fail", "1", "success", "none", 0),
        ("", "", "skipped", "none", 5),
        ("pass", "", "success", "none", 5),
        ("passed", "0", "success", "none", 5),
    ],
)
def test_the_job_ends_as_the_verdict_says(
    runner: Runner, outcome: str, code: str, published: str, fail_on: str, expected: int
) -> None:
    runner.run("Pass or fail", expected=expected, OUTCOME=outcome, EXIT_CODE=code, PUBLISHED=published, FAIL_ON=fail_on)


@pytest.mark.parametrize(
    ("outcome", "code", "may_merge", "expected"),
    [
        ("review", "3", "true", 0), ("not_comparable", "4", "true", 0), ("review", "3", "false", 3), ("review", "3", "", 3),
        ("review", "3", "yes", 3), ("fail", "1", "true", 1), ("error", "5", "true", 5),
    ],
)  # fmt: skip
def test_what_the_workflow_lets_merge_fails_no_job_and_a_fail_always_does(
    runner: Runner, outcome: str, code: str, may_merge: str, expected: int
) -> None:
    settings = {"FAIL_ON": ACTION["inputs"]["fail-on"]["default"], "PUBLISHED": "success", "MAY_MERGE": may_merge}
    runner.run("Pass or fail", expected=expected, OUTCOME=outcome, EXIT_CODE=code, **settings)


def test_what_a_cancelled_step_left_is_removed_by_label(runner: Runner) -> None:
    runner.run("prepare", IMAGE=IMAGE)
    runner.run("Remove what a cancelled step left")
    containers, networks = runner.containers()
    for asked in (containers, networks):
        assert f"label={runner.variables['OUTPUT_prepare_label']}" in asked["argv"]
    assert networks["argv"][:2] == ["network", "ls"]
    assert runner.variables["OUTPUT_prepare_label"].startswith("servegate=7.1.")


def test_no_link_of_an_engine_is_followed_by_the_upload(runner: Runner) -> None:
    """`actions/upload-artifact` follows links, so none is left when it looks, and no container that could make another."""
    outputs = runner.run("prepare", IMAGE=IMAGE)
    secret = runner.root / "secret"
    secret.write_text("of the runner")
    for place in (measured_arm(runner, "candidate"), Path(outputs["runs"])):
        (place / "kept.json").write_text("{}")
        (place / "prompts.json").symlink_to(secret)
        (place / "folder").symlink_to(runner.root)
        os.mkfifo(place / "pipe")
    runner.run("Remove what a cancelled step left")
    for folder in (outputs["runs"], outputs["arms"]):
        left = [path for path in Path(folder).rglob("*") if path.is_symlink() or not (path.is_file() or path.is_dir())]
        assert left == []
        assert list(Path(folder).rglob("kept.json"))
    assert secret.read_text() == "of the runner"
    names = [step["name"] for step in ACTION["runs"]["steps"]]
    order = ["Publish", "Remove what a cancelled step left", "Upload the run directory", "Pass or fail"]
    assert names[-4:] == order


@pytest.mark.parametrize(
    ("event", "protected", "trust_head", "folder"),
    [
        ("push", "true", "false", "protected"),
        ("schedule", "true", "false", "protected"),
        ("workflow_dispatch", "false", "false", "branch"),
        ("push", "true", "true", "fork"),
        ("workflow_dispatch", "true", "true", "fork"),
        ("pull_request", "false", "false", "pull-request"),
        ("pull_request", "true", "false", "pull-request"),  # whatever a runner says of the ref of a merge that nobody reviewed
        ("merge_group", "true", "false", "pull-request"),
        ("workflow_run", "true", "false", "pull-request"),
        ("something_new", "true", "false", "pull-request"),
        ("", "true", "false", "pull-request"),
    ],
)
def test_no_job_reads_a_cache_that_a_less_trusted_one_wrote(
    runner: Runner, event: str, protected: str, trust_head: str, folder: str
) -> None:
    kept = runner.root / "kept"
    kept.mkdir()
    runner.variables |= {"GITHUB_EVENT_NAME": event, "GITHUB_REF_PROTECTED": protected}
    outputs = runner.run("prepare", IMAGE=IMAGE, MODEL_CACHE=str(kept), TRUST_HEAD=trust_head)
    assert outputs["cache"] == str(kept / folder)
    assert [path.name for path in kept.iterdir()] == [folder]
    runner.run("measure", IMAGE=IMAGE)
    assert f"type=bind,source={kept / folder},target=/cache" in runner.last()
    assert not [value for value in runner.last() if f"source={kept}," in value]


def test_a_cache_folder_that_is_a_link_is_refused(runner: Runner) -> None:
    kept = runner.root / "kept"
    (kept / "protected").mkdir(parents=True)
    (kept / "pull-request").symlink_to(kept / "protected")
    runner.variables |= {"GITHUB_EVENT_NAME": "pull_request"}
    runner.run("prepare", expected=2, IMAGE=IMAGE, MODEL_CACHE=str(kept))
    assert '"model-cache"' in runner.said
