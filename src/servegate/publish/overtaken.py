"""Comments of ours that show a commit which is no longer the newest: each says so, so that no old PASS is read as today's.

A gate whose serving config the newest commit no longer changes, or a job that ended before it knew what changed, leaves nothing
that would replace them. The old run's own line stays in the comment, so that whichever workflow judges that gate next, in
whatever order they end, finds a comment that it may update.
"""

from __future__ import annotations

from dataclasses import replace

from github import Github

from servegate.publish.event import Event, PullRequest
from servegate.publish.marks import Shown, shown_by, written_by
from servegate.publish.pull_request import viewer
from servegate.publish.refusals import said_in_words


def mark_overtaken(github: Github, event: Event, pull_request: PullRequest) -> int:
    """Rewrite them and return how many there were. Raises PublishError when GitHub refuses it."""
    marked = 0
    with said_in_words(event):
        pull, author = github.get_repo(event.repository).get_pull(pull_request.number), viewer(github)
        if pull.head.sha != pull_request.head_sha:
            return 0  # a newer run does it, and knows better
        for comment in list(pull.get_issue_comments()):
            shown = shown_by(comment.body)
            if shown is None or shown.head == pull_request.head_sha or not written_by(comment, author):
                continue
            text = _text(shown, event)
            # It may have been updated since it was listed, by a run of the newest commit.
            if comment.body != text and shown_by(pull.get_issue_comment(comment.id).body) == shown:
                comment.edit(text)
                marked += 1
    return marked


def _text(shown: Shown, event: Event) -> str:
    """Return the same text whoever marks it, so that it is written once. It shows no evidence that could be accepted."""
    run = f"[run {shown.run.id}]({event.run_url.rpartition('/')[0]}/{shown.run.id})"
    return (
        f"{replace(shown, evidence=None, since=None).lines()}"
        f"## \u23f3 OUTDATED: `{shown.gate}`\n\n"
        f"**This was about commit <code>{shown.head[:12]}</code>, which is no longer the newest of this pull request.**\n\n"
        f"What was found then is in {run}; it says nothing about the newest commit.\n"
    )
