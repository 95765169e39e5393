"""Paths that a serving config may name: any text at all, also one that no file system takes."""

from __future__ import annotations

import os
from pathlib import Path

NOWHERE = Path(os.devnull) / "no-such-path"
"""A path that never exists."""


def path_of(text: str) -> Path:
    """Return the path that a text names, with `~` expanded.

    A text that cannot be looked up (an unknown user's home, a name that is too long, a NUL, a folder that may not be read)
    names nothing here: the path that is returned does not exist.
    """
    try:
        path = Path(text).expanduser()
        path.stat()
    except FileNotFoundError:
        return path
    except (OSError, RuntimeError, ValueError):
        return NOWHERE
    return path
