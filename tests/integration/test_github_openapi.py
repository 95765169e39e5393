"""Our calls against GitHub's own description of its API: what we send is held to it by a validator that is not ours.

The replica answers as we believe that GitHub does, so a wrong belief would pass every other test. Here each request of the real
client goes through Prism (npm `@stoplight/prism-cli`), which holds it to the OpenAPI description that GitHub publishes (npm
`@octokit/openapi`), before the replica answers. Opt in, since both are 200 MB of npm packages:

    npm install --prefix DIR @stoplight/prism-cli @octokit/openapi
    SERVEGATE_TEST_PRISM=DIR pytest -rs tests/integration/test_github_openapi.py

What is not held to it: GraphQL, which has no such description, and what the replica answers.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from servegate.domain.judgement import Outcome
from servegate.publish import Publication, publish
from servegate.publish.acceptances import Comments
from servegate.publish.annotations import Annotation
from servegate.publish.fetching import newest
from servegate.publish.pull_request import connect
from tests.conftest import Need
from tests.fakes.github import PULL_REQUEST, REPOSITORY, Replica
from tests.unit.publish.test_publish import FILES, verdict

pytestmark = [pytest.mark.service, pytest.mark.timeout(300)]

GITHUB = "https://api.github.com"
REPO = "/repos/{owner}/{repo}"
PATHS = (
    f"{REPO}/pulls/{{pull_number}}",
    f"{REPO}/pulls/{{pull_number}}/commits",
    f"{REPO}/issues/{{issue_number}}/comments",
    f"{REPO}/issues/comments/{{comment_id}}",
    f"{REPO}/issues/comments/{{comment_id}}/reactions",
    f"{REPO}/commits/{{ref}}/check-runs",
    f"{REPO}/check-runs",
    f"{REPO}/check-runs/{{check_run_id}}",
    f"{REPO}/collaborators/{{username}}/permission",
    f"{REPO}/actions/artifacts",
)
ANY = {"description": "not described by GitHub", "content": {"application/json": {}}}


@pytest.fixture(scope="module")
def replica(shared_replica: Replica) -> Replica:
    return shared_replica


@pytest.fixture(scope="module")
def prism(replica: Replica, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of Prism in front of the replica, with the operations that we use."""
    root = os.environ.get("SERVEGATE_TEST_PRISM")
    if not root:
        pytest.skip("SERVEGATE_TEST_PRISM is not set: our calls are not held to GitHub's OpenAPI description (see this file)")
    modules = Path(root, "node_modules")
    described = json.loads((modules / "@octokit/openapi/generated/api.github.com.json").read_text())
    described["paths"] = {path: described["paths"][path] for path in PATHS}
    described["paths"]["/graphql"] = {"post": {"requestBody": {"content": {"application/json": {}}}, "responses": {"200": ANY}}}
    for operations in described["paths"].values():
        for method in ("get", "post", "patch", "put", "delete"):
            if method in operations:
                # What the replica leaves out of its answers would only hide what we send wrong: the list of faults is cut.
                operations[method]["responses"] = {"default": ANY}
    folder = tmp_path_factory.mktemp("prism")
    (folder / "api.json").write_text(json.dumps(described))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    upstream = f"http://127.0.0.1:{replica.control}/gw/api.github.com"
    program = ["node", str(modules / ".bin/prism"), "proxy", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*program, str(folder / "api.json"), upstream], stdout=log, stderr=log)
    try:
        wait_for(port, process, folder / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    until = time.monotonic() + 120
    while process.poll() is None and time.monotonic() < until:
        try:
            opener.open(f"http://127.0.0.1:{port}/", timeout=5).close()
        except urllib.error.HTTPError:
            return
        except OSError:
            time.sleep(0.3)
    raise RuntimeError(f"Prism did not start: {log.read_text()[-2000:]}")


@pytest.fixture
def sent(prism: str, replica: Replica, need: Need, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any]]:
    """Every request (method, path, what the validator says of it); the client believes that it talks to api.github.com."""
    need("node")
    replica.reset()
    found: list[tuple[str, str, Any]] = []
    real = requests.adapters.HTTPAdapter.send

    def send(self: Any, request: Any, *arguments: Any, **options: Any) -> Any:
        if not request.url.startswith(GITHUB):
            return real(self, request, *arguments, **options)
        asked = request.url.removeprefix(GITHUB).removeprefix(":443")
        path = asked.partition("?")[0]
        request.url = prism + asked
        # Prism takes the media types of GitHub's versions for unknown ones; only the answer's form depends on this header.
        request.headers["Accept"] = "application/json"
        options["proxies"] = {}
        answer = real(self, request, *arguments, **options)
        said = json.loads(answer.headers.get("sl-violations", "[]"))
        found.append((request.method, path, [each for each in said if each["location"][0] == "request"]))
        return answer

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return found


