"""How probes run outside tools: `servegate.subprocesses.run`, handed in, so that tests need no process.

The tools talk to a loopback address only, so proxies named by the environment must never stand between.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from servegate.domain.records import Json
from servegate.errors import MeasurementError
from servegate.subprocesses import Completed

LOOPBACK = {"NO_PROXY": "127.0.0.1,localhost,::1", "no_proxy": "127.0.0.1,localhost,::1"}
"""`vllm bench serve` opens its session with `trust_env=True`, and lm-eval's first request honours proxies too."""
API_KEY = "OPENAI_API_KEY"
"""Where lm-eval 0.4.13 (`local-completions`) and `vllm bench serve` 0.32.0 look for the key that they send."""
SHOWN_LINES, SHOWN_CHARACTERS = 12, 1200


class Runner(Protocol):
    """`servegate.subprocesses.run`, or a stand-in of its shape. `environment` is the tool's whole environment."""

    def __call__(
        self, command: Sequence[str], *, timeout_s: float, environment: Mapping[str, str] | None, check: bool
    ) -> Completed:
        """Run a tool to its end. Raises MeasurementError when it cannot be started or exceeds its deadline."""


def run_tool(
    runner: Runner,
    command: Sequence[str],
    *,
    overlay: Mapping[str, str],
    api_key: str,
    log_path: Path,
    timeout_s: float,
    what: str,
) -> Completed:
    """Run a tool under servegate's environment and `overlay`, and keep its whole output in `log_path`.

    It sends `api_key` to the engine, and never the caller's own key of some other service.

    Raises:
        MeasurementError: it ended with a code other than 0, with its last lines in `why`, or what `runner` raises.
    """
    done = runner(
        command, timeout_s=timeout_s, environment={**os.environ, **LOOPBACK, **overlay, API_KEY: api_key}, check=False
    )
    log_path.write_bytes(f"{done.stdout}\n--- standard error ---\n{done.stderr}".encode("utf-8", "replace"))
    if done.returncode != 0:
        raise failure(f"{what} ended with exit code {done.returncode}", done, log_path)
    return done


def failure(what: str, done: Completed, log_path: Path) -> MeasurementError:
    """Return the error of a tool that ended: what it said last, and where all of it is."""
    return MeasurementError(what, why=last_lines(done), advice=f"Its whole output is in {log_path}.")


def last_lines(done: Completed) -> str:
    """Return the last lines of a tool's output for a message: progress bars dropped, printable, bounded."""
    lines = [line.rsplit("\r", 1)[-1] for text in (done.stdout, done.stderr) for line in text[-64_000:].split("\n")]
    kept = [line for line in lines if line.strip() and "it/s]" not in line and "s/it]" not in line][-SHOWN_LINES:]
    shown = ("".join(char if char.isprintable() else " " for char in line) for line in kept)
    return "\n".join(shown)[-SHOWN_CHARACTERS:]


def compact(value: Json) -> str:
    """Return JSON for a command line: ASCII, no spaces, sorted, no NaN."""
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":"))
