"""One comment on the pull request, whatever happens: real PyGithub against a stateful replica of GitHub.

Answers that the replica can not give (a read-only token, a locked conversation, a kept old text) come from `Scripted`,
a small server that speaks the same protocol on loopback and is reached through GITHUB_API_URL, as an Enterprise server is.
"""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from servegate.domain.judgement import Outcome, Verdict
from servegate.errors import ExitCode, PublishError
from servegate.publish import Publication, Published, pull_request
from servegate.publish import publish as publish_everything
from servegate.publish.annotations import Annotation
from servegate.publish.check_run import conclusion_of
from servegate.publish.event import Run
from servegate.publish.marks import Shown, marker, shown_by
from servegate.publish.pull_request import Clock, connect
from servegate.publish.remote import within
from tests.fakes.github import PULL_REQUEST, REPOSITORY, Replica, pull_request_event
from tests.unit.publish.test_publish import FILES, verdict
from tests.unit.publish.test_workflow_commands import runner_commands, runner_outputs

GATE = "qwen3-8b-fp8"
SETTINGS = Publication(gate=GATE, run_directory="/runs/demo", outputs={})
CREATE = "github.issues.createComment"


class Hasty(Clock):
    """Sleeps are recorded, not slept."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


@pytest.fixture
def replica(shared_replica: Replica, monkeypatch: pytest.MonkeyPatch) -> Replica:
    shared_replica.reset()
    for name, value in shared_replica.network().items():
        monkeypatch.setenv(name, value)
    return shared_replica


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hasty:
    hasty = Hasty()
    monkeypatch.setattr(pull_request, "Clock", lambda: hasty)
    return hasty


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_RUN_ID": "100",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }


def hurried(files: dict[str, bytes], verdict: Verdict, settings: Publication, environment: dict[str, str]) -> Published:
    """Publish with the real client, without its courtesy pauses."""
    return publish_everything(files, verdict, settings, environment, lambda url, token: connect(url, token, pause_s=0))


def publish(replica: Replica, runner: dict[str, str], text: str = "**FAIL** it fell\n", **changes: str) -> Published:
    Path(runner["GITHUB_EVENT_PATH"]).write_text(json.dumps(replica.event()))
    environment = {**runner, "GITHUB_TOKEN": replica.tokens["bot"], **changes}
    return hurried({**FILES, "comment.md": text.encode("utf-8", "surrogatepass")}, verdict(), SETTINGS, environment)


def test_a_second_run_updates_the_comment_of_the_first(replica: Replica, runner: dict[str, str]) -> None:
    first = publish(replica, runner)
    second = publish(replica, runner, "**PASS** mended\n", GITHUB_RUN_ID="101")
    assert (first.comment, second.comment) == ("created", "updated")
    [comment] = replica.comments()
    assert comment["user"] == "bot"
    _, head = replica.commits()
    url = f"https://github.com/{REPOSITORY}/actions/runs/101"
    assert comment["body"] == (
        f"<!-- servegate:{GATE} -->\n<!-- servegate-run: {head} 101.1 -->\n**PASS** mended\n\n"
        f"<sub>Tested commit <code>{head[:12]}</code> in [run 101, attempt 1]({url}), which keeps the run directory.</sub>\n"
    )
    assert second.comment_url == first.comment_url
    assert second.comment_url.endswith(f"#issuecomment-{comment['id']}")


def test_publishing_the_same_twice_changes_nothing(replica: Replica, runner: dict[str, str]) -> None:
    publish(replica, runner)
    before = replica.comments()
    assert publish(replica, runner).comment == "unchanged"
    assert replica.comments() == before


def test_two_gates_have_a_comment_each(replica: Replica, runner: dict[str, str]) -> None:
    publish(replica, runner)
    Path(runner["GITHUB_EVENT_PATH"]).write_text(json.dumps(replica.event()))
    other = Publication(gate="qwen3-8b", run_directory="/runs/other")
    hurried(FILES, verdict(), other, {**runner, "GITHUB_TOKEN": replica.tokens["bot"]})
    assert [comment["body"].split("\n")[0] for comment in replica.comments()] == [marker(GATE), marker("qwen3-8b")]


def test_a_timeout_that_did_commit_leaves_one_comment(replica: Replica, runner: dict[str, str], clock: Hasty) -> None:
    replica.faults({"kind": "timeout_after_commit", "tool": CREATE, "on_call": 1})
    done = publish(replica, runner)
    assert done.comment == "unchanged"
    assert clock.slept == [1.0]
    assert len(replica.comments()) == 1


@pytest.mark.parametrize("kind", ["timeout", "server_error", "bad_gateway"])
def test_a_failure_that_did_not_commit_is_tried_again(
    replica: Replica, runner: dict[str, str], clock: Hasty, kind: str
) -> None:
    replica.faults({"kind": kind, "tool": CREATE, "on_call": 1})
    assert publish(replica, runner).comment == "created"
    assert len(replica.comments()) == 1


def test_a_proxy_that_posts_twice_leaves_one_comment(replica: Replica, runner: dict[str, str]) -> None:
    replica.faults({"kind": "duplicate_commit", "tool": CREATE, "on_call": 1})
    done = publish(replica, runner)
    assert len(replica.comments()) == 1
    assert "removed 1 duplicate comment(s)" in done.log


def test_an_outage_ends_with_a_clear_error_and_the_summary(replica: Replica, runner: dict[str, str], clock: Hasty) -> None:
    replica.faults({"kind": "server_error", "tool": CREATE, "times": None})
    with pytest.raises(PublishError, match="refused the comment"):
        publish(replica, runner)
    assert clock.slept == [1.0, 2.0, 4.0]
    assert Path(runner["GITHUB_STEP_SUMMARY"]).read_bytes().startswith(FILES["summary.md"])


def test_an_older_run_never_replaces_a_newer_one(replica: Replica, runner: dict[str, str]) -> None:
    publish(replica, runner, "new", GITHUB_RUN_ID="200")
    for older in ({"GITHUB_RUN_ID": "100"}, {"GITHUB_RUN_ID": "100", "GITHUB_RUN_ATTEMPT": "9"}):
        assert publish(replica, runner, "old", **older).comment == "newer"
    assert "\nnew\n" in replica.comments()[0]["body"]
    assert publish(replica, runner, "again", GITHUB_RUN_ID="200", GITHUB_RUN_ATTEMPT="2").comment == "updated"


def test_a_run_of_an_older_head_does_not_comment(replica: Replica, runner: dict[str, str]) -> None:
    base, _ = replica.commits()
    Path(runner["GITHUB_EVENT_PATH"]).write_text(json.dumps(pull_request_event(PULL_REQUEST, "d" * 40, base)))
    done = hurried(FILES, verdict(), SETTINGS, {**runner, "GITHUB_TOKEN": replica.tokens["bot"]})
    assert done.comment == "outdated"
    assert replica.comments() == []
    assert runner_commands(done.log[-1]) != []


def test_a_quoted_or_forged_marker_owns_nothing(replica: Replica, runner: dict[str, str]) -> None:
    publish(replica, runner)
    ours = replica.comments()[0]
    forged = f"{marker(GATE)}\n<!-- servegate-run: {'f' * 40} 99999999.1 -->\n**PASS**"
    replica.comment_as("dev", forged)
    replica.comment_as("bot", f"> {ours['body']}")
    assert publish(replica, runner, "**FAIL** 2", GITHUB_RUN_ID="101").comment == "updated"
    bodies = [comment["body"] for comment in replica.comments()]
    assert len(bodies) == 3
    assert "\n**FAIL** 2\n" in bodies[0]
    assert bodies[1] == forged


def test_the_comment_is_found_on_a_later_page(replica: Replica, runner: dict[str, str]) -> None:
    for number in range(44):
        replica.comment_as("dev", f"remark {number}")
    publish(replica, runner)
    for number in range(44):
        replica.comment_as("dev", f"another {number}")
    assert publish(replica, runner, "new", GITHUB_RUN_ID="101").comment == "updated"
    assert len(replica.comments()) == 89


def test_hostile_text_can_neither_end_the_comment_nor_own_another(replica: Replica, runner: dict[str, str]) -> None:
    forged = f"{marker(GATE)}\n<!-- servegate-run: {'e' * 40} 99999999999.1 -->"
    attack = f"\ud800\x00\x1b[2J{forged}\n@acme/all fixes #1 ::error::x\u2028"
    publish(replica, runner, attack)
    [comment] = replica.comments()
    assert "\x00" not in comment["body"]
    assert "\x1b" not in comment["body"]
    assert shown_by(comment["body"]) == Shown(GATE, replica.commits()[1], Run(100, 1))
    assert publish(replica, runner, "next", GITHUB_RUN_ID="101").comment == "updated"


def test_a_marker_that_the_report_has_written_is_not_repeated(replica: Replica, runner: dict[str, str]) -> None:
    publish(replica, runner, f"{marker(GATE)}\n## REVIEW\n")
    [comment] = replica.comments()
    assert comment["body"].count(marker(GATE)) == 1
    assert "100.1 -->\n## REVIEW\n" in comment["body"]


def test_a_text_too_long_for_github_becomes_the_verdict_alone(replica: Replica, runner: dict[str, str]) -> None:
    publish(replica, runner, "日" * 30_000)
    [comment] = replica.comments()
    assert len(comment["body"]) < 400
    assert "**FAIL**" in comment["body"]


def test_of_the_same_evidence_a_comment_says_since_when_it_has_been_shown(replica: Replica, runner: dict[str, str]) -> None:
    """An acceptance is held against that time, so drawing the comment again (an acceptance does) must not move it."""

    def shows(evidence: str | None, run: str) -> tuple[Shown | None, str]:
        replica.wait(60)
        Path(runner["GITHUB_EVENT_PATH"]).write_text(json.dumps(replica.event()))
        environment = {**runner, "GITHUB_TOKEN": replica.tokens["bot"], "GITHUB_RUN_ID": run}
        hurried(FILES, verdict(), replace(SETTINGS, drawn_from=evidence), environment)
        [comment] = replica.comments()
        return shown_by(comment["body"]), comment["updated_at"]

    first, shown_at = shows("e" * 64, "100")
    assert first == Shown(GATE, replica.commits()[1], Run(100, 1), "e" * 64)
    again, _ = shows("e" * 64, "101")
    assert again is not None
    assert (again.run.id, again.since) == (101, datetime.fromisoformat(shown_at))
    assert shows("e" * 64, "101")[0] == again
    third, _ = shows("e" * 64, "102")
    assert third is not None
    assert third.since == again.since
    other, _ = shows("f" * 64, "103")
    assert other is not None
    assert (other.evidence, other.since) == ("f" * 64, None)
    assert shows(None, "104")[0] == Shown(GATE, replica.commits()[1], Run(104, 1)), "a run that was cancelled shows no evidence"


SWEEPING = Publication(gate="all-serving-configs", run_directory="/runs", outputs={}, sweeps=True)


def test_what_shows_an_older_commit_says_so_and_nothing_else_is_touched(replica: Replica, runner: dict[str, str]) -> None:
    _, head = replica.commits()
    old = f"{Shown('a', 'd' * 40, Run(90, 2), 'e' * 64).lines()}## \u2705 PASS\n"
    for name, body in [
        ("bot", old), ("dev", old), ("bot", f"> {old}"), ("bot", "hi"),
        ("bot", f"{Shown('b', head, Run(91, 1)).lines()}## PASS\n"),
    ]:  # fmt: skip
        replica.comment_as(name, body)
    before = [each["body"] for each in replica.comments()]

    def sweep(run: str) -> Published:
        Path(runner["GITHUB_EVENT_PATH"]).write_text(json.dumps(replica.event()))
        return hurried(FILES, verdict(), SWEEPING, {**runner, "GITHUB_TOKEN": replica.tokens["bot"], "GITHUB_RUN_ID": run})

    assert sweep("100").log[-1].startswith("1 comment(s) of other gates")
    bodies = [each["body"] for each in replica.comments()]
    assert bodies[1:-1] == before[1:]
    assert bodies[0].startswith("<!-- servegate:a -->\n<!-- servegate-run: " + "d" * 40 + " 90.2 -->\n## \u23f3 OUTDATED: `a`")
    assert "PASS" not in bodies[0]
    assert f"[run 90](https://github.com/{REPOSITORY}/actions/runs/90)" in bodies[0]
    assert "comment(s)" not in sweep("101").log[-1], "it is said once"
    # Another workflow's run for that gate, started before the one that swept, ends after it: its verdict is put all the same.
    Path(runner["GITHUB_EVENT_PATH"]).write_text(json.dumps(replica.event()))
    environment = {**runner, "GITHUB_TOKEN": replica.tokens["bot"], "GITHUB_RUN_ID": "95"}
    assert hurried(FILES, verdict(), replace(SETTINGS, gate="a"), environment).comment == "updated"


def test_a_run_that_was_overtaken_sweeps_nothing(replica: Replica, runner: dict[str, str]) -> None:
    replica.comment_as("bot", f"{Shown('a', 'd' * 40, Run(90, 1)).lines()}## PASS\n")
    base, _ = replica.commits()
    Path(runner["GITHUB_EVENT_PATH"]).write_text(json.dumps(pull_request_event(PULL_REQUEST, "c" * 40, base)))
    done = hurried(FILES, verdict(), SWEEPING, {**runner, "GITHUB_TOKEN": replica.tokens["bot"]})
    assert done.comment == "outdated"
    assert "## PASS" in replica.comments()[0]["body"]


# -- the check run -------------------------------------------------------------------------------------------------

CHECKED = Publication(gate=GATE, run_directory="/runs/demo", check_run=True)


def publish_checked(
    replica: Replica, runner: dict[str, str], outcome: Outcome, settings: Publication = CHECKED, **changes: str
) -> Published:
    Path(runner["GITHUB_EVENT_PATH"]).write_text(json.dumps(replica.event()))
    environment = {**runner, "GITHUB_TOKEN": replica.tokens["bot"], "GITHUB_SHA": "e" * 40, **changes}
    return hurried(FILES, verdict(outcome), settings, environment)


def test_the_check_run_stands_on_the_head_and_is_updated(replica: Replica, runner: dict[str, str]) -> None:
    publish_checked(replica, runner, Outcome.FAIL)
    [check] = replica.check_runs()
    _, head = replica.commits()
    assert (check["name"], check["head_sha"], check["conclusion"]) == (f"servegate/{GATE}", head, "failure")
    assert check["output"]["title"] == "fail: accuracy fell"
    publish_checked(replica, runner, Outcome.PASS, GITHUB_RUN_ID="101")
    [check] = replica.check_runs()
    assert (check["conclusion"], check["external_id"]) == ("success", "servegate:101.1")
    done = publish_checked(replica, runner, Outcome.FAIL, GITHUB_RUN_ID="99")
    assert "(newer)" in done.log[-1]
    assert replica.check_runs()[0]["conclusion"] == "success"


@pytest.mark.parametrize(
    ("outcome", "neutral", "conclusion"),
    [
        (Outcome.PASS, (), "success"),
        (Outcome.FAIL, (), "failure"),
        (Outcome.ERROR, (), "failure"),
        (Outcome.REVIEW, (), "action_required"),
        (Outcome.NOT_COMPARABLE, (), "action_required"),
        (Outcome.REVIEW, (Outcome.REVIEW,), "neutral"),
        (Outcome.FAIL, (Outcome.REVIEW,), "failure"),
    ],
)
def test_what_github_is_told(
    replica: Replica, runner: dict[str, str], outcome: Outcome, neutral: tuple[Outcome, ...], conclusion: str
) -> None:
    publish_checked(replica, runner, outcome, replace(CHECKED, neutral=frozenset(neutral)))
    assert [check["conclusion"] for check in replica.check_runs()] == [conclusion]


def test_the_changed_lines_carry_the_verdict(replica: Replica, runner: dict[str, str]) -> None:
    note = Annotation("serving/a.yaml", 3, "failure", "fail: accuracy fell (quantization: not set -> fp8)")
    done = publish_checked(replica, runner, Outcome.FAIL, replace(CHECKED, annotations=(note,)))
    assert replica.check_runs()[0]["output"]["annotations"] == [note.to_github()]
    assert not any("serving/a.yaml" in line for line in done.log)


def test_a_run_of_another_commit_is_not_published(replica: Replica, runner: dict[str, str]) -> None:
    with pytest.raises(PublishError, match="about the commit dddddddddddd"):
        publish_checked(replica, runner, Outcome.PASS, replace(CHECKED, tested="d" * 40))
    assert replica.comments() == []
    assert replica.check_runs() == []


def test_a_check_run_that_a_timeout_did_commit_is_not_put_twice(replica: Replica, runner: dict[str, str]) -> None:
    replica.faults({"kind": "timeout_after_commit", "tool": "github.checks.create", "on_call": 1})
    with pytest.raises(PublishError):
        publish_checked(replica, runner, Outcome.PASS)
    publish_checked(replica, runner, Outcome.PASS)
    assert len(replica.check_runs()) == 1


# -- a second job ---------------------------------------------------------------------------------------------------


def second_job(replica: Replica, runner: dict[str, str], repository: str = REPOSITORY, **settings: Any) -> Published:
    _, head = replica.commits()
    run = {"head_sha": head, "head_branch": "feat/x", "head_repository": {"full_name": repository}, "pull_requests": []}
    Path(runner["GITHUB_EVENT_PATH"]).write_text(json.dumps({"workflow_run": run}))
    environment = {**runner, "GITHUB_EVENT_NAME": "workflow_run", "GITHUB_TOKEN": replica.tokens["bot"]}
    return hurried(FILES, verdict(Outcome.PASS), replace(CHECKED, **{"tested": head, **settings}), environment)


def test_a_second_job_finds_the_pull_request_by_its_head(replica: Replica, runner: dict[str, str]) -> None:
    assert second_job(replica, runner).comment == "created"
    assert [check["conclusion"] for check in replica.check_runs()] == ["success"]


def test_a_comment_job_updates_the_live_head_only(replica: Replica, runner: dict[str, str]) -> None:
    _, head = replica.commits()
    Path(runner["GITHUB_EVENT_PATH"]).write_text(json.dumps({"issue": {"number": PULL_REQUEST, "pull_request": {}}}))
    environment = {**runner, "GITHUB_EVENT_NAME": "issue_comment", "GITHUB_TOKEN": replica.tokens["bot"]}
    old = hurried(FILES, verdict(Outcome.PASS), replace(CHECKED, tested="d" * 40), environment)
    assert (old.comment, replica.comments(), replica.check_runs()) == ("outdated", [], [])
    with pytest.raises(PublishError, match="does not say which commit"):
        hurried(FILES, verdict(Outcome.PASS), CHECKED, environment)
    done = hurried(FILES, verdict(Outcome.PASS), replace(CHECKED, tested=head), environment)
    assert done.comment == "created"
    assert [(check["head_sha"], check["conclusion"]) for check in replica.check_runs()] == [(head, "success")]


def test_a_comment_job_never_puts_back_what_a_newer_run_has_replaced(replica: Replica, runner: dict[str, str]) -> None:
    """It was woken for the evidence that was shown, and while it judged, a newer run was published."""
    _, head = replica.commits()
    replica.comment_as("bot", f"{Shown(GATE, head, Run(90, 1), 'f' * 64).lines()}## FAIL\n")
    Path(runner["GITHUB_EVENT_PATH"]).write_text(json.dumps({"issue": {"number": PULL_REQUEST, "pull_request": {}}}))
    environment = {**runner, "GITHUB_EVENT_NAME": "issue_comment", "GITHUB_TOKEN": replica.tokens["bot"]}
    settings = replace(CHECKED, tested=head, drawn_from="e" * 64)
    assert hurried(FILES, verdict(Outcome.PASS), settings, environment).comment == "newer"
    assert "## FAIL" in replica.comments()[0]["body"]
    assert replica.check_runs() == []
    assert hurried(FILES, verdict(Outcome.PASS), replace(settings, drawn_from="f" * 64), environment).comment == "updated"
    assert [check["external_id"] for check in replica.check_runs()] == ["servegate:90.1"]


def test_of_two_second_jobs_the_one_of_the_newer_measurement_counts(replica: Replica, runner: dict[str, str]) -> None:
    """The older measurement ends last, so the job that publishes it has the higher number."""
    _, head = replica.commits()

    def job(own: str, measured: int, outcome: Outcome) -> Published:
        run = {"id": measured, "run_attempt": 1, "head_sha": head, "head_branch": "feat/x", "pull_requests": []}
        run["head_repository"] = {"full_name": REPOSITORY}
        Path(runner["GITHUB_EVENT_PATH"]).write_text(json.dumps({"workflow_run": run}))
        environment = {
            **runner,
            "GITHUB_EVENT_NAME": "workflow_run",
            "GITHUB_TOKEN": replica.tokens["bot"],
            "GITHUB_RUN_ID": own,
        }
        return hurried(FILES, verdict(outcome), replace(CHECKED, tested=head), environment)

    assert job("200", 60, Outcome.FAIL).comment == "created"
    assert job("201", 50, Outcome.PASS).comment == "newer"
    assert [check["conclusion"] for check in replica.check_runs()] == ["failure"]
    assert f"[run 60, attempt 1](https://github.com/{REPOSITORY}/actions/runs/60)" in replica.comments()[0]["body"]


def test_a_head_that_no_open_pull_request_has_is_left_alone(replica: Replica, runner: dict[str, str]) -> None:
    done = second_job(replica, runner, "eve/llm")
    assert (done.comment, replica.comments(), replica.check_runs()) == ("skipped", [], [])
    assert "no open pull request" in done.log[-1]


def test_evidence_of_another_commit_or_of_none_is_refused_in_a_second_job(replica: Replica, runner: dict[str, str]) -> None:
    with pytest.raises(PublishError, match="about the commit"):
        second_job(replica, runner, tested="d" * 40)
    with pytest.raises(PublishError, match="does not say which commit"):
        second_job(replica, runner, tested=None)
    assert replica.comments() == []


def test_what_a_fork_uploaded_is_never_a_success() -> None:
    assert conclusion_of(Outcome.PASS, frozenset(), authoritative=False) == "neutral"
    assert conclusion_of(Outcome.FAIL, frozenset(), authoritative=False) == "failure"


def test_two_pull_requests_of_one_head_are_refused(runner: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with enterprise([]) as scripted:
        side = {"head": {"sha": HEAD, "repo": {"full_name": "eve/llm"}}, "base": {"sha": BASE}}
        scripted.answers["GET", f"/api/v3/repos/{REPOSITORY}/pulls"] = [(200, [{"number": n, **side} for n in (1, 2)])]
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        run = {"head_sha": HEAD, "head_branch": "x&state=all", "head_repository": {"full_name": "eve/llm"}}
        Path(runner["GITHUB_EVENT_PATH"]).write_text(json.dumps({"workflow_run": run}))
        environment = {**runner, "GITHUB_EVENT_NAME": "workflow_run", "GITHUB_API_URL": scripted.url, "GITHUB_TOKEN": "t"}
        with pytest.raises(PublishError, match="2 open pull requests have the head aaaaaaaaaaaa: 1, 2"):
            hurried(FILES, verdict(), replace(CHECKED, tested=HEAD), environment)


def test_a_server_that_never_ends_its_answer_is_left_at_the_deadline() -> None:
    waits = threading.Event()
    with pytest.raises(PublishError, match="did not settle it within 0 s"):
        within(0.05, waits.wait)
    waits.set()
    assert within(5, lambda: 3) == 3
    with pytest.raises(KeyError):
        within(5, lambda: {}["x"])


# -- what the replica can not answer ------------------------------------------------------------------------------


class Scripted:
    """Answers each (method, path) with the next of its answers, the last one for ever."""

    def __init__(self, answers: dict[tuple[str, str], list[tuple[int, Any]]]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, str | None]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("content-length") or 0)
                self.rfile.read(length)
                path = self.path.partition("?")[0]
                outer.asked.append((self.command, path, self.headers.get("authorization")))
                queue = outer.answers.get((self.command, path), [(404, {"message": "Not Found"})])
                status, body = queue.pop(0) if len(queue) > 1 else queue[0]
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(content)))
                for name, value in (body.get("headers") or {}).items() if isinstance(body, dict) else ():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PATCH = do_DELETE = answer

            def log_message(self, *_: Any) -> None:
                """Be quiet."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/api/v3"

    def __enter__(self) -> Scripted:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


