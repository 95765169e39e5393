"""The one way in which a prediction is refused, and readers of untrusted numbers that refuse so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LARGEST = 10**9
"""No dimension, count or length of a served model is larger; a config is input like any other."""


class CannotSize(ValueError):  # noqa: N818 - an answer, not a defect
    """Nothing can be predicted; the message is the reason, fit to stand after "not predicted: "."""


def positive(values: Mapping[str, Any], *names: str, default: int | None = None) -> int:
    """Return the first of these keys that is set, as a whole number from 1 to `LARGEST`.

    Raises:
        CannotSize: none is set and there is no default, or the value is no such number.
    """
    for name in names:
        value = values.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= LARGEST:
            raise CannotSize(f"config.json: {name!r} is {_short(value)}, not a number from 1 to {LARGEST}")
        return value
    if default is None:
        raise CannotSize(f"config.json has no {names[0]!r}")
    return default


def count(values: Mapping[str, Any], *names: str) -> int:
    """Return the first of these keys that is set, as a whole number from 0; 0 when none is.

    Raises:
        CannotSize: the value is no such number.
    """
    known = next((name for name in names if values.get(name) not in (None, 0, False)), None)
    return positive(values, known) if known else 0


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a mapping, an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
