"""JSON read as the standard says, without the liberties of Python's reader.

`json.loads` lets the last of two equal keys win, accepts `NaN` and `Infinity`, and reads `1e999` as infinity; each of these
can turn a broken measurement into a number. The standard library is used nevertheless, because it alone keeps lone
surrogates, which model output may hold. Where a verdict needs to know *why* a text is no JSON, see `text.strict_json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from servegate.domain.records import Json


class LooseJsonError(ValueError):
    """Python's reader would take the text, and the standard does not."""


def parse_json(text: bytes | str, *, real: Callable[[str], Any] | None = None) -> Json:
    """Return the value of one strict JSON document.

    `real` makes the value of a number with a point or an exponent from its text; by default it is a finite float.

    Raises:
        LooseJsonError: a repeated key, a number that is none, or a depth beyond the interpreter's.
        ValueError: everything else that is no JSON (json.JSONDecodeError), no UTF-8, or an integer of too many digits.
    """
    try:
        return json.loads(text, object_pairs_hook=_unrepeated, parse_constant=_refused, parse_float=real or _finite)
    except RecursionError:
        raise LooseJsonError("nested too deeply") from None


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise LooseJsonError(f"the key {key[:40]!r} is repeated")
            seen.add(key)
    return result


def _refused(constant: str) -> Any:
    raise LooseJsonError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise LooseJsonError(f"the number {text[:40]} is out of range")
    return value
