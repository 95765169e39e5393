"""The values of a JSON answer by their path, each with its type: `true` is not `1`, and `1` is not `1.0`.

Order of keys, white space and the way a number is written are form; a key, a value or a type is a fact.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from servegate.domain.records import Json
from servegate.text import strict_json
from servegate.text.fences import fenced_blocks
from servegate.text.quantities import decimal_text

MOST_LEAVES = 5_000
LONG_WORDS = 6
"""A string of more words is prose: its own facts are compared, not its wording."""
_REAL = re.compile(r"(-?)([0-9.]+)((?:[eE][+-]?[0-9]+)?)")


class _Real(str):
    """The text of a number with a point or an exponent: as a float it would lose digits."""

    __slots__ = ()


@dataclass
class Leaves:
    """`values`: path -> typed value. `prose`: the long strings, in the order of their paths."""

    values: dict[str, str] = field(default_factory=dict)
    prose: list[str] = field(default_factory=list)


def leaves(text: str) -> Leaves | None:
    """Return the values when the whole answer (or its one fenced block) is a JSON object or array, else None."""
    body = text.strip()
    if body.startswith(("```", "~~~")):
        blocks = fenced_blocks(body)
        body = blocks[0].body.strip() if len(blocks) == 1 and blocks[0].closed else ""
    if not body.startswith(("{", "[")):
        return None
    try:
        value = strict_json.parse(body, real=_Real)
    except strict_json.NotJsonError:
        return None
    found = Leaves()
    return found if _walk(value, "$", found) else None


def _walk(value: Json, path: str, found: Leaves) -> bool:
    """Enter every leaf; False when there are too many to compare one by one."""
    if isinstance(value, dict) and value:
        return all(_walk(value[key], f"{path}.{key}", found) for key in sorted(value))
    if isinstance(value, list) and value:
        return all(_walk(item, f"{path}[{index}]", found) for index, item in enumerate(value))
    if isinstance(value, str) and not isinstance(value, _Real) and len(value.split()) > LONG_WORDS:
        found.prose.append(value)
        value = "(text)"
    found.values[path] = _typed(value)
    return len(found.values) <= MOST_LEAVES


def _typed(value: Json) -> str:
    if isinstance(value, _Real) and (match := _REAL.fullmatch(value)) is not None:
        return f"{match[1]}{_decimal(match[2], match[3])} (real)"
    return json.dumps(value, ensure_ascii=False)


def _decimal(digits: str, exponent: str) -> str:
    """A point in JSON is always a decimal point, so `1.250` has one reading here."""
    return decimal_text(f"{digits}0" if "." in digits else digits, exponent) or digits + exponent
