"""One comment per gate on a pull request: found again by a hidden marker, updated in place, never doubled.

The first lines of the comment are ours and invisible (`marks`): which gate it belongs to, and which commit and run it shows.
A comment is ours when it *starts* with the marker and its author is who we are, so that a person who quotes it, or a
model that prints it, owns nothing. GitHub gives no way to create a comment once only, and a request that timed out may
have been carried out. So nothing is ever posted twice in a row: we look again before every attempt and after every
success, and of several comments of ours the oldest stays. The library's own retry is therefore off for POST and on for
the requests that may be repeated.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import requests
from github import Auth, Github, GithubException
from github.GithubRetry import GithubRetry
from github.IssueComment import IssueComment
from github.PullRequest import PullRequest as LivePullRequest
from urllib3 import Retry

from servegate.errors import PublishError
from servegate.publish.event import Event, PullRequest
from servegate.publish.marks import Body, Shown, marker, shown_by, written_by
from servegate.publish.refusals import LockedError, message_of, said_in_words

MAX_BODY_BYTES = 65_000
"""GitHub refuses a comment over 65,536 characters (`Body is too long (maximum is 65536 characters)`)."""
DEADLINE_S = 120.0
MAX_WAIT_S = 30.0
ATTEMPTS = 4
_REQUEST_TIMEOUT_S = 15
_ACTIONS_BOT = "github-actions[bot]"

Action = Literal["created", "updated", "unchanged", "outdated", "newer", "locked", "absent"]


@dataclass(frozen=True)
class Commented:
    """What became of the comment; `url` is None when none of ours is there."""

    action: Action
    url: str | None
    deleted: int = 0


class Clock:
    """Monotonic time, replaceable in tests."""

    def now(self) -> float:
        """Return seconds from an arbitrary start."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class _Retry(GithubRetry):
    """Repeats reads and edits, never a POST, and gives up rather than wait longer than `MAX_WAIT_S` at a time."""

    def __init__(self, **options: Any) -> None:
        """Take urllib3's options; it makes a copy of this object for every attempt."""
        super().__init__(
            max_rate_limit_wait=MAX_WAIT_S,
            **{"total": 3, "backoff_factor": 1, "allowed_methods": {"GET", "PATCH", "DELETE"}, **options},
        )

    def new(self, **options: Any) -> Self:
        """Copy, without the option that the constructor sets itself."""
        return Retry.new(self, **options)

    def get_retry_after(self, response: Any) -> float | None:
        """Seconds that GitHub asks us to wait. Raises PublishError when that is too long."""
        told = super().get_retry_after(response)
        if told is not None and told > MAX_WAIT_S:
            raise PublishError(f"GitHub's rate limit is used up: it asks to wait {told:.0f} s", advice="Publish again later.")
        return told


def connect(api_url: str, token: str, pause_s: float = 1.0) -> Github:
    """Return a client for one API address (GitHub's or an Enterprise server's).

    `pause_s` lies between two writes, as GitHub asks of well-behaved clients; a quarter of it between any two requests.
    """
    return Github(
        auth=Auth.Token(token),
        base_url=api_url,
        timeout=_REQUEST_TIMEOUT_S,
        retry=_Retry(),
        seconds_between_requests=pause_s / 4,
        seconds_between_writes=pause_s,
        lazy=True,
    )


def put_comment(
    connection: Callable[[], Github],
    event: Event,
    pull_request: PullRequest,
    gate: str,
    text: str,
    clock: Clock | None = None,
    *,
    create: bool = True,
    evidence: str | None = None,
) -> Commented:
    """Create or update the gate's comment, unless a newer commit or a newer run has overtaken us.

    Without `create` a comment that is there is updated, and none is made. `evidence`: sha256 over what the text was drawn from.

    Raises PublishError when GitHub refuses it, or when it was not settled within `DEADLINE_S`.
    """
    body = Body(Shown(gate, pull_request.head_sha, event.run, evidence), text, event.run_url)
    try:
        with said_in_words(event):
            github = connection()
            pull = github.get_repo(event.repository).get_pull(pull_request.number)
            if pull.head.sha != pull_request.head_sha:
                return Commented("outdated", None)
            return _Comments(pull, body, viewer(github), clock or Clock()).put(create)
    except LockedError:
        return Commented("locked", None)


def permission_of(github: Github, repository: str, login: str) -> str:
    """Return what somebody may do in a repository, as GitHub says at this moment: admin, write, read, none."""
    return str(github.get_repo(repository).get_collaborator_permission(login))


