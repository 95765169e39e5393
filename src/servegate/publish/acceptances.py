"""Comments that accept something: the one that woke us, and those before it that still stand.

Every acceptance is judged on the stored run, which knows of none, so each time all of them are read again from the pull
request: otherwise the second one would take the first one back. A comment counts when it was never edited, was written after
the run ended (nobody accepts what was not yet measured), and its author may write to the repository at this moment. One that
was deleted accepts nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from github import Github, GithubException, UnknownObjectException

from servegate.errors import PublishError, UsageError
from servegate.publish.commands import WRITERS, Accept, accept_command, accepted_by
from servegate.publish.event import Event, document_of, payload_of, read_event
from servegate.publish.pull_request import connect, permission_of
from servegate.publish.refusals import said_in_words

MOST_EARLIER = 200
DONE, REFUSED, UNKNOWN = "+1", "-1", "confused"
"""Reactions to the comment: accepted; its author may not; the run holds no such change."""


@dataclass(frozen=True)
class Said:
    """An accepting comment and when it was written."""

    asked: Accept
    at: datetime


class Comments:
    """The pull request's conversation, as far as it accepts something."""

    def __init__(self, environment: Mapping[str, str], connection: Callable[[], Any] | None = None) -> None:
        """Read the event; no network yet.

        Raises:
            UsageError: the event's comment is no command.
            PublishError: the event is not about a comment, or there is no token.
        """
        payload = payload_of(environment.get("GITHUB_EVENT_PATH", ""))
        self.event: Event = read_event(environment, payload)
        self.asked: Accept = accept_command(document_of(payload))
        token = environment.get("GITHUB_TOKEN", "").strip()
        if not token:
            raise PublishError("there is no token to ask who commented", advice="Pass GITHUB_TOKEN in the step's `env:`.")
        self._connection = connection or (lambda: connect(self.event.api_url, token))
        self._github: Github | None = None
        self._permissions: dict[str, str] = {}

    @property
    def github(self) -> Github:
        """The client, connected once."""
        self._github = self._github or self._connection()
        return self._github

    def writer(self) -> Accept:
        """Return what the event's comment accepts. Raises UsageError when its author may not, and tells them by a reaction."""
        with said_in_words(self.event):
            may = self._permission(self.asked.login)
        if may not in WRITERS:
            self.react(REFUSED)
            raise UsageError(
                f"@{self.asked.login} may not accept: their permission here is {may!r}",
                advice="Somebody with write access has to.",
            )
        return self.asked

    def since(self, ended: datetime | None) -> tuple[Said, ...]:
        """Return every acceptance that holds for a run that ended then; without that date the event's comment alone."""
        now = Said(self.asked, datetime.now(UTC))
        if ended is None:
            return (now,)
        with said_in_words(self.event):
            earlier = [each for each in self._earlier(ended) if self._permission(each.asked.login) in WRITERS]
        return (*earlier, now)

    def react(self, content: str) -> None:
        """Put a reaction under the event's comment. It is a courtesy: a refusal of GitHub's changes nothing."""
        if self.asked.comment is None:
            return
        try:
            issue = self.github.get_repo(self.event.repository).get_issue(self.asked.number)
            issue.get_comment(self.asked.comment).create_reaction(content)
        except GithubException:
            return

    def _earlier(self, ended: datetime) -> Iterator[Said]:
        pull = self.github.get_repo(self.event.repository).get_pull(self.asked.number)
        found = 0
        for comment in pull.get_issue_comments():
            asked = accepted_by(self.asked.number, comment.user.login if comment.user else None, comment.body, comment.id)
            same = comment.id == self.asked.comment
            if asked is None or same or comment.updated_at != comment.created_at or comment.created_at <= ended:
                continue
            found += 1
            if found > MOST_EARLIER:
                raise UsageError(
                    f"more than {MOST_EARLIER} comments accept something here", advice="Commit the ledger instead."
                )
            yield Said(asked, comment.created_at)

    def _permission(self, login: str) -> str:
        if login not in self._permissions:
            try:
                self._permissions[login] = permission_of(self.github, self.event.repository, login)
            except UnknownObjectException:  # whoever it was, they are here no more
                self._permissions[login] = "none"
        return self._permissions[login]
