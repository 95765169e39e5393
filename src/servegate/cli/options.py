"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from servegate.config import Overrides, Resolved, load, resolve

F = TypeVar("F", bound=Callable[..., Any])

RUN_ARGUMENT = click.argument("run", type=click.Path(path_type=Path))


def plan_options(command: F) -> F:
    """Add the options that say what to gate; the config file's values stand where an option is absent."""
    for option in reversed(
        (
            click.option("--config", type=click.Path(path_type=Path), help="Gate config; ./servegate.yaml when it exists."),
            click.option("--baseline", metavar="YAML", help="Serving config before the change."),
            click.option("--candidate", metavar="YAML", help="Serving config after the change."),
            click.option("--gate", metavar="NAME", help="Name of the gate: [a-z0-9-], at most 40 characters."),
            click.option("--engine", metavar="PATH", help="Engine executable of both arms."),
            click.option("--rounds", type=int, metavar="N", help="Passes of every check over each arm."),
            click.option("--output", metavar="DIR", help="Where run directories go."),
        )
    ):
        command = option(command)
    return command


def resolved(
    config: Path | None, *, baseline: str | None, candidate: str | None, gate: str | None, engine: str | None,
    rounds: int | None, output: str | None,
) -> Resolved:  # fmt: skip
    """Load and resolve a gate from the options of `plan_options`."""
    return resolve(load(config, Overrides(baseline, candidate, gate, engine, output, rounds)))
