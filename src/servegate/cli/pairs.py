"""`servegate pairs`: what a pull request changes, read from git and made ready to be measured."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from servegate.artifacts import dump
from servegate.changes import ChangesError, Repository
from servegate.cli.terminal import printable
from servegate.errors import ExitCode, ServegateError
from servegate.pipeline.changing import Index, Judge, prepare
from servegate.publish.event import PULL_REQUEST_EVENTS, compared_commits

F = TypeVar("F", bound=Callable[..., Any])


def git_options(command: F) -> F:
    """Add the options that say what is compared."""
    for option in reversed(
        (
            click.option(
                "--config", default="servegate.yaml", show_default=True, help="Gate config, as a path in the repository."
            ),
            click.option("--base", metavar="REF", help="Base branch; by default the one of the GitHub event."),
            click.option("--head", metavar="REF", help="The change; by default the head of the GitHub event, else HEAD."),
            click.option(
                "--judge-by",
                type=click.Choice(["base", "head"]),
                default="base",
                show_default=True,
                help="Whose gate config, prompts and limits judge.",
            ),
            click.option("--trust-head", is_flag=True, help="The head was merged already (a release): its own rules judge it."),
            click.option("--repository", type=click.Path(path_type=Path), default=Path(), help="A folder of the clone."),
            click.option("--allow-no-change", is_flag=True, help="Exit 0 when no serving config changed (3 otherwise)."),
        )
    ):
        command = option(command)
    return command


@click.command("pairs", help="Read what a pull request changes from git: one folder for each pair of serving configs.")
@git_options
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path("servegate-pairs"), show_default=True, help="Where to write."
)
@click.option("--json", "as_json", is_flag=True, help="Print the index as JSON.")
def command(output: Path, as_json: bool, allow_no_change: bool, **options: Any) -> int:
    """Write the pairs; exit 3 when something that changed is not measured, 2 when it was refused."""
    index = prepared(output, **options)
    if as_json:
        click.echo(dump(index.to_json()).decode(), nl=False)
    else:
        show(index)
    return int(left_over(index, allow_no_change=allow_no_change))


def prepared(
    output: Path,
    *,
    config: str,
    base: str | None,
    head: str | None,
    judge_by: Judge,
    trust_head: bool,
    repository: Path,
    in_the_way: str = "Give another --output, or remove it.",
) -> Index:
    """Prepare the pairs of the given commits, or of the GitHub event's. `in_the_way`: what to do where files are already.

    Raises:
        ChangesError: neither says what to compare, the event's head is a fork's, or the folder is not empty.
    """
    if trust_head and os.environ.get("GITHUB_EVENT_NAME") in PULL_REQUEST_EVENTS:
        raise ChangesError("a pull request's head is not trusted", advice="--trust-head is for what was merged already.")
    if base is None or head is None:
        told = compared_commits(os.environ)
        if told is None and base is None:
            raise ChangesError("nothing says what to compare with", advice="Give --base, such as --base origin/main.")
        if told is not None and told.fork:
            raise ChangesError(
                "the head of this pull request is a fork's, and nobody has looked at it",
                advice="A maintainer dispatches the workflow for that exact commit: --base BRANCH --head COMMIT.",
            )
        base, head = base or (told.base if told else None), head or (told.head if told else "HEAD")
    assert base is not None
    if output.exists() and any(output.iterdir()):
        raise ChangesError(f"{output} already holds files", advice=in_the_way)
    try:
        return prepare(Repository(repository), config, base, head, output, "protected_head" if trust_head else judge_by)
    except ServegateError:
        # The folder was empty a moment ago, so what lies in it is ours: left there, it would refuse the corrected call.
        shutil.rmtree(output, ignore_errors=True)
        raise


def show(index: Index) -> None:
    """Print what is compared, and what is not."""
    click.echo(
        f"comparing {index.merge_base[:12]} with {index.head[:12]}, judged by the {index.judged_by.replace('_', ' ')}'s rules"
    )
    for path in index.rules_changed:
        click.echo(printable(f"changes the rules: {path}"))
    for pair in index.pairs:
        moved = f"{pair.before} -> " if pair.before != pair.after else ""
        also = "".join(f" = {path}" for path in index.also.get(pair.gate, ()))
        click.echo(printable(f"to measure: {moved}{pair.after}{also}  (gate {pair.gate})"))
    for each in index.not_measured:
        click.echo(printable(f"not measured: {each.path}: {each.reason}"))
    if not index.pairs and not index.not_measured:
        click.echo("not evaluated: no serving config changed")


def left_over(index: Index, *, allow_no_change: bool) -> ExitCode:
    """Return what the unmeasured part amounts to by itself; that nothing changed is a pass only where it was allowed."""
    if any(each.weight == "refused" for each in index.not_measured):
        return ExitCode.USAGE
    if any(each.weight == "failed" for each in index.not_measured):
        return ExitCode.ERROR
    nothing = not index.pairs and not index.not_measured
    return ExitCode.REVIEW if index.not_measured or (nothing and not allow_no_change) else ExitCode.PASS
