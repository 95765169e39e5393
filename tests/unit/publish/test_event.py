"""The event tells which pull request and which commit; everything else in it is a stranger's text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from servegate.errors import ExitCode, PublishError
from servegate.publish.event import MAX_EVENT_BYTES, PullRequest, Run, on_actions, read_event
from tests.fakes.github import pull_request_event

HEAD, BASE, MERGE = "a" * 40, "b" * 40, "c" * 40
ENVIRONMENT = {
    "GITHUB_ACTIONS": "true",
    "GITHUB_EVENT_NAME": "pull_request",
    "GITHUB_REPOSITORY": "acme/llm",
    "GITHUB_RUN_ID": "77",
    "GITHUB_RUN_ATTEMPT": "2",
    "GITHUB_SHA": MERGE,
}


def payload(**changes: Any) -> bytes:
    event = pull_request_event(12, HEAD, BASE)
    event["pull_request"].update(changes)
    return json.dumps(event).encode()


def test_a_pull_request_is_known_by_its_head_not_by_the_merge_commit() -> None:
    event = read_event(ENVIRONMENT, payload())
    assert event.pull_request == PullRequest(number=12, head_sha=HEAD, base_sha=BASE, fork=False)
    assert event.run == Run(77, 2)
    assert event.run_url == "https://github.com/acme/llm/actions/runs/77"
    assert event.api_url == "https://api.github.com"


@pytest.mark.parametrize(("head", "fork"), [("acme/llm", False), ("Acme/LLM", False), ("eve/llm", True), (None, True)])
def test_a_fork_is_another_repository_or_none(head: str | None, fork: bool) -> None:
    event = read_event(ENVIRONMENT, json.dumps(pull_request_event(1, HEAD, BASE, head)).encode())
    assert event.pull_request is not None
    assert event.pull_request.fork is fork


@pytest.mark.parametrize("name", ["push", "schedule", "merge_group", "workflow_dispatch", "release", ""])
def test_other_events_are_about_no_pull_request(name: str) -> None:
    content = json.dumps({"merge_group": {"head_sha": HEAD, "base_sha": BASE}}).encode()
    event = read_event({**ENVIRONMENT, "GITHUB_EVENT_NAME": name}, content)
    assert event.pull_request is None
    assert event.sha == (HEAD if name == "merge_group" else None if name == "" else MERGE)
    assert repr(name) in event.no_pull_request


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b"\xff\xfe\x00",
        b"[" * 200_000,
        b'{"pull_request": ' + b"9" * 5000 + b"}",
        b"{}",
        payload(number="1; echo"),
        payload(number=True),
        payload(number=0),
        payload(number=-3),
        payload(number=1 << 60),
        payload(head={"sha": "A" * 40}),
        payload(head={"sha": "../../x"}),
        payload(head={"sha": HEAD + "\n"}),
        payload(head=None),
        payload(base={}),
    ],
    ids=range(18),
)
def test_a_hostile_payload_is_one_clear_error(content: bytes) -> None:
    with pytest.raises(PublishError, match="event's payload") as caught:
        read_event(ENVIRONMENT, content)
    assert caught.value.exit_code is ExitCode.NOT_PUBLISHED
    assert len(caught.value.what) < 300


def test_a_huge_payload_is_not_parsed() -> None:
    with pytest.raises(PublishError, match="larger than"):
        read_event(ENVIRONMENT, b" " * (MAX_EVENT_BYTES + 1))


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("GITHUB_REPOSITORY", ""),
        ("GITHUB_REPOSITORY", "acme"),
        ("GITHUB_REPOSITORY", "acme/llm/../../x"),
        ("GITHUB_RUN_ID", "latest"),
        ("GITHUB_API_URL", "http://ghe.example/api/v3"),
        ("GITHUB_API_URL", "file:///etc/passwd"),
        ("GITHUB_API_URL", "https://user@ghe.example"),
        ("GITHUB_API_URL", "https://[::1"),
        ("GITHUB_SERVER_URL", "javascript:alert(1)"),
    ],
)
def test_a_malformed_variable_is_named(variable: str, value: str) -> None:
    with pytest.raises(PublishError, match=variable):
        read_event({**ENVIRONMENT, variable: value}, payload())


def test_an_enterprise_server_is_addressed_as_the_runner_says() -> None:
    urls = {"GITHUB_API_URL": "https://ghe.example/api/v3/", "GITHUB_SERVER_URL": "https://ghe.example"}
    event = read_event({**ENVIRONMENT, **urls}, payload())
    assert event.api_url == "https://ghe.example/api/v3"
    assert event.run_url.startswith("https://ghe.example/acme/llm/")


def test_a_missing_attempt_is_the_first() -> None:
    environment = {key: value for key, value in ENVIRONMENT.items() if key != "GITHUB_RUN_ATTEMPT"}
    assert read_event(environment, payload()).run == Run(77, 1)
    assert read_event({**environment, "GITHUB_RUN_ATTEMPT": "x"}, payload()).run == Run(77, 1)


def test_runs_are_ordered_by_number_then_attempt() -> None:
    assert Run(9, 9) < Run(10, 1) < Run(10, 2)


def test_actions_is_recognised_by_its_own_variable_only() -> None:
    assert on_actions(ENVIRONMENT)
    assert not on_actions({"CI": "true", "GITHUB_TOKEN": "t"})


def workflow_run(repository: str | None = "eve/llm", **changes: Any) -> bytes:
    head = repository and {"full_name": repository}
    run = {"head_sha": HEAD, "head_branch": "x", "head_repository": head, "pull_requests": [], **changes}
    return json.dumps({"workflow_run": run}).encode()


@pytest.mark.parametrize(("repository", "fork"), [("eve/llm", True), ("acme/LLM", False), (None, True)])
def test_a_finished_workflow_is_known_by_its_head_and_where_that_lies(repository: str | None, fork: bool) -> None:
    event = read_event({**ENVIRONMENT, "GITHUB_EVENT_NAME": "workflow_run"}, workflow_run(repository))
    assert event.measured_by is not None
    assert (event.measured_by.head_sha, event.measured_by.fork, event.sha) == (HEAD, fork, HEAD)
    assert event.authoritative is not fork


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("workflow_run", b"{}"),
        ("workflow_run", workflow_run(head_sha="../x")),
        ("workflow_run", workflow_run(head_sha=None)),
        ("merge_group", b"{}"),
        ("merge_group", b'{"merge_group": {"head_sha": "main"}}'),
        ("issue_comment", b'{"issue": {"number": true}}'),
        ("issue_comment", b'{"issue": {"number": -1}}'),
        ("issue_comment", b"[]"),
    ],
)
def test_hostile_payloads_of_the_other_events(name: str, content: bytes) -> None:
    with pytest.raises(PublishError, match="event's payload"):
        read_event({**ENVIRONMENT, "GITHUB_EVENT_NAME": name}, content)
