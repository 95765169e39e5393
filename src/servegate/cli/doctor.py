"""`servegate doctor`: what this machine has, and what is missing for a gate. It starts no engine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import click
import psutil
from rich.console import Console
from rich.table import Table
from rich.text import Text

from servegate import __version__
from servegate.cli.terminal import printable
from servegate.errors import EngineError, MeasurementError
from servegate.manifest import host_gpus
from servegate.subprocesses import run

Row = tuple[str, str, str]
"""(what, what was found, mark): mark is `ok`, `absent` or `note`."""


@click.command("doctor", help="Say what this machine has: GPU, driver, engine, lm-eval, disk, memory.")
@click.option("--engine", default="vllm", metavar="PATH", help="Engine executable to look for.", show_default=True)
def command(engine: str) -> None:
    """Look around and print a table; always exits 0, since an absence may be what the user wanted to know."""
    rows = [("servegate", __version__, "ok"), *_gpu_rows(), _engine_row(engine), _lm_eval_row(), *_room_rows()]
    table = Table(box=None, pad_edge=False, show_header=False)
    marks = {"ok": ("✓", "green"), "absent": ("✗", "red"), "note": ("·", "dim")}
    for what, found, mark in rows:
        symbol, style = marks[mark]
        table.add_row(Text(symbol, style=style), Text(what, style="bold"), Text(printable(found), overflow="fold"))
    Console(highlight=False).print(table)


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


def _room_rows() -> list[Row]:
    disk, memory = shutil.disk_usage(Path.cwd()), psutil.virtual_memory()
    return [
        ("disk", f"{disk.free / 2**30:.0f} GiB free of {disk.total / 2**30:.0f} here", "note"),
        ("memory", f"{memory.available / 2**30:.0f} GiB free of {memory.total / 2**30:.0f}, {os.cpu_count()} cores", "note"),
    ]
