"""Options that several verbs share."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from servegate.config import GateConfig, Overrides, Resolved, load, resolve
from servegate.engines.options import VLLM_VERSION
from servegate.errors import ServegateError, UnknownOptionError, UsageError
from servegate.subprocesses import run

HELP_TIMEOUT_S = 120.0
"""`vllm serve --help=all` imports half of vLLM first: 10 to 60 s."""

F = TypeVar("F", bound=Callable[..., Any])

IMAGES = click.option(
    "--images",
    nargs=2,
    metavar="BASELINE CANDIDATE",
    help="Container images that the arms are measured in, one after the other with --arm; servegate starts none.",
)
RUN_ARGUMENT = click.argument("run", type=click.Path(path_type=Path))


def plan_options(command: F) -> F:
    """Add the options that say what to gate; the config file's values stand where an option is absent."""
    for option in reversed(
        (
            click.argument("file", required=False, metavar="[GATE.yaml]", type=click.Path(path_type=Path)),
            click.option("--config", type=click.Path(path_type=Path), help="Gate config; ./servegate.yaml when it exists."),
            click.option("--baseline", metavar="YAML", help="Serving config before the change."),
            click.option("--candidate", metavar="YAML", help="Serving config after the change."),
            click.option("--gate", metavar="NAME", help="Name of the gate: [a-z0-9-], at most 40 characters."),
            click.option("--engine", metavar="PATH", help="Engine executable of both arms."),
            IMAGES,
            click.option("--rounds", type=int, metavar="N", help="Passes of every check over each arm."),
            click.option("--output", metavar="DIR", help="Where run directories go."),
        )
    ):
        command = option(command)
    return command


def resolved(config: Path | None, *, file: Path | None, **given: Any) -> Resolved:
    """Load and resolve a gate from the options of `plan_options`; its config is `--config FILE` or just `FILE`.

    Raises:
        UsageError: two gate configs are given, or the gate is wrong.
    """
    if file is not None and config is not None:
        raise UsageError(f"two gate configs are given: {file} and --config {config}", advice="Give one of them.")
    loaded = load(config if file is None else file, Overrides(**given))
    try:
        return resolve(loaded)
    except UnknownOptionError as error:
        raise _asked(error, loaded.config) from None


def _asked(error: UnknownOptionError, config: GateConfig) -> UsageError:
    """Return the error with what the engines' own `--help` says of the option; they are asked in this case alone."""
    arms = (config.arms.baseline, config.arms.candidate)
    for executable in dict.fromkeys(arm.engine.executable or config.engine.executable for arm in arms):
        path = shutil.which(executable)
        if path is None:
            continue
        try:
            text = run([path, "serve", "--help=all"], timeout_s=HELP_TIMEOUT_S).stdout
        except ServegateError:
            continue
        if re.search(rf"(?<![\w-])--(?:no-)?{re.escape(error.option)}(?![\w-])", text):
            return UsageError(
                f"{error.what}; {executable!r} has it",
                why=f"The names that servegate knows are those of vLLM {VLLM_VERSION}; this engine is of another version.",
                advice=f"Add it to the gate config, so that it is passed on: `engine: {{also_known: [{error.option}]}}`.",
            )
    return error
