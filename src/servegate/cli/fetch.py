"""`servegate fetch`: the newest run directory of a pull request, onto this machine."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click

from servegate.errors import UsageError
from servegate.publish.event import api_address


@click.command("fetch", help="Download the newest run directory that a workflow uploaded for a pull request.")
@click.option("--pr", "number", type=click.IntRange(min=1), required=True, help="Number of the pull request.")
@click.option("--repository", metavar="OWNER/NAME", help="By default GITHUB_REPOSITORY.")
@click.option("--name", default="servegate-run", show_default=True, help="Name of the artifact.")
@click.option("--output", type=click.Path(path_type=Path), help="Where to put it; by default servegate-fetched/<number>.")
def command(number: int, repository: str | None, name: str, output: Path | None) -> None:
    """Fetch, unpack, and say which commit it is of."""
    from servegate.publish.fetching import download, newest, unpack
    from servegate.publish.pull_request import connect
    from servegate.publish.refusals import said_in_words_at

    token = os.environ.get("GITHUB_TOKEN", "").strip()
    where = repository or os.environ.get("GITHUB_REPOSITORY", "")
    if not token:
        raise UsageError("GITHUB_TOKEN is not set", advice="A token that may read actions: GITHUB_TOKEN=$(gh auth token)")
    if where.count("/") != 1:
        raise UsageError(f"{where!r} is no repository", advice="Give --repository owner/name.")
    address = api_address(os.environ)
    target = output or Path("servegate-fetched", str(number))
    with said_in_words_at(address):
        found = newest(connect(address, token), where, number, name)
        with tempfile.TemporaryFile() as archive:
            download(found.url, token, archive)
            archive.seek(0)
            unpack(archive, target)
    old = "" if found.current else ", which is no longer the newest of the pull request"
    click.echo(f"{target}: workflow run {found.run_id} of commit {found.head_sha[:12]}{old}")
