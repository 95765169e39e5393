"""`servegate measure`: serve and measure; exit 0 when the evidence was written, whatever it will say."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from servegate.artifacts import RunDirectory
from servegate.cli.options import plan_options, resolved
from servegate.cli.terminal import printable, progress_for
from servegate.cli.world import card_guard, measuring
from servegate.config import Resolved
from servegate.domain.arms import Role
from servegate.errors import Cancelled, StorageError, UsageError
from servegate.pipeline import Measuring


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
    for note in found.notes:
        console.print(f"note: {printable(note)}", markup=False)
    images = {arm.image for arm in found.plan.arms.values()}
    if arms is None and len(images) > 1:
        raise UsageError(
            "the arms have container images of their own, and one process can not be in both",
            advice="Measure each with --arm in its image and join the two outputs, as the action does with `candidate-image`.",
        )
    progress = progress_for(console)
    guard = card_guard(found, progress.say)
    world = measuring(found, progress, guard)
    _ensure_baseline(found.run_root, arms)
    served = [arm for name, arm in found.plan.arms.items() if arms is None or name in arms]
    with _alone(found.run_root), guard.claimed(served):
        return _measured(world, found, arms, force=force)


def _measured(
    world: Callable[[RunDirectory], Measuring], found: Resolved, arms: tuple[str, ...] | None, *, force: bool
) -> RunDirectory:
    root = found.run_root
    if arms is not None and (root / "plan.json").is_file():
        run = RunDirectory.open(root)
        if run.read_plan().fingerprint() != found.plan.fingerprint():
            advice = "Give another --output, or replace it: measure both arms anew, without --arm and with --force."
            raise UsageError(f"{root} holds a run of another plan", advice=advice)
    else:
        if force:
            _clear(root)
        run = RunDirectory.create(root)
    try:
        world(run).measure(arms or tuple(found.plan.arms))
    except Cancelled as error:
        error.advice = f"What was measured is kept in {root}; `servegate report {root}` reads it."
        raise
    return run


def _ensure_baseline(root: Path, arms: tuple[str, ...] | None) -> None:
    """Refuse another arm than the baseline where no run is yet: it could not be given what the baseline was given."""
    if arms is not None and Role.BASELINE.value not in arms and not (root / "plan.json").is_file():
        raise UsageError(
            f"{root} holds no run, so the {arms[0]} can not be given what the baseline was given",
            why="The baseline renders the inputs that every arm gets.",
            advice="Measure the baseline first, into the same --output, or copy its run directory there.",
        )


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Hold the gate's lock: two runs in one directory would judge one plan by the other's answers."""
    lock = root.parent / f".{root.name}.lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        stream = lock.open("a")
    except OSError as error:
        raise StorageError(f"{lock} could not be written: {error.strerror}", advice="Give another --output.") from error
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"another servegate is measuring into {root}", advice="Wait for it, or give another --output."
            ) from None
        yield


def _clear(root: Path) -> None:
    """Remove an earlier run; anything that is not one is left alone."""
    if root.is_dir() and any(root.iterdir()):
        if not (root / "run.json").is_file():
            raise UsageError(f"{root} is not a run directory, so --force does not remove it", advice="Give another --output.")
        shutil.rmtree(root)
