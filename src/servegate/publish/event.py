"""What happened on GitHub, read from the runner's environment and the event's payload. No network.

The payload is a JSON document whose texts an outsider may have written. Only numbers, commit ids and repository names
are taken out of it, each checked for its form; the repository and the run come from the runner's own variables.
A pull request's commit is `pull_request.head.sha`: GITHUB_SHA names a merge commit that no reviewer ever sees.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from servegate.errors import PublishError

MAX_EVENT_BYTES = 32 << 20
"""GitHub caps the payload of a webhook at 25 MB (https://docs.github.com/en/webhooks/webhook-events-and-payloads)."""

PULL_REQUEST_EVENTS = frozenset({"pull_request", "pull_request_review", "pull_request_target"})

_OTHERS = frozenset({"workflow_run", "merge_group", "issue_comment"})
"""Events without a pull request in the payload, of which something is read; push, workflow_dispatch, schedule and release
say all that is needed in the runner's variables."""

_REPOSITORY = re.compile(r"[A-Za-z0-9_.-]{1,100}/[A-Za-z0-9_.-]{1,100}")
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, order=True)
class Run:
    """One attempt of one workflow run. GitHub numbers runs upwards in time, so a larger one is newer."""

    id: int
    attempt: int


@dataclass(frozen=True)
class PullRequest:
    """The pull request that an event is about. `fork` says that its head lies in another repository (or in none any more)."""

    number: int
    head_sha: str
    base_sha: str
    fork: bool


@dataclass(frozen=True)
class Source:
    """The workflow run that measured: its head, and where that lies. GitHub fills this in, not the workflow that ran."""

    head_sha: str
    branch: str
    repository: str | None
    fork: bool


@dataclass(frozen=True)
class Event:
    """One workflow run and why it runs. `pull_request` is None with a reason in `no_pull_request`."""

    name: str
    repository: str
    run: Run
    """The run that measured: of a `workflow_run` the other one, whose number says which evidence is newer."""
    run_url: str
    api_url: str
    pull_request: PullRequest | None
    no_pull_request: str = ""
    sha: str | None = None
    """The commit that the event is about, for a check run; never the merge commit of a pull request."""
    measured_by: Source | None = None
    """Of a `workflow_run`: the workflow whose evidence is published now."""
    issue: int | None = None
    """Of an `issue_comment`: the pull request that was commented on."""

    @property
    def authoritative(self) -> bool:
        """Whether the evidence comes from a workflow of this repository's own branches."""
        return not (self.measured_by and self.measured_by.fork) and not (self.pull_request and self.pull_request.fork)


def on_actions(environment: Mapping[str, str]) -> bool:
    """Say whether a GitHub Actions runner (or a program that behaves as one) started us."""
    return environment.get("GITHUB_ACTIONS") == "true"


def read_event(environment: Mapping[str, str], payload: bytes) -> Event:
    """Return the event of a runner's environment and its payload's bytes.

    Raises PublishError when a variable is missing or malformed, or the payload is not what GitHub sends.
    """
    name = environment.get("GITHUB_EVENT_NAME", "")
    repository = _variable(environment, "GITHUB_REPOSITORY", _REPOSITORY, "owner/name")
    number = re.compile(r"[0-9]{1,20}")
    run = Run(
        id=int(_variable(environment, "GITHUB_RUN_ID", number, "a number")),
        attempt=int(environment.get("GITHUB_RUN_ATTEMPT") or "1") if _is_attempt(environment) else 1,
    )
    api_url = api_address(environment)
    server_url = _url(environment, "GITHUB_SERVER_URL", "https://github.com")
    document = document_of(payload) if name in PULL_REQUEST_EVENTS or name in _OTHERS else {}
    pull_request = _pull_request(document) if name in PULL_REQUEST_EVENTS else None
    source = _source(document, repository) if name == "workflow_run" else None
    run = (_measuring(document) if source else None) or run
    own_sha = environment.get("GITHUB_SHA", "")
    return Event(
        name=name,
        repository=repository,
        run=run,
        run_url=f"{server_url}/{repository}/actions/runs/{run.id}",
        api_url=api_url,
        pull_request=pull_request,
        no_pull_request="" if pull_request else f"an event of kind {name!r} is about no pull request",
        sha=pull_request.head_sha if pull_request else source.head_sha if source else _plain_sha(name, document, own_sha),
        measured_by=source,
        issue=_issue(document) if name == "issue_comment" else None,
    )


def _plain_sha(name: str, document: dict[str, Any], own: str) -> str | None:
    """Return the commit of an event without pull request: the merge queue's head, else the runner's own."""
    if name == "merge_group":
        return _commit({"sha": _member(_member(document, "merge_group", dict, name), "head_sha", str, name)}, name)
    return own if name in ("push", "workflow_dispatch", "schedule", "release") and _COMMIT.fullmatch(own) else None


def _source(document: dict[str, Any], repository: str) -> Source:
    run = _member(document, "workflow_run", dict, "the payload")
    sha = _commit({"sha": _member(run, "head_sha", str, "workflow_run")}, "workflow_run.head")
    head = _repository_name({"repo": run.get("head_repository")})
    branch = run.get("head_branch")
    return Source(sha, branch if isinstance(branch, str) else "", head, head != repository.lower())


def _measuring(document: dict[str, Any]) -> Run | None:
    """Return the run that measured. Jobs that publish may start in another order than the runs that they publish."""
    run = document["workflow_run"]
    number, attempt = run.get("id"), run.get("run_attempt", 1)
    whole = all(isinstance(each, int) and not isinstance(each, bool) and 0 < each < 1 << 53 for each in (number, attempt))
    return Run(number, attempt) if whole else None