def test_what_we_send_is_what_github_describes(replica: Replica, sent: list[tuple[str, str, Any]], tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    event.write_text(json.dumps(replica.event()))
    runner = {
        "GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": str(event), "GITHUB_RUN_ID": "7",
        "GITHUB_REPOSITORY": REPOSITORY, "GITHUB_TOKEN": replica.tokens["bot"],
    }  # fmt: skip
    note = Annotation("serving/a.yaml", 3, "failure", "fail: accuracy fell")
    settings = Publication(gate="demo", run_directory="/r", check_run=True, annotations=(note,))

    def client(url: str, token: str) -> Any:
        return connect(url, token, pause_s=0)

    for run, outcome, conclusion in (("7", Outcome.FAIL, None), ("8", Outcome.PASS, None), ("9", Outcome.ERROR, "cancelled")):
        environment = {**runner, "GITHUB_RUN_ID": run}
        done = publish(FILES, verdict(outcome, f"run {run}"), replace(settings, conclusion=conclusion), environment, client)
        assert done.comment in {"created", "updated", "unchanged"}
    replica.comment_as("bot", "<!-- servegate:demo -->\nan older double of ours\n")
    publish({**FILES, "comment.md": b"more\n"}, verdict(), settings, {**runner, "GITHUB_RUN_ID": "10"}, client)

    number = replica.comment_as("dev", "/servegate accept p fine")
    replica.permit("dev", "push")
    asking = {"id": number, "body": "/servegate accept p fine", "user": {"login": "dev"}}
    told = {"action": "created", "issue": {"number": PULL_REQUEST, "pull_request": {}}, "comment": asking}
    event.write_text(json.dumps(told))
    comments = Comments({**runner, "GITHUB_EVENT_NAME": "issue_comment"}, lambda: client(GITHUB, replica.tokens["bot"]))
    assert comments.writer().prompt == "p"
    comments.react("+1")

    replica.upload(5, replica.commits()[1], b"")
    assert newest(client(GITHUB, replica.tokens["bot"]), REPOSITORY, PULL_REQUEST, "servegate-run").run_id == 50

    assert [each for each in sent if each[2]] == []
    used = {(method, path.replace(f"/repos/{REPOSITORY}", "")) for method, path, _ in sent}
    shapes = {
        (method, "/".join("N" if part.isdigit() or len(part) == 40 else part for part in path.split("/")))
        for method, path in used
    }
    assert shapes == {
        ("POST", "/graphql"), ("GET", "/pulls/N"), ("GET", "/issues/N/comments"), ("POST", "/issues/N/comments"),
        ("PATCH", "/issues/comments/N"), ("DELETE", "/issues/comments/N"), ("GET", "/commits/N/check-runs"),
        ("POST", "/check-runs"), ("PATCH", "/check-runs/N"), ("GET", "/collaborators/dev/permission"),
        ("POST", "/issues/comments/N/reactions"), ("GET", "/pulls/N/commits"), ("GET", "/actions/artifacts"),
    }  # fmt: skip


def test_the_validator_does_find_what_is_wrong(replica: Replica, sent: list[tuple[str, str, Any]]) -> None:
    """Otherwise the test above could not fail."""
    repository = connect(GITHUB, replica.tokens["bot"], pause_s=0).get_repo(REPOSITORY)
    head = replica.commits()[1]
    repository.create_check_run(name="x", head_sha=head, status="finished", conclusion="passed")
    [(_, _, said)] = [each for each in sent if each[1].endswith("/check-runs")]
    assert "status" in json.dumps(said)
