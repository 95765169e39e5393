"""`servegate doctor`: what this machine has, and what is missing for a gate. It starts no engine."""

from __future__ import annotations

import os
import shutil
from difflib import get_close_matches
from pathlib import Path

import click
import psutil
from rich.console import Console
from rich.table import Table
from rich.text import Text

from servegate import __version__
from servegate.cli.terminal import printable
from servegate.errors import EngineError, MeasurementError, UsageError
from servegate.manifest import host_gpus
from servegate.sizing.cards import FP8_CAPABILITY, has_native_fp8
from servegate.subprocesses import run

REQUIREMENTS = ("engine", "gpu", "fp8-native")
"""What `--require` knows; `engine` alone is required when nothing is named;
`fp8-native`: every card multiplies FP8 itself, instead of unpacking the weights to 16 bits."""
Row = tuple[str, str, str]
"""(what, what was found, mark): mark is `ok`, `absent` or `note`."""


@click.command("doctor", help="Say what this machine has: GPU, driver, engine, lm-eval, disk, memory.")
@click.option("--engine", default="vllm", metavar="PATH", help="Engine executable to look for.", show_default=True)
@click.option(
    "--require",
    "required",
    multiple=True,
    metavar="NAME",
    help=f"Exit 2 unless it is here: {', '.join(REQUIREMENTS)}. By default: engine.",
)
def command(engine: str, required: tuple[str, ...]) -> None:
    """Look around and print a table; exits 2 when something is absent that was required, by default the engine."""
    for name in required:
        if name not in REQUIREMENTS:
            near = get_close_matches(name, REQUIREMENTS, n=1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise UsageError(
                f"--require {name!r}: no such requirement{hint}", advice=f"Requirements: {', '.join(REQUIREMENTS)}."
            )
    served = _engine_row(engine)
    rows = [("servegate", __version__, "ok"), *_gpu_rows(), served, _lm_eval_row(), *_room_rows()]
    table = Table(box=None, pad_edge=False, show_header=False)
    marks = {"ok": ("✓", "green"), "absent": ("✗", "red"), "note": ("·", "dim")}
    for what, found, mark in rows:
        symbol, style = marks[mark]
        table.add_row(Text(symbol, style=style), Text(what, style="bold"), Text(printable(found), overflow="fold"))
    Console(highlight=False).print(table)
    lacking = [reason for name in dict.fromkeys(required or ("engine",)) if (reason := lacks(name, served)) is not None]
    if lacking:
        raise UsageError("; ".join(lacking), advice="The table above says what is here; nothing was started.")


def lacks(requirement: str, engine: Row = ("engine", "not looked for", "absent")) -> str | None:
    """Return why a requirement is not met on this machine, or None when it is; every card has to meet it."""
    if requirement == "engine":
        return None if engine[2] == "ok" else f"there is no engine: {engine[1]}"
    gpus, _driver, _cuda, reason = host_gpus()
    if not gpus:
        return f"{requirement} is required and there is no GPU: {reason}"
    if requirement == "gpu":
        return None
    unfit = [gpu for gpu in gpus if not has_native_fp8(gpu.compute_capability)]
    named = ", ".join(f"{gpu.name} (compute capability {gpu.compute_capability})" for gpu in unfit)
    need = ".".join(map(str, FP8_CAPABILITY))
    return f"{requirement} is required, compute capability {need} or newer, and not met by {named}" if unfit else None


def _gpu_rows() -> list[Row]:
    gpus, driver, cuda, reason = host_gpus()
    if not gpus:
        return [("GPU", f"none: {reason}; speed is not judged on a CPU", "absent")]
    rows: list[Row] = [
        (f"GPU {index}", f"{gpu.name}, sm_{gpu.compute_capability.replace('.', '')}, {gpu.memory_gib:.0f} GiB", "ok")
        for index, gpu in enumerate(gpus)
    ]
    return [*rows, ("driver", f"{driver} (CUDA {cuda})", "ok")]


def _engine_row(engine: str) -> Row:
    path = shutil.which(engine)
    if path is None:
        where = "is no executable file" if os.sep in engine else "is not on the PATH"
        return ("engine", f"{engine!r} {where}; set engine.executable, or pass --engine PATH", "absent")
    try:
        finished = run([path, "--version"], timeout_s=120)
    except (EngineError, MeasurementError) as error:
        return ("engine", f"{path} does not answer --version: {error.what}", "absent")
    lines = [line.strip() for line in finished.stdout.splitlines() if line.strip()]
    return ("engine", f"{lines[-1] if lines else 'no version printed'} at {path}", "ok")


def _lm_eval_row() -> Row:
    from servegate.cli.world import lm_eval_executable

    path = lm_eval_executable()
    return (
        ("lm-eval", path, "ok") if Path(path).is_file() else ("lm-eval", "not found; pip install 'servegate[eval]'", "absent")
    )


def _caches_row() -> Row:
    from servegate.engines.cache_keeping import GIB, KINDS, entries
    from servegate.engines.compile_cache import cache_directory

    found = entries(os.environ)
    parts = [
        f"{len(own)} {kind} {sum(each.size_bytes for each in own) / GIB:.2f} GiB"
        for kind in KINDS
        if (own := [each for each in found if each.kind == kind])
    ]
    return ("caches", f"{', '.join(parts) or 'none'} in {cache_directory(os.environ)}; `servegate clean` removes", "note")


def _room_rows() -> list[Row]:
    disk, memory = shutil.disk_usage(Path.cwd()), psutil.virtual_memory()
    return [
        ("disk", f"{disk.free / 2**30:.0f} GiB free of {disk.total / 2**30:.0f} here", "note"),
        _caches_row(),
        ("memory", f"{memory.available / 2**30:.0f} GiB free of {memory.total / 2**30:.0f}, {os.cpu_count()} cores", "note"),
    ]
