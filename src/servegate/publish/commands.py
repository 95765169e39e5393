"""`/servegate accept ID reason`: a comment by which somebody with write access accepts one change of one prompt.

`/servegate accept ID@COMMIT reason` holds for a run of that commit only (seven hexadecimal digits of it or more).

Anybody may comment, so the comment is parsed as data (one line, one known command), and its author's permission is asked of
GitHub at the moment it is acted on; what the event says of the author (`author_association`) is not enough, since a member of
an organisation may have no access to this repository at all.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from servegate.errors import PublishError, UsageError
from servegate.publish.workflow_commands import one_line

WRITERS = frozenset({"admin", "maintain", "write"})
_ACCEPT = re.compile(
    r"/servegate[ \t]+accept[ \t]+(?P<id>[A-Za-z0-9][A-Za-z0-9._:/-]{0,99})(?:@(?P<commit>[0-9a-f]{7,64}))?"
    r"[ \t]+(?P<reason>\S.{0,500})"
)
_LOGIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]{0,99})")
"""A person's: `[bot]` ends the login of an app (Dependabot, a workflow's own token), and no app accepts anything."""
PERSON = "User"
"""What GitHub calls a person's account; the others are Bot, Organization and Mannequin."""


@dataclass(frozen=True)
class Accept:
    """One accepting comment: on which pull request, by whom, of which prompt, and why."""

    number: int
    login: str
    prompt: str
    reason: str
    comment: int | None = None
    """The comment's own number."""
    commit: str | None = None
    """The commit whose run is accepted, or how it begins; None when the comment names none."""


def accept_command(document: dict[str, Any]) -> Accept:
    """Return what the comment of an `issue_comment` event asks for; only a comment that was just made counts.

    Raises:
        UsageError: it is no such command.
        PublishError: the payload is not what GitHub sends, or the issue is no pull request.
    """
    issue, comment = document.get("issue"), document.get("comment")
    user = comment.get("user") if isinstance(comment, dict) else None
    if not isinstance(issue, dict) or not isinstance(comment, dict) or not isinstance(user, dict):
        raise PublishError("the event's payload holds no comment", advice="Run this in a workflow `on: issue_comment`.")
    number, login, body = issue.get("number"), user.get("login"), comment.get("body")
    if not isinstance(number, int) or isinstance(number, bool) or not isinstance(login, str):
        raise PublishError("the event's payload names no issue or no author")
    if user.get("type") != PERSON or not _LOGIN.fullmatch(login):
        raise UsageError(f"{one_line(login, 60)} is no person, and no program accepts anything", advice="Somebody has to.")
    if not isinstance(issue.get("pull_request"), dict) or document.get("action") != "created":
        raise UsageError("the comment is not a new one on a pull request", advice="Comment anew on the pull request.")
    found = accepted_by(number, login, body, comment.get("id"))
    if found is None:
        raise UsageError("the comment is no command to servegate", advice="Write: /servegate accept PROMPT-ID why it may stay")
    return found


def accepted_by(number: int, login: object, body: object, comment: object = None) -> Accept | None:
    """Return what one comment of a pull request accepts; None when it is no such command.

    The command is the whole first line: a quoted line begins with `>`, code with blanks or a fence, and neither is a command.
    """
    if not isinstance(login, str) or not _LOGIN.fullmatch(login) or not isinstance(body, str) or not body.strip():
        return None
    found = _ACCEPT.fullmatch(body.splitlines()[0].rstrip())
    known = comment if isinstance(comment, int) and not isinstance(comment, bool) and 0 < comment < 1 << 63 else None
    return Accept(number, login, found["id"], one_line(found["reason"], 400), known, found["commit"]) if found else None
