"""`/servegate accept ID reason`, from the comment to the merged verdict: the example workflow's own script, really run.

Real: the script of examples/workflows/accept.yml, every verb of servegate that it calls (each its own process), the client, and
the conversation, permissions, artifacts, reactions and check runs of the stateful replica of GitHub. Not real: `docker`, which
is a program that starts servegate here with exactly the variables and folders that it was told to.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from servegate.artifacts import RunDirectory, dump
from servegate.checks.prompts.settings import PromptsSettings
from servegate.cli import _code
from servegate.domain.plan import Origin
from servegate.publish import remote
from servegate.publish.commands import accepted_by
from servegate.publish.pull_request import connect
from tests.fakes.github import PULL_REQUEST, REPOSITORY, Replica
from tests.integration.measured_prompts import write_measured
from tests.unit.checks.prompts_evidence import evidence
from tests.unit.samples import TWO_ROUNDS, plan

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = yaml.safe_load((ROOT / "examples/workflows/accept.yml").read_text())
JOB = WORKFLOW["jobs"]["accept"]
STEP = JOB["steps"][0]
SECRET = "ghs_"
DOCKER = f"""#!{sys.executable}
import os, subprocess, sys
words, passed, places, offline = sys.argv[1:], [], [], False
image = words.index(os.environ["IMAGE"])
for option, value in zip(words[:image], words[1 : image + 1]):
    if option == "--env": passed.append(value)
    if option == "--network": offline = value == "none"
    if option == "--mount": places.append(dict(part.split("=", 1) for part in value.split(",") if "=" in part))
environment = {{name: os.environ[name] for name in passed if name in os.environ}}
if offline:
    assert not passed, "a container that judges is told nothing"
else:
    environment.update({{name: os.environ[name] for name in ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "REQUESTS_CA_BUNDLE")}})
arguments = words[image + 1 :]
for place in places:
    if place["target"] != place["source"]:
        arguments = [word.replace(place["target"], place["source"]) for word in arguments]