HEAD, BASE = "a" * 40, "b" * 40
PULL, COMMENTS, GRAPHQL = f"/api/v3/repos/{REPOSITORY}/pulls/1", f"/api/v3/repos/{REPOSITORY}/issues/1/comments", "/api/graphql"


def enterprise(post: list[tuple[int, Any]], listed: Any = None, patch: Any = None) -> Scripted:
    scripted = Scripted({})
    root = scripted.url
    pull = {
        "number": 1,
        "head": {"sha": HEAD},
        "url": f"{root}/repos/{REPOSITORY}/pulls/1",
        "issue_url": f"{root}/repos/{REPOSITORY}/issues/1",
    }
    scripted.answers = {
        ("GET", PULL): [(200, pull)],
        ("POST", GRAPHQL): [(200, {"data": {"viewer": {"login": "github-actions[bot]"}}})],
        ("GET", COMMENTS): [
            (200, [{**one, "url": f"{root}/repos/{REPOSITORY}/issues/comments/{one['id']}"} for one in listed or []])
        ],
        ("POST", COMMENTS): post,
        ("PATCH", f"/api/v3/repos/{REPOSITORY}/issues/comments/5"): [(200, patch or {})],
    }
    return scripted


def publish_to(scripted: Scripted, runner: dict[str, str], monkeypatch: pytest.MonkeyPatch, **changes: str) -> Published:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    Path(runner["GITHUB_EVENT_PATH"]).write_text(json.dumps(pull_request_event(1, HEAD, BASE, "eve/llm")))
    environment = {**runner, "GITHUB_API_URL": scripted.url, "GITHUB_TOKEN": "ghs_canary0123456789", **changes}
    return hurried(FILES, verdict(Outcome.PASS), SETTINGS, environment)