def _issue(document: dict[str, Any]) -> int:
    number = _member(_member(document, "issue", dict, "the payload"), "number", int, "issue")
    if isinstance(number, bool) or not 0 < number < 1 << 53:
        raise _damaged("says issue.number is no positive number")
    return int(number)


@dataclass(frozen=True)
class Compared:
    """The commits that an event is about: the base branch's tip and the newest of the change."""

    base: str
    head: str
    fork: bool = False


def compared_commits(environment: Mapping[str, str]) -> Compared | None:
    """Return what the event compares: a pull request, a merge queue's group, or a push; None away from such an event.

    Reads the payload's file. Raises PublishError when it is not what GitHub sends.
    """
    name, path = environment.get("GITHUB_EVENT_NAME", ""), environment.get("GITHUB_EVENT_PATH", "")
    if not on_actions(environment) or name not in {*PULL_REQUEST_EVENTS, "merge_group", "push"}:
        return None
    document = document_of(payload_of(path))
    if name in PULL_REQUEST_EVENTS:
        pull = _pull_request(document)
        return Compared(pull.base_sha, pull.head_sha, pull.fork)
    side = _member(document, "merge_group", dict, "the payload") if name == "merge_group" else document
    keys = ("base_sha", "head_sha") if name == "merge_group" else ("before", "after")
    found = [_member(side, key, str, name) for key in keys]
    if not all(_COMMIT.fullmatch(sha) for sha in found) or "0" * 40 in found:
        raise _damaged(f"of kind {name!r} names no two commits")
    return Compared(found[0], found[1])


def payload_of(path: str) -> bytes:
    """Read the event's file, bounded. Raises PublishError when it is not readable."""
    try:
        with Path(path).open("rb") as stream:
            return stream.read(MAX_EVENT_BYTES + 1)
    except OSError as error:
        raise PublishError(
            f"the event's payload is not readable: {error.strerror}",
            why=f"GITHUB_EVENT_PATH is {path[:200]!r}.",
            advice="Mount that file into the container, read-only and at the same path.",
        ) from error


def api_address(environment: Mapping[str, str]) -> str:
    """Return the address of GitHub's API, or of an Enterprise server's. Raises PublishError when it is not https."""
    return _url(environment, "GITHUB_API_URL", "https://api.github.com")


def _is_attempt(environment: Mapping[str, str]) -> bool:
    return re.fullmatch(r"[0-9]{1,9}", environment.get("GITHUB_RUN_ATTEMPT", "")) is not None


def _variable(environment: Mapping[str, str], name: str, form: re.Pattern[str], allowed: str) -> str:
    value = environment.get(name, "")
    if not form.fullmatch(value):
        raise PublishError(
            f"{name} is {value[:80]!r}, not {allowed}",
            why="The runner sets this variable; a container must be given it.",
            advice=f"Pass it on: docker run --env {name}",
        )
    return value


def _url(environment: Mapping[str, str], name: str, default: str) -> str:
    """An https address: the token goes there, so plain http is for tests on this machine only."""
    value = (environment.get(name) or default).rstrip("/")
    try:
        parts = urlsplit(value)
        host = parts.hostname
    except ValueError:
        parts, host = urlsplit(""), None
    if not host or parts.username or not (parts.scheme == "https" or (parts.scheme == "http" and host in _LOOPBACK)):
        raise PublishError(f"{name} is {value[:80]!r}, not an https address", advice=f"Unset it, or set it to {default}.")
    return value


def document_of(payload: bytes) -> dict[str, Any]:
    """Parse an event's payload, bounded. Raises PublishError when it is no JSON object."""
    if len(payload) > MAX_EVENT_BYTES:
        raise _damaged(f"is larger than {MAX_EVENT_BYTES} bytes")
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise _damaged(f"is not JSON ({type(error).__name__})") from None
    if not isinstance(document, dict):
        raise _damaged(f"holds a {type(document).__name__}, not an object")
    return document


def _pull_request(document: dict[str, Any]) -> PullRequest:
    pull = _member(document, "pull_request", dict, "the payload")
    number = _member(pull, "number", int, "pull_request")
    if isinstance(number, bool) or not 0 < number < 1 << 53:
        raise _damaged(f"says pull_request.number is {str(number)[:40]}, not a positive number")
    head = _member(pull, "head", dict, "pull_request")
    base = _member(pull, "base", dict, "pull_request")
    return PullRequest(
        number=number,
        head_sha=_commit(head, "pull_request.head"),
        base_sha=_commit(base, "pull_request.base"),
        fork=_repository_name(head) != _repository_name(base) or _repository_name(base) is None,
    )


def _commit(side: dict[str, Any], where: str) -> str:
    sha = _member(side, "sha", str, where)
    if not _COMMIT.fullmatch(sha):
        raise _damaged(f"says {where}.sha is {sha[:80]!r}, not a commit id")
    return str(sha)


def _repository_name(side: dict[str, Any]) -> str | None:
    """Name of a side's repository; a deleted fork is null. Names of GitHub ignore case."""
    repository = side.get("repo")
    name = repository.get("full_name") if isinstance(repository, dict) else None
    return name.lower() if isinstance(name, str) else None


def _member(owner: dict[str, Any], key: str, kind: type, where: str) -> Any:
    value = owner.get(key)
    if not isinstance(value, kind):
        raise _damaged(f"has no usable {key!r} in {where}")
    return value


def _damaged(how: str) -> PublishError:
    return PublishError(f"the event's payload {how}", advice="Pass the runner's file on unchanged: GITHUB_EVENT_PATH.")
