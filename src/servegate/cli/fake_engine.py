"""`servegate fake-engine`: a `vllm` without a model, to rehearse a workflow and its bad endings on any machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click

from servegate.engines.rehearsal import FAULTS, VARIABLE, install
from servegate.engines.rehearsal import command as program


@click.command(
    "fake-engine",
    help="A `vllm` without a model: rehearse a gate without a GPU. ARGUMENTS are vLLM's own: serve, bench serve, --version.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    epilog=f"Set {VARIABLE} in an arm's environment for a bad ending:\n\n\b\n"
    + "\n".join(f"{fault:26}{meaning}" for fault, meaning in FAULTS.items()),
)
@click.option(
    "--install", "directory", type=click.Path(path_type=Path), metavar="DIR", help="Write an executable DIR/vllm and stop."
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(directory: Path | None, arguments: tuple[str, ...]) -> int:
    """Install the fake engine, run it, or say how it is used."""
    if directory is not None:
        path = install(directory)
        click.echo(f"{path}\nRehearse: servegate run --engine {path}")
        return 0
    if arguments:
        return subprocess.call((*program(), *arguments))
    click.echo("servegate fake-engine --install DIR, then: servegate run --engine DIR/vllm")
    click.echo(f"A bad ending, in the gate config: arms.candidate.environment: {{{VARIABLE}: die-at-start}}")
    for fault, meaning in FAULTS.items():
        click.echo(f"  {fault:26}{meaning}")
    return 0
