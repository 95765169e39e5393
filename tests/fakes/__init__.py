"""Fakes speak the real protocol over loopback; each says in its first lines which version's shapes it follows."""

import shlex
import sys
from pathlib import Path


def install(directory: Path) -> Path:
    """Write an executable `vllm` that runs the fake, and return it for `engine.executable`."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "vllm"
    words = (sys.executable, "-I", "-S", str(Path(__file__).parent / "fake_vllm.py"))
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o755)
    return path
