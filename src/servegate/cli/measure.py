"""`servegate measure`: serve and measure; exit 0 when the evidence was written, whatever it will say."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from servegate.artifacts import RunDirectory
from servegate.cli.options import plan_options, resolved
from servegate.cli.terminal import printable, progress_for
from servegate.cli.world import measuring
from servegate.config import Resolved
from servegate.domain.arms import Role
from servegate.errors import UsageError


@click.command("measure", help="Serve and measure; the run directory can be compared later, elsewhere, without a GPU.")
@plan_options
@click.option("--arm", type=click.Choice([role.value for role in Role]), help="Measure this arm only, into an existing run.")
@click.option("--force", is_flag=True, help="Replace an earlier run of the same gate.")
def command(config: Path | None, arm: str | None, force: bool, **options: Any) -> None:
    """Measure one arm or both."""
    found = resolved(config, **options)
    run = measure(found, (arm,) if arm else None, force=force, console=Console(stderr=True))
    click.echo(str(run.root))


def measure(found: Resolved, arms: tuple[str, ...] | None, *, force: bool, console: Console) -> RunDirectory:
    """Make the run directory and measure into it; an arm measured alone joins the run that is there.

    Raises:
        UsageError: a directory is in the way, or the run that is there was made from another plan.
    """
    for warning in found.warnings:
        console.print(f"warning: {printable(warning)}", style="yellow", markup=False)
    world = measuring(found, progress_for(console))
    root = found.run_root
    if arms is not None and (root / "plan.json").is_file():
        run = RunDirectory.open(root)
        if run.read_plan().fingerprint() != found.plan.fingerprint():
            raise UsageError(f"{root} holds a run of another plan", advice="Give another --output, or measure both arms anew.")
    else:
        if force:
            _clear(root)
        run = RunDirectory.create(root)
    world(run).measure(arms or tuple(found.plan.arms))
    return run


def _clear(root: Path) -> None:
    """Remove an earlier run; anything that is not one is left alone."""
    if root.is_dir() and any(root.iterdir()):
        if not (root / "run.json").is_file():
            raise UsageError(f"{root} is not a run directory, so --force does not remove it", advice="Give another --output.")
        shutil.rmtree(root)
