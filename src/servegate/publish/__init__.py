"""Puts a verdict where people meet it: the step summary, the step's outputs, one comment on the pull request.

What is published was rendered before (`comment.md`, `summary.md`); nothing is judged here and nothing is printed:
`Published.log` holds the lines to print, safe to print as they are. The order is by what can fail: the local files
first, the network last, so that a refused comment costs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from servegate.domain.judgement import EXIT_CODES, Outcome, Verdict
from servegate.errors import PublishError
from servegate.publish.event import Event, on_actions, payload_of, read_event
from servegate.publish.workflow_commands import Level, command, inert, output_lines

if TYPE_CHECKING:
    from github import Github

SUMMARY_BUDGET_BYTES = 900 << 10
"""The runner drops a step's whole summary over 1024 KiB; other parts of the step may have written some of it already."""

_LEVELS: dict[Outcome, Level] = {Outcome.PASS: "notice", Outcome.REVIEW: "warning"}


@dataclass(frozen=True)
class Publication:
    """What to publish. `run_directory` is the path as the workflow's later steps see it."""

    gate: str
    run_directory: str
    comment: bool = True


@dataclass(frozen=True)
class Published:
    """What was done. `comment` is the action taken on the pull request's comment, or `skipped`."""

    log: tuple[str, ...]
    comment: str = "skipped"
    comment_url: str | None = None


def publish(
    files: Mapping[str, bytes],
    verdict: Verdict,
    settings: Publication,
    environment: Mapping[str, str],
    github_factory: Callable[[str, str], Github] | None = None,
) -> Published:
    """Publish `files["comment.md"]` and `files["summary.md"]` and the verdict to the workflow run in `environment`.

    Away from GitHub Actions nothing is written. Raises PublishError when the comment could not be put; the summary
    and the outputs are written by then.
    """
    headline = inert(verdict.headline)
    if not on_actions(environment):
        return Published(
            (
                f"nothing to publish to: this is no GitHub Actions runner. The verdict is {verdict.outcome.value}: {headline}",
                f"on one, this would write the step summary ({len(files['summary.md'])} bytes), the outputs, and the "
                f"comment of gate {inert(settings.gate)} ({len(files['comment.md'])} bytes)",
            )
        )
    title = f"servegate {settings.gate}: {verdict.outcome.value}"
    log = [command(_LEVELS.get(verdict.outcome, "error"), headline, title=title)]
    log.append(_write_summary(files, verdict, environment))
    log.append(_write_outputs(verdict, settings, environment))
    if not settings.comment:
        return Published((*log, "no comment: switched off"))
    event = read_event(environment, payload_of(environment.get("GITHUB_EVENT_PATH", "")))
    if event.pull_request is None:
        return Published((*log, f"no comment: {inert(event.no_pull_request)}"))
    return _comment(files, verdict, settings, environment, event, log, github_factory)


def _comment(
    files: Mapping[str, bytes],
    verdict: Verdict,
    settings: Publication,
    environment: Mapping[str, str],
    event: Event,
    log: list[str],
    github_factory: Callable[[str, str], Github] | None,
) -> Published:
    # PyGithub takes 0.2 s to import, which every other verb would pay.
    from servegate.publish.pull_request import MAX_BODY_BYTES, connect, put_comment

    pull_request = event.pull_request
    token = environment.get("GITHUB_TOKEN", "")
    if pull_request is None or not token.strip():
        raise PublishError(
            "there is no token to comment with",
            why="GITHUB_TOKEN is not set or empty.",
            advice="Pass it in the publishing step's `env:`, or switch the comment off.",
        )
    text = next(part for part in _candidates(files["comment.md"], verdict) if len(part.encode()) <= MAX_BODY_BYTES)
    factory = github_factory or connect
    done = put_comment(lambda: factory(event.api_url, token.strip()), event, pull_request, settings.gate, text)
    where = f"pull request {pull_request.number}"
    said = {
        "created": f"commented on {where}",
        "updated": f"updated the comment on {where}",
        "unchanged": f"the comment on {where} says this already",
        "outdated": command(
            "warning", f"no comment: {where} has a newer head than the tested {pull_request.head_sha[:12]}", title="servegate"
        ),
        "newer": command("notice", f"no comment: a newer run has already commented on {where}", title="servegate"),
        "locked": command("notice", f"no comment: the conversation of {where} is locked", title="servegate"),
    }[done.action]
    deleted = (f"removed {done.deleted} duplicate comment(s)",) if done.deleted else ()
    return Published((*log, said, *deleted), comment=done.action, comment_url=done.url)


def _candidates(rendered: bytes, verdict: Verdict, *smaller: bytes) -> tuple[str, ...]:
    """Texts from the fullest to the one that always fits. None is ever cut, which could leave a fence open."""
    last = f"**{verdict.outcome.value.upper().replace('_', ' ')}** · see the report; its text is too long for this place."
    return (*(_clean(text) for text in (rendered, *smaller)), last)


def _clean(rendered: bytes) -> str:
    """Decode, and drop control characters, which GitHub refuses or shows as nothing; line breaks and tabs stay."""
    text = rendered.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    return "".join(char for char in text if char >= " " or char in "\n\t").replace("\x7f", "")


def _write_summary(files: Mapping[str, bytes], verdict: Verdict, environment: Mapping[str, str]) -> str:
    path = environment.get("GITHUB_STEP_SUMMARY", "")
    if not path:
        return "no step summary: this runner offers none"
    target = Path(path)
    try:
        used = target.stat().st_size if target.exists() else 0
        room = SUMMARY_BUDGET_BYTES - used
        fitting = (
            text + "\n"
            for text in _candidates(files["summary.md"], verdict, files["comment.md"])
            if len(text.encode()) + 1 <= room
        )
        text = next(fitting, None)
        if text is None:
            return "no step summary: other parts of this step have filled it"
        _append(target, text)
    except OSError as error:
        raise _unwritable("step summary", "GITHUB_STEP_SUMMARY", error) from error
    return f"wrote the step summary ({len(text.encode())} bytes)"


def _write_outputs(verdict: Verdict, settings: Publication, environment: Mapping[str, str]) -> str:
    path = environment.get("GITHUB_OUTPUT", "")
    if not path:
        return "no outputs: this runner offers none"
    values = {
        "outcome": verdict.outcome.value,
        "exit-code": str(int(EXIT_CODES[verdict.outcome])),
        "headline": inert(verdict.headline),
        "report": f"{settings.run_directory}/report/report.html",
        "run-directory": settings.run_directory,
    }
    try:
        _append(Path(path), output_lines(values))
    except OSError as error:
        raise _unwritable("outputs", "GITHUB_OUTPUT", error) from error
    return f"wrote the outputs {', '.join(values)}"


def _append(target: Path, text: str) -> None:
    with target.open("ab") as stream:
        stream.write(text.encode())


def _unwritable(what: str, variable: str, error: OSError) -> PublishError:
    return PublishError(
        f"the {what} could not be written: {error.strerror}",
        advice=f"Mount the file that {variable} names into the container at the same path, writable by its user.",
    )
