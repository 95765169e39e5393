"""action.yml, the command line, the documents and the examples say the same; and our YAML does nothing that it must not."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from servegate.cli import VERBS, group
from servegate.domain.judgement import EXIT_CODES, Outcome
from servegate.publish import Publication, publish
from servegate.publish.outputs import nothing
from tests.conftest import missing
from tests.project.action_file import ACTION, BEGIN, DOCUMENT, END, ROOT, STEPS, tables
from tests.unit.publish.test_publish import FILES, verdict
from tests.unit.publish.test_workflow_commands import runner_outputs

WORKFLOWS = sorted((ROOT / "examples/workflows").glob("*.yml"))
YAML_FILES = [ROOT / "action.yml", *WORKFLOWS]
SCRIPTS = {name: step["run"] for name, step in STEPS.items() if "run" in step}


def parsed(path: Path) -> dict[Any, Any]:
    document: dict[Any, Any] = yaml.safe_load(path.read_text())
    return document


def options_of(verb: str) -> set[str]:
    command = group.get_command(click.Context(group), verb)
    assert command is not None
    return {name for parameter in command.params for name in parameter.opts}


VERBS_OF_STEPS = [
    ("pairs", "pairs", {"--config", "--repository", "--output", "--base", "--head", "--trust-head"}),
    ("measure", "measure", {"--config", "--output", "--arm", "--images"}),
    ("measure", "ci", {"--pairs", "--config", "--output", "--arm", "--images"}),
    ("judge", "join", {"--baseline", "--candidate", "--output", "--pairs"}),
    ("judge", "compare", set()),
    ("judge", "report", set()),
    ("publish", "publish", {"--no-comment", "--no-check", "--allow-no-change", "--ended", "--gate", "--neutral"}),
]


@pytest.mark.parametrize(("step", "verb", "options"), VERBS_OF_STEPS)
def test_every_verb_and_option_that_the_action_uses_exists(step: str, verb: str, options: set[str]) -> None:
    script = SCRIPTS[step]
    assert re.search(rf'("\$IMAGE"|judge|arguments=\() ?{verb}\b', script)
    assert verb in VERBS
    given = re.findall(rf"{'joining' if verb == 'join' else 'arguments'}\+?=\(([^\n]*)\)", script)
    other = ("measure", "ci")
    mine = [part for part in given if not (step == "measure" and part.split(" ")[0] in other and part.split(" ")[0] != verb)]
    used = {name for part in mine for name in re.findall(r"--[a-z-]+", part)}
    assert used <= options_of(verb), f"{verb} has no {used - options_of(verb)}"
    assert used == options
    if step == "measure":
        assert "--arm=candidate" in SCRIPTS["candidate"]


def test_every_output_of_the_action_is_written_by_publish(tmp_path: Path) -> None:
    environment = {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(tmp_path / "output")}
    more = {"report-path": "/r/report/report.html", "findings": "", **nothing()}
    publish(FILES, verdict(), Publication(gate="g", run_directory="/r", comment=False, outputs=more), environment)
    written = set(runner_outputs((tmp_path / "output").read_text()))
    used = set(re.findall(r"steps\.publish\.outputs\.([a-z-]+)", (ROOT / "action.yml").read_text()))
    assert used == written == set(ACTION["outputs"])
    for name, output in ACTION["outputs"].items():
        assert output["value"] == f"${{{{ steps.publish.outputs.{name} }}}}"


def test_steps_read_only_outputs_that_earlier_steps_write() -> None:
    text = (ROOT / "action.yml").read_text()
    for step, output in re.findall(r"steps\.(prepare|judge)\.outputs\.([a-z-]+)", text):
        assert f'echo "{output}=' in SCRIPTS[step]


def test_the_action_knows_every_outcome_and_exit_code() -> None:
    words = {outcome.value for outcome in Outcome}
    assert set(ACTION["inputs"]["fail-on"]["default"].split(",")) <= words
    assert set(re.search(r"none\|\(([a-z_|]+)\)", SCRIPTS["prepare"])[1].split("|")) == words - {"pass"}  # type: ignore[index]
    assert set(re.search(r"\^\(([a-z_|]+)\)\$", SCRIPTS["Pass or fail"])[1].split("|")) == words  # type: ignore[index]
    codes = re.search(r"^\s*([0-9 |]+)\) ;;", SCRIPTS["judge"], re.MULTILINE)
    assert codes is not None
    assert {int(code) for code in codes[1].split("|")} == {int(code) for code in EXIT_CODES.values()}


def test_no_input_and_no_event_text_is_part_of_a_script() -> None:
    for path in YAML_FILES:
        document = parsed(path)
        steps = (
            document["runs"]["steps"] if "runs" in document else [s for job in document["jobs"].values() for s in job["steps"]]
        )
        for step in steps:
            assert "${{" not in step.get("run", ""), f"{path.name}: {step.get('name')}"


def test_only_the_publishing_step_sees_the_token() -> None:
    for name, step in STEPS.items():
        shown = re.findall(r"github-token|github\.token|GITHUB_TOKEN|secrets\.", yaml.safe_dump(step))
        assert bool(shown) == (name == "publish"), name


def test_every_input_is_used_and_only_declared_ones() -> None:
    text = (ROOT / "action.yml").read_text()
    assert set(re.findall(r"inputs\.([a-z-]+)", text)) == set(ACTION["inputs"])


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_nothing_that_opens_the_runner(path: Path) -> None:
    text = path.read_text()
    forbidden = r"--privileged|docker\.sock|--(network|ipc|pid)[ =]host|pull_request_target|unconfined|--cap-add|--volume /:"
    assert not re.search(forbidden, text)
    for line in re.findall(r"uses: *(.*)", text):
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # .+", line), f"not pinned by a commit: {line}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_an_example_gives_the_action_what_it_declares(path: Path) -> None:
    workflow = parsed(path)
    assert workflow["permissions"] == {}
    ours = [step for job in workflow["jobs"].values() for step in job["steps"] if "/servegate@" in step.get("uses", "")]
    own_image = [job["env"]["IMAGE"] for job in workflow["jobs"].values() if "IMAGE" in job.get("env", {})]
    assert ours or own_image
    assert all("@sha256:" in image for image in own_image)
    for step in ours:
        assert set(step["with"]) <= set(ACTION["inputs"])
        assert {name for name, given in ACTION["inputs"].items() if given.get("required")} <= set(step["with"])
        assert "@sha256:" in step["with"]["image"]
    for job in workflow["jobs"].values():
        writes = {name for name, level in job["permissions"].items() if level == "write"}
        comments = any(step in ours and step["with"].get("comment") != "false" for step in job["steps"])
        comments |= any(" publish " in step.get("run", "") for step in job["steps"])
        attests = any("attest" in step.get("uses", "") for step in job["steps"])
        assert writes == ({"checks", "pull-requests"} if comments else {"attestations", "id-token"} if attests else set())
        for script in (step["run"] for step in job["steps"] if "docker run" in step.get("run", "")):
            used = set(re.findall(r'servegate ([a-z]+) |"\$IMAGE" ([a-z]+) ', script))
            assert {one or other for one, other in used} <= set(VERBS)
            assert script.count("docker run") == script.count("--cap-drop ALL --security-opt no-new-privileges")
        assert not (writes and "self-hosted" in job["runs-on"]), "the GPU runner must not get a token that writes"


def test_the_nightly_calibration_gives_the_verb_what_it_takes() -> None:
    """It starts the image itself, behind the same walls as the action's measuring step."""
    from servegate.cli.calibrate import command

    (script,) = [step["run"] for step in parsed(ROOT / "examples/workflows/calibrate.yml")["jobs"]["calibrate"]["steps"]
                 if "run" in step]  # fmt: skip
    arguments = shlex.split(script.partition('"$IMAGE"')[2].replace("\\\n", " "))
    assert arguments[:2] == ["calibrate", "servegate.yaml"]
    options = {option for parameter in command.params for option in parameter.opts}
    assert {argument.partition("=")[0] for argument in arguments if argument.startswith("--")} <= options
    walls = re.findall(r"--(?:read-only|cap-drop ALL|security-opt no-new-privileges|pids-limit \d+|tmpfs /tmp:\S+)", script)
    assert all(wall in (ROOT / "action.yml").read_text().replace("'", "") for wall in walls)
    assert len(walls) == 5
    assert "TOKEN" not in script


