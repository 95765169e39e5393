"""Puts a verdict where people meet it: the step summary, the step's outputs, one comment on the pull request.

What is published was rendered before (`comment.md`, `summary.md`); nothing is judged here and nothing is printed:
`Published.log` holds the lines to print, safe to print as they are. The order is by what can fail: the local files
first, the network last, so that a refused comment costs nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from servegate.domain.judgement import EXIT_CODES, Outcome, Verdict
from servegate.errors import PublishError, ReadOnlyTokenError
from servegate.publish.annotations import Annotation
from servegate.publish.event import on_actions, payload_of, read_event
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
    check_run: bool = False
    neutral: frozenset[Outcome] = frozenset()
    """Outcomes whose check run is `neutral`, which lets a required check merge."""
    tested: str | None = None
    """The commit that was measured; None when the record does not say."""
    annotations: tuple[Annotation, ...] = ()
    conclusion: Literal["cancelled"] | None = None
    """What the check run says in place of the outcome: that the run was cancelled."""
    evidence: bool = True
    """Whether anything was measured; a notice that nothing was needs no commit that it was measured on."""
    create: bool = True
    """Whether a comment is made where none is; one that is there is updated in any case."""
    outputs: Mapping[str, str] | None = None
    """More outputs than the verdict's own; None writes none: of several publications in one step the last one decides."""
    drawn_from: str | None = None
    """sha256 over the evidence that is shown; an acceptance by comment holds for what was shown before it and nothing else."""
    sweeps: bool = False
    """Whether the comments of other gates that show an older commit are told to be of one: this speaks for all of them."""


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
    if settings.outputs is not None:
        log.append(_write_outputs(verdict, settings, environment))
    if not settings.comment and not settings.check_run:
        return Published((*log, *_on_lines(settings), "no comment: switched off"))
    event = read_event(environment, payload_of(environment.get("GITHUB_EVENT_PATH", "")))
    remote = event.pull_request or event.measured_by or event.issue or (settings.check_run and event.sha)
    if not remote:
        return Published((*log, *_on_lines(settings), f"no comment: {inert(event.no_pull_request)}"))
    token = environment.get("GITHUB_TOKEN", "").strip()
    if not token:
        if event.pull_request is None and event.measured_by is None and event.issue is None:
            return Published((*log, *_on_lines(settings), "no check run: there is no token"))
        raise PublishError(
            "there is no token to comment with",
            why="GITHUB_TOKEN is not set or empty.",
            advice="Pass it in the publishing step's `env:`, or switch the comment off.",
        )
    # PyGithub takes 0.2 s to import, which every other verb would pay.
    from servegate.publish import remote as github_side

    text = next(part for part in _candidates(files["comment.md"], verdict) if len(part.encode()) <= github_side.MAX_BODY_BYTES)
    try:
        done = github_side.put(text, verdict, settings, event, token, github_factory)
    except ReadOnlyTokenError as error:
        stored = "stored for a second job: the run directory is all that `servegate publish` needs there"
        notice = command("notice", f"not commented: the token is read-only ({stored})", title="servegate")
        return Published((*log, *_on_lines(settings), notice, inert(f"{error.why} {error.advice}", 900)), comment="read-only")
    return Published((*log, *(() if done.checked else _on_lines(settings)), *done.log), done.comment, done.comment_url)


def _on_lines(settings: Publication) -> tuple[str, ...]:
    """Notes on the changed lines as commands to the runner, where no check run carries them."""
    return tuple(each.to_command() for each in settings.annotations[:10])


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
        "verdict": verdict.outcome.value,
        "exit-code": str(int(EXIT_CODES[verdict.outcome])),
        "may-merge": str(verdict.outcome is Outcome.PASS or verdict.outcome in settings.neutral).lower(),
        "run-directory": settings.run_directory,
        **(settings.outputs or {}),
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
