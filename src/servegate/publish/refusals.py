"""What GitHub's refusals mean, in words: a token that may only read, a limit, a locked conversation, nobody there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import requests
from github import GithubException

from servegate.errors import PublishError, ReadOnlyTokenError
from servegate.publish.event import Event
from servegate.publish.workflow_commands import one_line


class LockedError(PublishError):
    """The conversation is locked."""


def said_in_words(event: Event) -> AbstractContextManager[None]:
    """Turn what the library raises inside into a PublishError."""
    return said_in_words_at(event.api_url)


@contextmanager
def said_in_words_at(api_url: str) -> Iterator[None]:
    """Turn what the library raises inside into a PublishError; `api_url` is named when nobody answers there."""
    try:
        yield
    except GithubException as error:
        raise refused(error) from error
    except requests.RequestException as error:
        raise PublishError(
            f"GitHub could not be reached at {api_url} ({type(error).__name__})",
            advice="Publish again later: `servegate publish` needs only the run directory.",
        ) from error


def message_of(error: GithubException) -> str:
    """Return what GitHub said, on one line."""
    data = error.data
    return one_line(str(data.get("message") or "") if isinstance(data, dict) else str(data or ""), 200)


def _locked(error: GithubException) -> bool:
    return error.status == 403 and "locked" in message_of(error).lower()


def refused(error: GithubException) -> PublishError:
    """Say in words what GitHub's refusal means and what to do about it."""
    if _locked(error):
        return LockedError("the conversation is locked")
    said = f"GitHub answered {error.status}: {message_of(error) or 'no message'}"
    if error.status == 401:
        return PublishError("GitHub does not accept the token", why=said, advice="Check what is passed as GITHUB_TOKEN.")
    if error.status == 429 or "rate limit" in said.lower():
        return PublishError("GitHub's rate limit is used up", why=said, advice="Publish again later.")
    if error.status in {403, 404}:
        read_only = error.status == 403 and "resource not accessible" in said.lower()
        return (ReadOnlyTokenError if read_only else PublishError)(
            "the token may not write to this pull request",
            why=f"{said}. Workflows of forks and of Dependabot get a read-only token whatever the workflow asks for.",
            advice="Give the publishing job `permissions: pull-requests: write` and `checks: write`; for forks let a second "
            "workflow publish (`on: workflow_run`). The verdict, the step summary and the outputs are not affected.",
        )
    return PublishError("GitHub refused the comment", why=said, advice="Publish again later.")
