"""`servegate verify`: is a run directory what it was when it was completed?"""

from __future__ import annotations

from pathlib import Path

import click

from servegate.artifacts import RunDirectory
from servegate.cli.options import RUN_ARGUMENT
from servegate.errors import RunDirectoryError


@click.command("verify", help="Check every file of a run directory against its checksums.")
@RUN_ARGUMENT
def command(run: Path) -> None:
    """Name every file that is missing, changed or added."""
    differences = RunDirectory.open(run).verify()
    if differences:
        raise RunDirectoryError(f"{run}: {len(differences)} files differ from the checksums", why="\n".join(differences[:50]))
    click.echo(f"{run}: every file is as it was")