program = "from servegate.cli import main; from servegate.publish import pull_request as p, remote as r, acceptances as a; "
program += "import functools; h = functools.partial(p.connect, pause_s=0); p.connect = r.connect = a.connect = h; main()"
base = {{"PATH": os.environ["PATH"], "PYTHONPATH": os.environ["PYTHONPATH"]}}
sys.exit(subprocess.run([sys.executable, "-c", program, *arguments], env={{**base, **environment}}).returncode)
"""


@dataclass
class Pull:
    """The pull request, and what becomes of a comment on it."""

    replica: Replica
    folder: Path
    runs: int = 200

    def shows(self, measured: Path, run: int, attempt: int = 1) -> None:
        """Judge and publish a stored run, as the workflow that measured it does."""
        event = self.folder / "pull_request.json"
        event.write_text(json.dumps(self.replica.event()))
        environment = {
            "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": str(event),
            "GITHUB_REPOSITORY": REPOSITORY, "GITHUB_RUN_ID": str(run), "GITHUB_TOKEN": self.replica.tokens["bot"],
            "GITHUB_RUN_ATTEMPT": str(attempt),
        }  # fmt: skip
        with pytest.MonkeyPatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            assert _code(["compare", str(measured / "demo")]) == 3
            assert _code(["report", str(measured / "demo")]) == 0
            assert _code(["publish", str(measured)]) == 0

    def says(self, login: str, body: str, action: str = "created") -> subprocess.CompletedProcess[str]:
        """Comment as somebody and run the workflow's job for it."""
        self.replica.wait(60)
        return self.woken(login, body, self.replica.comment_as(login, body), action)

    def woken(self, login: str, body: str, number: int, action: str = "created") -> subprocess.CompletedProcess[str]:
        self.runs += 1
        place = self.folder / str(self.runs)
        place.mkdir()
        event = {
            "action": action,
            "issue": {"number": PULL_REQUEST, "pull_request": {"url": "x"}},
            "comment": {"id": number, "body": body, "user": {"login": login, "type": "User"}},
        }
        (place / "event.json").write_text(json.dumps(event))
        environment = {
            **os.environ,
            **self.replica.network(),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "IMAGE": JOB["env"]["IMAGE"],
            "RUNNER_TEMP": str(place),
            "NUMBER": str(PULL_REQUEST),
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": "https://api.github.com",
            "GITHUB_EVENT_NAME": "issue_comment",
            "GITHUB_EVENT_PATH": str(place / "event.json"),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_RUN_ID": str(self.runs),
            "GITHUB_SERVER_URL": "https://github.com",
            "GITHUB_TOKEN": self.replica.tokens["bot"],
        }
        return subprocess.run(
            ["bash", "-e", "-c", STEP["run"]], env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    @property
    def reactions(self) -> list[str]:
        """Of the newest comment of somebody else than ours."""
        return [each for each in self.replica.comments() if each["user"] != "bot"][-1].get("reactions", [])

    @property
    def checks(self) -> dict[str, str]:
        return {check["name"]: check["conclusion"] for check in self.replica.check_runs()}

    @property
    def unchanged(self) -> bool:
        """Whether the check runs are what the run itself gave."""
        return self.checks == dict.fromkeys(("servegate/demo", "servegate/all-serving-configs"), "action_required")

    def comment(self, gate: str) -> str:
        [body] = [each["body"] for each in self.replica.comments() if each["body"].startswith(f"<!-- servegate:{gate} -->")]
        return str(body)

    def ledger(self) -> list[dict[str, Any]]:
        text = (self.folder / str(self.runs) / "stored/servegate.accepted.yaml").read_text()
        accepted: list[dict[str, Any]] = yaml.safe_load(text)["accepted"]
        return accepted


def measured(folder: Path, head: str, costs: int = 6) -> bytes:
    """Write what `servegate ci` leaves of one gate: two prompts whose fact changes in every round; returns it as an archive."""
    said = "It costs {} euros \u2028 a day."
    found = evidence(
        {"p": [said.format(5)] * 2, "q": [said.format(7)] * 2},
        {"p": [said.format(costs)] * 2, "q": [said.format(8)] * 2},
        filler=30,
    )
    limits = {"fact_changes": "review", "unseen_increase_points": 15}
    checks = {"prompts": PromptsSettings.model_validate({"limits": limits}).to_json()}
    origin = Origin(base="a" * 40, merge_base="a" * 40, head=head, baseline_path="s.yaml", candidate_path="s.yaml")
    settings = {"publish.check_run": {"value": True, "source": "default"}}
    made = plan(checks=checks, policy="quick", origin=origin, settings=settings, schedule=TWO_ROUNDS)
    run = RunDirectory.create(folder / "demo")
    write_measured(run, made, found, "2020-01-01T10:00:00+00:00")
    watched = {"files": "*.yaml", "arguments": None, "environment": None, "document": None}
    index = {
        "kind": "index", "schema_version": 1, "base": "a" * 40, "merge_base": "a" * 40, "head": head, "judged_by": "base",
        "rules_changed": [], "pairs": [{"before": "s.yaml", "after": "s.yaml", "gate": "demo", "watched": watched}],
        "also": {}, "not_measured": [],
    }  # fmt: skip
    (folder / "index.json").write_bytes(dump(index))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                packed.write(path, path.relative_to(folder))
    return stream.getvalue()


@pytest.fixture
def pull(shared_replica: Replica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pull:
    shared_replica.reset()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/docker").write_text(DOCKER)
    (tmp_path / "bin/docker").chmod(0o755)
    _, head = shared_replica.commits()
    shared_replica.upload(5, head, measured(tmp_path / "uploaded", head))
    shared_replica.permit("dev", "push")
    for name, value in shared_replica.network().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(remote, "connect", lambda url, token: connect(url, token, pause_s=0))
    pull = Pull(shared_replica, tmp_path)
    pull.shows(tmp_path / "uploaded", 100)
    return pull


def test_a_writers_comments_are_judged_into_the_check_the_comment_and_the_ledger(pull: Pull) -> None:
    first = pull.says("dev", "/servegate accept p the price is an example\n\nthanks!")
    assert first.returncode == 0, first.stdout + first.stderr
    assert pull.reactions == ["+1"]
    assert pull.checks == dict.fromkeys(("servegate/demo", "servegate/all-serving-configs"), "action_required"), "q is left"
    assert "REVIEW" in pull.comment("demo")
    [line] = pull.ledger()
    assert {key: line[key] for key in ("prompt", "who", "why", "verdict")} == {
        "prompt": "p", "who": "@dev", "why": "the price is an example", "verdict": "minor",
    }  # fmt: skip
    # The second one is judged on the stored run again, which knows nothing of the first: both have to count.
    second = pull.says("dev", "/servegate accept q so is this one")
    assert second.returncode == 0, second.stdout + second.stderr
    assert [line["prompt"] for line in pull.ledger()] == ["p", "q"]
    assert pull.checks == dict.fromkeys(("servegate/demo", "servegate/all-serving-configs"), "success")
    assert "PASS" in pull.comment("demo")
    assert "@dev" not in pull.comment("demo"), "a mention would tell them of every update"
    bodies = [each["body"] for each in pull.replica.comments() if each["user"] == "bot"]
    assert len(bodies) == len({body.split("\n")[0] for body in bodies}), "one comment a gate"
    for done in (first, second):
        assert pull.replica.tokens["bot"] not in done.stdout + done.stderr
    assert set(pull.replica.storage_tokens) == {None}, "the token is for the API alone"


def test_a_reader_is_refused_by_a_reaction_and_nothing_changes(pull: Pull) -> None:
    pull.replica.permit("dev", "pull")
    done = pull.says("dev", "/servegate accept p looks fine")
    assert done.returncode == 2
    assert "@dev may not accept: their permission here is 'read'" in done.stderr
    assert pull.reactions == ["-1"]
    assert pull.unchanged
    assert [each["user"] for each in pull.replica.comments()] == ["bot", "dev"], "who may not accept gets no reply"


def test_what_the_run_does_not_hold_is_told_by_a_reaction_with_what_it_holds(pull: Pull) -> None:
    done = pull.says("dev", "/servegate accept filler-001 why not")
    assert done.returncode == 2
    assert "Unread: p, q." in done.stderr
    assert pull.reactions == ["confused"]
    assert pull.unchanged


@pytest.mark.parametrize(
    "body",
    [
        "> /servegate accept p quoted",
        "```\n/servegate accept p fenced\n```",
        "    /servegate accept p indented",
        "`/servegate accept p inline`",
        "please write\n/servegate accept p second line",
        "<!-- -->/servegate accept p hidden",
    ],
)
def test_quoted_text_and_code_start_no_job_and_are_no_command(body: str) -> None:
    assert "startsWith(github.event.comment.body, '/servegate accept ')" in JOB["if"]
    assert not body.startswith("/servegate accept ")
    assert accepted_by(PULL_REQUEST, "dev", body) is None


def test_a_job_that_a_quotation_starts_all_the_same_changes_nothing(pull: Pull) -> None:
    done = pull.says("dev", "> /servegate accept p quoted")
    assert done.returncode == 2
    assert "no command to servegate" in done.stderr
    assert pull.unchanged


def test_an_edited_comment_accepts_nothing_now_or_later(pull: Pull) -> None:
    assert WORKFLOW[True]["issue_comment"]["types"] == ["created"]
    done = pull.says("dev", "/servegate accept p fine", action="edited")
    assert done.returncode == 2
    number = pull.replica.comments()[-1]["id"]
    pull.replica.wait(60)
    pull.replica.edit_as("dev", number, "/servegate accept p fine, and more")
    done = pull.says("dev", "/servegate accept q fine")
    assert done.returncode == 0, done.stderr
    assert [line["prompt"] for line in pull.ledger()] == ["q"]


def test_a_comment_written_before_a_newer_run_was_shown_accepts_nothing_of_it(pull: Pull) -> None:
    """Its author read the run that was shown then. The newer one ended long before, by the measuring machine's clock."""
    pull.replica.wait(60)
    number = pull.replica.comment_as("dev", "/servegate accept p the price is an example")
    pull.replica.wait(60)
    _, head = pull.replica.commits()
    pull.replica.upload(6, head, measured(pull.folder / "again", head, costs=99))
    pull.shows(pull.folder / "again", 150)
    for _ in range(2):  # the job is started again: one reply
        done = pull.woken("dev", "/servegate accept p the price is an example", number)
        assert done.returncode == 2
        assert "it was written before this run was shown" in done.stderr
    assert pull.unchanged
    [reply] = [each["body"] for each in pull.replica.comments() if "Not accepted" in each["body"]]
    assert "(`p`): it was written before this run was shown" in reply
    assert "-1" in next(each for each in pull.replica.comments() if each["id"] == number)["reactions"]
    done = pull.says("dev", "/servegate accept p now I have read it")
    assert done.returncode == 0, done.stderr
    assert [line["why"] for line in pull.ledger()] == ["now I have read it"]


def test_a_stored_run_that_was_never_shown_accepts_nothing(pull: Pull) -> None:
    """Measured and uploaded, and the job that shows it has not ended: the comment still shows the run before it."""
    _, head = pull.replica.commits()
    pull.replica.upload(6, head, measured(pull.folder / "again", head, costs=99))
    done = pull.says("dev", "/servegate accept p fine")
    assert done.returncode == 2
    assert "no comment of the gate demo shows the run that is stored now" in done.stderr
    assert pull.unchanged


def test_two_comments_at_once_both_count_and_what_they_accept_is_dated_by_them(pull: Pull) -> None:
    pull.replica.wait(60)
    first = pull.replica.comment_as("dev", "/servegate accept p one")
    second = pull.replica.comment_as("dev", "/servegate accept q two")
    assert pull.woken("dev", "/servegate accept p one", first).returncode == 0
    expires = {line["expires"] for line in pull.ledger()}
    # The first job has drawn the comment anew since the second one was written; its job is started again days later.
    for _ in range(3):
        pull.replica.wait(86_400)
    done = pull.woken("dev", "/servegate accept q two", second)
    assert done.returncode == 0, done.stderr
    assert [line["prompt"] for line in pull.ledger()] == ["p", "q"]
    assert {line["expires"] for line in pull.ledger()} == expires, "90 days from the comment, not from the job"
    assert pull.checks == dict.fromkeys(("servegate/demo", "servegate/all-serving-configs"), "success")


def test_a_run_that_is_started_again_after_an_acceptance_is_shown_in_its_place(pull: Pull) -> None:
    """GitHub keeps a run's number when it is started again, and the job that accepted has a higher one."""
    pull.replica.wait(60)
    for prompt in ("p", "q"):
        assert pull.says("dev", f"/servegate accept {prompt} fine").returncode == 0
    assert pull.checks == dict.fromkeys(("servegate/demo", "servegate/all-serving-configs"), "success")
    assert "[run 100, attempt 1]" in pull.comment("demo"), "an acceptance is no run: the one that measured keeps the evidence"
    _, head = pull.replica.commits()
    measured(pull.folder / "again", head, costs=99)
    pull.shows(pull.folder / "again", 100, attempt=2)
    assert pull.unchanged
    assert "REVIEW" in pull.comment("demo")