def created(identity: int = 5) -> dict[str, Any]:
    return {
        "id": identity,
        "body": marker(GATE),
        "user": {"login": "github-actions[bot]"},
        "html_url": f"https://ghe.example/c/{identity}",
    }


def test_a_read_only_token_costs_the_comment_and_nothing_else(runner: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = (403, {"message": "Resource not accessible by integration"})
    with enterprise([refusal]) as scripted:
        done = publish_to(scripted, runner, monkeypatch)
    assert done.comment == "read-only"
    said = "\n".join(done.log)
    assert "stored for a second job" in said
    assert "pull-requests: write" in said
    assert "Resource not accessible by integration" in said
    assert "canary" not in said
    assert [path for method, path, _ in scripted.asked if method == "POST"] == [GRAPHQL, COMMENTS]
    assert Path(runner["GITHUB_STEP_SUMMARY"]).read_bytes().startswith(FILES["summary.md"])
    assert runner_outputs(Path(runner["GITHUB_OUTPUT"]).read_text())["verdict"] == "pass"


def test_another_refusal_is_not_a_read_only_token(runner: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        enterprise([(403, {"message": "Must have admin rights to Repository."})]) as scripted,
        pytest.raises(PublishError) as caught,
    ):
        publish_to(scripted, runner, monkeypatch)
    assert caught.value.exit_code is ExitCode.NOT_PUBLISHED


def test_a_locked_conversation_is_a_notice(runner: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with enterprise([(403, {"message": "Unable to create comment because issue is locked."})]) as scripted:
        done = publish_to(scripted, runner, monkeypatch)
    assert done.comment == "locked"
    assert done.log[-1].startswith("::notice ")


def test_a_secondary_rate_limit_is_waited_for(runner: dict[str, str], monkeypatch: pytest.MonkeyPatch, clock: Hasty) -> None:
    limit = (403, {"message": "You have exceeded a secondary rate limit.", "headers": {"retry-after": "7"}})
    with enterprise([limit, (201, created())]) as scripted:
        done = publish_to(scripted, runner, monkeypatch)
    assert done.comment == "created"
    assert clock.slept == [7.0]


@pytest.mark.parametrize("request_limited", ["POST", "GET"])
def test_a_limit_longer_than_we_may_wait_is_an_error(
    runner: dict[str, str], monkeypatch: pytest.MonkeyPatch, clock: Hasty, request_limited: str
) -> None:
    with enterprise([(201, created())]) as scripted:
        limit = (429, {"message": "Too many requests", "headers": {"retry-after": "3600"}})
        scripted.answers[(request_limited, COMMENTS)] = [limit]
        with pytest.raises(PublishError, match="rate limit"):
            publish_to(scripted, runner, monkeypatch)
    assert clock.slept == []


def test_an_edit_that_github_ignored_is_noticed(runner: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    old = {**created(), "body": f"{marker(GATE)}\n<!-- servegate-run: {'0' * 40} 1.1 -->\nold"}
    with (
        enterprise([(201, created())], listed=[old], patch=old) as scripted,
        pytest.raises(PublishError, match="kept the old text"),
    ):
        publish_to(scripted, runner, monkeypatch)


def test_a_token_of_nobody_is_named(runner: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with enterprise([]) as scripted:
        scripted.answers[("GET", PULL)] = [(401, {"message": "Bad credentials"})]
        with pytest.raises(PublishError, match="does not accept the token"):
            publish_to(scripted, runner, monkeypatch)


def test_a_server_that_is_not_there_is_an_error_in_words(runner: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with enterprise([]) as scripted:
        pass
    monkeypatch.setattr(pull_request._Retry, "sleep", lambda *_: None)
    with pytest.raises(PublishError, match="could not be reached"):
        publish_to(scripted, runner, monkeypatch)


def test_the_token_goes_to_the_given_server_only(runner: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    with enterprise([(201, created())]) as scripted:
        publish_to(scripted, runner, monkeypatch)
    assert {path.split("/")[1] for _, path, _ in scripted.asked} == {"api"}
    assert all("canary" in (authorization or "") for _, _, authorization in scripted.asked)