def test_the_document_shows_the_inputs_and_outputs_as_they_are() -> None:
    shown = DOCUMENT.read_text().partition(BEGIN)[2].partition(END)[0].strip()
    assert shown == tables(), "run: python -m tests.project.action_file"


# -- linters ------------------------------------------------------------------------------------------------------


def lint(tool: str, *arguments: str, text: str | None = None) -> None:
    path = shutil.which(tool) or shutil.which(tool, path=str(Path(sys.executable).parent)) or missing(tool)
    done = subprocess.run([path, *arguments], capture_output=True, text=True, input=text, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schemas_accept_our_yaml() -> None:
    lint("check-jsonschema", "--builtin-schema", "vendor.github-actions", str(ROOT / "action.yml"))
    lint("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS))


def test_zizmor_finds_nothing() -> None:
    lint("zizmor", "--offline", "--persona", "auditor", *map(str, YAML_FILES))


def test_actionlint_finds_nothing(tmp_path: Path) -> None:
    config = tmp_path / "actionlint.yaml"
    config.write_text("self-hosted-runner:\n  labels: [gpu]\n")
    lint("actionlint", "-config-file", str(config), *map(str, WORKFLOWS))


@pytest.mark.parametrize("step", SCRIPTS)
def test_shellcheck_finds_nothing(step: str) -> None:
    lint("shellcheck", "--shell=bash", "-", text=SCRIPTS[step])


def test_hadolint_finds_nothing() -> None:
    lint("hadolint", str(ROOT / "Dockerfile"))


def test_the_example_publishes_also_after_a_cancelled_measurement() -> None:
    """A job that waits for another and says nothing about it is skipped when that one was stopped: an old PASS would stand."""
    job = parsed(ROOT / "examples/workflows/pull-request.yml")["jobs"]["verdict"]
    assert job["if"] == "${{ always() }}"
    steps = {step.get("id") or step.get("uses", step.get("name")).partition("@")[0]: step for step in job["steps"]}
    assert steps["actions/download-artifact"]["continue-on-error"] is True
    assert steps["servegate"]["with"]["measured-result"] == "${{ needs.measure.result }}"
