"""`servegate verify`: is a run directory what it was, and does it allow a release?"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from pathlib import Path

import click

from servegate import pipeline
from servegate.artifacts import RunDirectory
from servegate.cli.options import RUN_ARGUMENT
from servegate.cli.terminal import printable
from servegate.config.release import read_release_policy, shortcomings
from servegate.domain.judgement import EXIT_CODES, Outcome, Verdict
from servegate.errors import ExitCode, RunDirectoryError, UsageError
from servegate.pipeline.changing import INDEX, read_index


@click.command("verify", help="Check a run directory against its checksums; with --policy, whether it allows a release.")
@RUN_ARGUMENT
@click.option("--policy", type=click.Path(path_type=Path), help="release.yaml: the verdict is made anew and held to it.")
@click.option("--commit", metavar="SHA", help="The commit to release; by default GITHUB_SHA.")
def command(run: Path, policy: Path | None, commit: str | None) -> int:
    """Name every file that is missing, changed or added; then every reason against the release.

    Exit 0: nothing. 2: the directory is not what it was. The verdict's own code when it is no PASS; 4 when the run is about
    another commit, card, time or gate.
    """
    if not (run / "run.json").is_file() and (run / INDEX).is_file():
        return _every_run(run, policy, commit)
    return _one_run(run, policy, commit)


def _every_run(folder: Path, policy: Path | None, commit: str | None) -> int:
    """Hold every run of a folder that `servegate ci` wrote; a run that is missing or was not made holds the release up."""
    index = read_index(folder)
    codes = [_one_run(folder / pair.gate, policy, commit) for pair in index.pairs]
    for each in index.not_measured:
        click.echo(printable(f"no release: {each.path} was not measured: {each.reason}"))
    if policy is not None and (index.not_measured or not codes):
        codes.append(int(ExitCode.REVIEW))
        if not index.pairs:
            click.echo("no release: nothing was measured")
    return next((code for code in codes if code), 0)


def _one_run(run: Path, policy: Path | None, commit: str | None) -> int:
    directory = RunDirectory.open(run)
    differences = directory.verify()
    if differences:
        raise RunDirectoryError(f"{run}: {len(differences)} files differ from the checksums", why="\n".join(differences[:50]))
    click.echo(f"{run}: every file is as it was")
    return 0 if policy is None else int(_held_to(directory, policy, commit or os.environ.get("GITHUB_SHA", "")))


def _other(recorded: Verdict, now: Verdict) -> str:
    """Return in words in what a recorded verdict differs from the one that its evidence gives."""
    if recorded.outcome != now.outcome:
        return f"the verdict {recorded.outcome.value}; its evidence gives {now.outcome.value}"
    sides = (
        [item for item in mine.findings if item not in theirs.findings] for mine, theirs in ((recorded, now), (now, recorded))
    )
    only_recorded, only_now = (", ".join(dict.fromkeys(item.code for item in side))[:200] or "none" for side in sides)
    return (
        f"the verdict {recorded.outcome.value} with other findings than its evidence gives (recorded alone: "
        f"{printable(only_recorded)}; given alone: {only_now})"
    )


def _held_to(directory: RunDirectory, path: Path, commit: str) -> ExitCode:
    policy = read_release_policy(path)
    if not commit:
        raise UsageError("which commit is to be released is not said", advice="Give --commit (a runner's is in GITHUB_SHA).")
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", commit):
        raise UsageError(f"{commit[:80]!r} is no commit id", advice="Give --commit with all of its 40 hexadecimal digits.")
    verdict, recorded = pipeline.rejudged(directory), directory.read_verdict()
    if (verdict.outcome, verdict.findings) != (recorded.outcome, recorded.findings):
        raise RunDirectoryError(
            f"{directory.root} records {_other(recorded, verdict)}",
            why="The verdict was changed after it was made, or another version of servegate made it.",
            advice="Judge it again: servegate compare.",
        )
    plan = directory.read_plan()
    manifests = {arm: directory.read_manifest(arm) for arm in plan.arms}
    against = shortcomings(policy, commit, datetime.now(UTC), plan, directory.read_run().data, manifests, verdict)
    for line in against:
        click.echo(printable(f"no release: {line}"))
    if not against:
        click.echo(f"{commit[:12]} may be released: {printable(verdict.headline)}")
        return ExitCode.PASS
    return ExitCode.NOT_COMPARABLE if verdict.outcome is Outcome.PASS else EXIT_CODES[verdict.outcome]
