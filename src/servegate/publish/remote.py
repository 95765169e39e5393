"""The half of publishing that talks to GitHub, within one deadline: the comment, then the check run.

It runs in a thread of its own, since a server that answers one byte at a time can hold a single request for ever: when the
deadline is over we say so and leave, whatever the thread still waits for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from github import Github

from servegate.domain.judgement import Verdict
from servegate.errors import PublishError
from servegate.publish import Publication
from servegate.publish.check_run import MOST_SUMMARY_BYTES, Check, conclusion_of, put_check
from servegate.publish.event import Event, PullRequest, Run
from servegate.publish.marks import shown_by, written_by
from servegate.publish.overtaken import mark_overtaken
from servegate.publish.pull_request import DEADLINE_S, MAX_BODY_BYTES, connect, put_comment, target_of, viewer
from servegate.publish.refusals import said_in_words
from servegate.publish.workflow_commands import command

__all__ = ["MAX_BODY_BYTES", "Done", "put"]

T = TypeVar("T")
TITLE = "servegate"
WRITTEN = ("created", "updated", "unchanged", "absent")
"""What becomes of the comment of a run that no newer one has overtaken."""


@dataclass(frozen=True)
class Done:
    """What became of it: lines for the log, and whether a check run carries the notes."""

    log: tuple[str, ...]
    comment: str
    comment_url: str | None
    checked: bool


def put(
    text: str,
    verdict: Verdict,
    settings: Publication,
    event: Event,
    token: str,
    factory: Callable[[str, str], Github] | None = None,
    deadline_s: float = DEADLINE_S,
) -> Done:
    """Comment and put the check run. Raises PublishError when GitHub refuses, or when it takes longer than the deadline."""
    make = factory or connect
    return within(deadline_s, lambda: _put(text, verdict, settings, event, lambda: make(event.api_url, token)))


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what the work returns, or raise what it raises. Raises PublishError when it does not end in time."""
    found: list[T] = []
    raised: list[BaseException] = []

    def attempt() -> None:
        try:
            found.append(work())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise PublishError(
            f"GitHub did not settle it within {seconds:.0f} s",
            advice="Publish again later: nothing is posted twice, since every attempt looks first.",
        )
    if raised:
        raise raised[0]
    return found[0]


def _put(text: str, verdict: Verdict, settings: Publication, event: Event, connection: Callable[[], Github]) -> Done:
    github: list[Github] = []

    def connected() -> Github:
        if not github:
            github.append(connection())
        return github[0]

    pull = event.pull_request
    if pull is None and (event.measured_by is not None or event.issue is not None):
        with said_in_words(event):
            pull = target_of(connected(), event)
        if pull is None:
            notice = command("notice", "no comment: no open pull request has the head that was measured", title=TITLE)
            return Done((notice,), "skipped", None, checked=False)
    sha = pull.head_sha if pull and event.measured_by is None else event.sha
    if settings.tested is not None and sha != settings.tested:
        if event.issue is not None:
            return Done((_outdated(pull, settings.tested),), "outdated", None, checked=False)
        raise PublishError(
            f"the run is about the commit {settings.tested[:12]}, the event about {str(sha)[:12]}",
            advice="Publish the run of this commit; nothing was written.",
        )
    if event.pull_request is None and pull is not None and settings.tested is None and settings.evidence:
        raise PublishError(
            "the run does not say which commit it measured, so what was stored before can not be published",
            advice="Measure with `servegate ci`.",
        )
    if event.issue is not None and pull is not None:
        with said_in_words(event):
            run = shown_run(connected(), event, pull, settings)
        if run is None:
            return Done((_said("newer", pull),), "newer", None, checked=False)
        event = replace(event, run=run, run_url=f"{event.run_url.rpartition('/')[0]}/{run.id}")
    log: list[str] = []
    action, url = "skipped", None
    if settings.comment and pull is not None:
        given = settings.drawn_from
        done = put_comment(connected, event, pull, settings.gate, text, create=settings.create, evidence=given)
        action, url = done.action, done.url
        log.append(_said(action, pull))
        if done.deleted:
            log.append(f"removed {done.deleted} duplicate comment(s)")
    checked = False
    if settings.check_run and sha is not None:
        own = event.authoritative and not (pull and pull.fork)
        check = Check(
            gate=settings.gate,
            head_sha=sha,
            conclusion=settings.conclusion or conclusion_of(verdict.outcome, settings.neutral, authoritative=own),
            title=f"{verdict.outcome.value}: {verdict.headline}",
            summary=text if len(text.encode()) <= MOST_SUMMARY_BYTES else f"**{verdict.outcome.value}**",
            details_url=event.run_url,
            annotations=settings.annotations,
        )
        with said_in_words(event):
            did = put_check(connected().get_repo(event.repository), check, event.run)
            log.append(f"check run {check.name} on {sha[:12]}: {check.conclusion} ({did})")
            checked = did != "newer"
    if settings.sweeps and pull is not None and action in WRITTEN and (marked := mark_overtaken(connected(), event, pull)):
        log.append(f"{marked} comment(s) of other gates show an older commit and say so now")
    return Done(tuple(log), action, url, checked)


def shown_run(github: Github, event: Event, pull_request: PullRequest, settings: Publication) -> Run | None:
    """Return the run that measured what a comment's author has accepted; None when other evidence is shown by now.

    An acceptance judges a run again and is no newer run: it must give way to one that is started again, as that run would.
    """
    pull, author = github.get_repo(event.repository).get_pull(pull_request.number), viewer(github)
    ours = [each.body for each in pull.get_issue_comments() if written_by(each, author)]
    shown = [each for each in map(shown_by, ours) if each is not None and each.head == pull_request.head_sha]
    if settings.drawn_from is None:
        return max((each.run for each in shown), default=event.run)
    return next((each.run for each in shown if (each.gate, each.evidence) == (settings.gate, settings.drawn_from)), None)


def _said(action: str, pull: PullRequest) -> str:
    where = f"pull request {pull.number}"
    return {
        "created": f"commented on {where}",
        "updated": f"updated the comment on {where}",
        "unchanged": f"the comment on {where} says this already",
        "outdated": _outdated(pull, pull.head_sha),
        "absent": f"nothing to say on {where}",
        "newer": command("notice", f"no comment: a newer run has already commented on {where}", title=TITLE),
        "locked": command("notice", f"no comment: the conversation of {where} is locked", title=TITLE),
    }[action]


def _outdated(pull: PullRequest | None, tested: str) -> str:
    where = f"pull request {pull.number}" if pull else "the pull request"
    return command("warning", f"no comment: {where} has a newer head than the tested {tested[:12]}", title=TITLE)
