"""Reading JSON that others wrote, without the leniencies of `json.loads`.

The standard library keeps the last of repeated keys and accepts `NaN`, `Infinity` and `1e999`; each of these can turn a
broken measurement into a number. Lone surrogates pass, since model output may hold them.
"""

from __future__ import annotations

import json
from typing import Any

from servegate.domain.records import Json


def parse_json(text: bytes | str) -> Json:
    """Parse one JSON document. Raises ValueError on anything that is not strict JSON, with what and where."""
    try:
        return json.loads(text, object_pairs_hook=_unrepeated, parse_constant=_refused, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"repeated key {repeated!r}")
    return result


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is out of range")
    return value
