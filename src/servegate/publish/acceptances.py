"""Comments that accept something: the one that woke us, and those before it that still stand.

Every acceptance is judged on the stored run, which knows of none, so each time all of them are read again from the pull
request: otherwise the second one would take the first one back. What an author has accepted is what they had before them, and
that is the gate's own comment. So an acceptance holds for a run when the gate's comment shows that very evidence, and has done
so since before the acceptance was written, by GitHub's clock; when the measured commit is still the newest; when the
acceptance was never edited, was written by a person and by no app in a person's name; and when that person may write to the
repository at this moment. One that was deleted accepts nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from github import Github, GithubException, UnknownObjectException
from github.IssueComment import IssueComment

from servegate.errors import PublishError, UsageError
from servegate.publish.commands import PERSON, WRITERS, Accept, accept_command, accepted_by
from servegate.publish.event import Event, document_of, payload_of, read_event
from servegate.publish.marks import Shown, shown_by, written_by
from servegate.publish.pull_request import connect, permission_of, viewer
from servegate.publish.refusals import said_in_words

MOST = 200
DONE, REFUSED, UNKNOWN = "+1", "-1", "confused"
"""Reactions to the comment: accepted; it does not hold, or its author may not; the run holds no such change."""


@dataclass(frozen=True)
class Stored:
    """A stored run, as far as an acceptance is about it: its gate, the commit that was measured, sha256 over its evidence."""

    gate: str
    head: str | None
    evidence: str


@dataclass(frozen=True)
class Said:
    """An accepting comment and when it was written."""

    asked: Accept
    at: datetime


@dataclass(frozen=True)
class Standing:
    """The acceptances that hold for a run, and why that of the event does not (None when it does)."""

    held: tuple[Said, ...]
    against: str | None


@dataclass(frozen=True)
class _Conversation:
    """A pull request at one moment: its newest commit, every comment, and who we are."""

    head: str
    comments: tuple[IssueComment, ...]
    us: str

    def shown(self, gate: str) -> tuple[Shown, datetime] | None:
        """Return what the gate's comment shows, and since when; None when there is none of ours."""
        for comment in self.comments:
            shown = shown_by(comment.body)
            if shown is not None and shown.gate == gate and written_by(comment, self.us):
                return shown, shown.since or comment.updated_at
        return None


class Comments:
    """The pull request's conversation, as far as it accepts something."""

    def __init__(self, environment: Mapping[str, str], connection: Callable[[], Any] | None = None) -> None:
        """Read the event; no network yet.

        Raises:
            UsageError: the event's comment is no command, or no person's.
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
        self._read: _Conversation | None = None

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

    def standing(self, run: Stored) -> Standing:
        """Return the acceptances that hold for a run, the oldest first."""
        with said_in_words(self.event):
            talk = self._conversation()
            shown = talk.shown(run.gate)
            if run.head is None:
                return Standing((), "the run does not say which commit it measured")
            if run.head != talk.head:
                return Standing((), f"commit {talk.head[:12]} is newer than the measured {run.head[:12]}")
            if shown is None or shown[0].evidence != run.evidence:
                return Standing((), f"no comment of the gate {run.gate} shows the run that is stored now")
            said = [each for each in map(self._said, talk.comments) if each is not None]
            held = [each for each in said if self._against(each, run.head, shown[1]) is None]
            mine = next((each for each in said if each.asked.comment == self.asked.comment), None)
            gone = "the comment was edited or deleted, or an app wrote it"
            return Standing(tuple(held), gone if mine is None else self._against(mine, run.head, shown[1]))

    def react(self, content: str) -> None:
        """Put a reaction under the event's comment. It is a courtesy: a refusal of GitHub's changes nothing."""
        if self.asked.comment is None:
            return
        try:
            issue = self.github.get_repo(self.event.repository).get_issue(self.asked.number)
            issue.get_comment(self.asked.comment).create_reaction(content)
        except GithubException:
            return

    def refuse(self, why: str) -> None:
        """Say by a reaction and a reply why somebody who may accept has accepted nothing; the same reply once only."""
        self.react(REFUSED)
        start = f"<!-- servegate-reply: {self.asked.comment} -->"
        with said_in_words(self.event):
            if any((each.body or "").startswith(start) for each in self._conversation().comments):
                return
            text = f"**Not accepted** (`{self.asked.prompt}`): {why}. Read what servegate's comment shows now, and accept anew."
            self.github.get_repo(self.event.repository).get_pull(self.asked.number).create_issue_comment(f"{start}\n{text}\n")

    def _conversation(self) -> _Conversation:
        if self._read is None:
            pull = self.github.get_repo(self.event.repository).get_pull(self.asked.number)
            self._read = _Conversation(pull.head.sha, tuple(pull.get_issue_comments()), viewer(self.github))
            if sum(self._accepts(each) is not None for each in self._read.comments) > MOST:
                raise UsageError(f"more than {MOST} comments accept something here", advice="Commit the ledger instead.")
        return self._read

    def _accepts(self, comment: IssueComment) -> Accept | None:
        return accepted_by(self.asked.number, comment.user.login if comment.user else None, comment.body, comment.id)

    def _said(self, comment: IssueComment) -> Said | None:
        """Return a comment that accepts something, as its author wrote it; None when it was edited or a program wrote it."""
        asked = self._accepts(comment)
        if asked is None or comment.updated_at != comment.created_at or comment.user.type != PERSON:
            return None
        return None if comment.performed_via_github_app is not None else Said(asked, comment.created_at)

    def _against(self, said: Said, head: str, since: datetime) -> str | None:
        """Return why an acceptance does not hold for what is shown since then; None when it does."""
        if said.asked.commit is not None and not head.startswith(said.asked.commit):
            return f"it names commit {said.asked.commit[:12]}, and the measured one is {head[:12]}"
        if said.at <= since:
            return f"it was written before this run was shown ({since:%Y-%m-%d %H:%M:%S} UTC)"
        return None if self._permission(said.asked.login) in WRITERS else f"{said.asked.login} may not write here"

    def _permission(self, login: str) -> str:
        if login not in self._permissions:
            try:
                self._permissions[login] = permission_of(self.github, self.event.repository, login)
            except UnknownObjectException:  # whoever it was, they are here no more
                self._permissions[login] = "none"
        return self._permissions[login]
