"""Numbers as people read them. Values are rounded here and nowhere else; decisions and CSV files keep them in full."""

from __future__ import annotations

import json
import math

from servegate.domain.blocks import Cell
from servegate.domain.records import Json

NOT_MEASURED = "not measured"
MINUS = "−"


def cell(value: Cell, *, digits: int = 2, percent: bool = False) -> str:
    """Return a cell's text. `percent` prints a fraction (0.031) as a percentage (3.10 %)."""
    if value is None:
        return NOT_MEASURED
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    return number(value * 100 if percent else value, digits) + (" %" if percent else "")


def number(value: float, digits: int) -> str:
    """Return a number with thousands separators; a value that would round to zero keeps two significant digits."""
    if isinstance(value, int) and abs(value) < 10**15:
        return f"{value:,}".replace("-", MINUS)
    if not math.isfinite(value):
        return "out of range"
    shown = f"{value:,.{max(0, min(digits, 12))}f}"
    if abs(value) >= 1e15 or (value != 0 and not any(digit in "123456789" for digit in shown)):
        shown = f"{value:.1e}"
    elif not any(digit in "123456789" for digit in shown):
        shown = shown.lstrip("-")
    return shown.replace("-", MINUS)


def significant(value: float) -> str:
    """Return a number of unknown size with up to four significant digits, as a fired rule prints it."""
    if value == int(value) and abs(value) < 1e9:
        return number(int(value), 0)
    size = math.floor(math.log10(abs(value)))
    if not -5 <= size < 9:
        return f"{value:.3e}".replace("-", MINUS)
    shown = number(value, 3 - size)
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def seconds(value: float | None) -> str:
    """Return a duration: `0.42 s`, `38.1 s`, `4 min 05 s`."""
    if value is None:
        return NOT_MEASURED
    if value < 1:
        return f"{value:.2f} s"
    if value < 120:
        return f"{value:.1f} s"
    whole = round(value)
    return f"{whole // 60:,} min {whole % 60:02d} s"


def plain(value: Json) -> str:
    """Return any JSON value on one line: text as it is, the rest as compact JSON; `None` is a knob that is not set."""
    if value is None:
        return "not set"
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(", ", ": "))