def target_of(github: Github, event: Event) -> PullRequest | None:
    """Return the pull request that an event without one in its payload is about; None when there is none.

    A `workflow_run` of a fork names no pull request, so it is found by head commit and head repository among the open ones:
    by what GitHub says, never by a number that the fork's workflow wrote down.

    Raises:
        PublishError: several open pull requests have that head.
    """
    repository = github.get_repo(event.repository)
    if event.issue is not None:
        return _as_ours(repository.get_pull(event.issue), event.repository)
    source = event.measured_by
    if source is None or source.repository is None:
        return None
    owner = source.repository.partition("/")[0]
    found = [
        pull
        for pull in repository.get_pulls(state="open", head=f"{owner}:{source.branch}")
        if pull.head.sha == source.head_sha
        and (pull.head.repo.full_name.lower() if pull.head.repo else None) == source.repository
    ]
    if len(found) > 1:
        numbers = ", ".join(str(pull.number) for pull in found)
        raise PublishError(
            f"{len(found)} open pull requests have the head {source.head_sha[:12]}: {numbers}", advice="Close all but one."
        )
    return _as_ours(found[0], event.repository) if found else None


def _as_ours(pull: LivePullRequest, repository: str) -> PullRequest:
    return PullRequest(pull.number, pull.head.sha, pull.base.sha, fork=_head_of(pull) != repository.lower())


def _head_of(pull: LivePullRequest) -> str | None:
    """Name of the head's repository; a deleted fork has none."""
    return pull.head.repo.full_name.lower() if pull.head.repo else None


class _Comments:
    """The gate's comments on one pull request."""

    def __init__(self, pull: LivePullRequest, body: Body, author: str, clock: Clock) -> None:
        self.pull = pull
        self.body = body
        self.author = author
        self.clock = clock

    def ours(self) -> list[IssueComment]:
        """Every comment of ours on all pages, the oldest first."""
        start = marker(self.body.shown.gate)
        found = [
            comment
            for comment in self.pull.get_issue_comments()
            if (comment.body or "").startswith(start) and written_by(comment, self.author)
        ]
        return sorted(found, key=lambda comment: comment.id)

    def put(self, create: bool) -> Commented:
        until = self.clock.now() + DEADLINE_S
        for attempt in range(ATTEMPTS):
            if ours := self.ours():
                return self.settle(ours, mine=None)
            if not create:
                return Commented("absent", None)
            try:
                created = self.pull.create_issue_comment(self.body.made())
            except (GithubException, requests.RequestException) as error:
                pause = _pause_before_retry(error, attempt)
                if pause is None or attempt + 1 == ATTEMPTS or self.clock.now() + pause > until:
                    raise
                self.clock.sleep(pause)
                continue
            # The author of what we have just written is who we are, whatever was guessed before.
            self.author = created.user.login
            return self.settle(self.ours() or [created], mine=created)
        raise AssertionError("unreachable: the last attempt returns or raises")

    def settle(self, ours: list[IssueComment], mine: IssueComment | None) -> Commented:
        """Leave one comment, with the newest run's text: the oldest one. `mine` was created by this very call."""
        run = self.body.shown.run
        others = [shown_by(comment.body) for comment in ours if mine is None or comment.id != mine.id]
        if any(other is not None and other.run > run for other in others):
            if mine is not None:
                mine.delete()
            url = next(comment.html_url for comment in ours if mine is None or comment.id != mine.id)
            return Commented("newer", url, deleted=int(mine is not None))
        kept, surplus = ours[0], ours[1:]
        action: Action = "created" if mine is not None and kept.id == mine.id else "unchanged"
        body = self._after(kept)
        if action == "unchanged" and kept.body != body:
            kept.edit(body)
            if shown_by(kept.body) != shown_by(body):
                raise PublishError(
                    "GitHub accepted the new comment and kept the old text",
                    advice=f"Delete {kept.html_url} and publish again.",
                )
            action = "updated"
        for comment in surplus:
            comment.delete()
        return Commented(action, kept.html_url, deleted=len(surplus))

    def _after(self, kept: IssueComment) -> str:
        """Return the body that follows one that is there: of the same evidence, it says since when that has been shown."""
        before = shown_by(kept.body)
        if before is None or before.evidence is None or before.evidence != self.body.shown.evidence:
            return self.body.made()
        same = self.body.made(before.since)
        return same if same == kept.body else self.body.made(before.since or kept.updated_at)


def viewer(github: Github) -> str:
    """Who the token speaks as. A workflow's own token may not read /user, but may ask GraphQL for its viewer."""
    try:
        _, answer = github.requester.graphql_query("query { viewer { login } }", {})
        login = answer["data"]["viewer"]["login"]
    except (GithubException, requests.RequestException, KeyError, TypeError):
        return _ACTIONS_BOT
    return login if isinstance(login, str) and login else _ACTIONS_BOT


def _pause_before_retry(error: Exception, attempt: int) -> float | None:
    """Seconds to wait before looking again, or None when trying again can not help."""
    if not isinstance(error, GithubException):
        return float(2**attempt)
    limited = error.status == 429 or "rate limit" in message_of(error).lower()
    if limited:
        told = {key.lower(): value for key, value in (error.headers or {}).items()}.get("retry-after", "")
        return float(told) if re.fullmatch(r"[0-9]{1,4}", str(told)) else 60.0
    return float(2**attempt) if error.status >= 500 else None
