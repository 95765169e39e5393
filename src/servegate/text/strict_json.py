"""JSON read as the standard says, without the liberties of Python's reader.

`json.loads` lets the last of two equal keys win, accepts NaN and Infinity, and reads 1e400 as infinity; a consumer that
parses strictly fails on all of these. The standard library is used nevertheless, because it alone keeps lone surrogates,
which model output may hold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from servegate.domain.records import Json

MAX_CHARACTERS = 256 * 1024


class NotJsonError(ValueError):
    """The text is no strict JSON. `position` counts characters from 0; `unfinished`: more text could still make it JSON."""

    def __init__(self, why: str, position: int | None = None, *, unfinished: bool = False) -> None:
        """Say why, where, and whether the text only stops too early."""
        super().__init__(why)
        self.position = position
        self.unfinished = unfinished


LONGEST_LITERAL = 12
"""An error so near the end (within a cut `-Infinity`, `false`, or a \\uXXXX escape) may be due to the cut alone."""


def parse(text: str, *, limit: int = MAX_CHARACTERS, real: Callable[[str], Any] | None = None) -> Json:
    """Return the value of a strict JSON text. Raises NotJsonError for everything else, whatever its size or depth.

    `real` makes the value of a number with a point or an exponent from its text; by default it is a finite float.
    """
    if len(text) > limit:
        raise NotJsonError(f"longer than {limit} characters")
    try:
        return json.loads(text, object_pairs_hook=_unrepeated, parse_constant=_refused, parse_float=real or _finite)
    except json.JSONDecodeError as error:
        end = len(text.rstrip())
        unfinished = error.msg.startswith("Unterminated string") or error.pos >= end - LONGEST_LITERAL
        if error.msg == "Extra data":
            unfinished = False
        raise NotJsonError(
            f"{error.msg} at line {error.lineno} column {error.colno}", error.pos, unfinished=unfinished
        ) from None
    except NotJsonError:
        raise
    except RecursionError:
        raise NotJsonError("nested too deeply") from None
    except ValueError:  # an integer of more digits than the interpreter converts
        raise NotJsonError("a number of too many digits") from None


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise NotJsonError(f"the key {key[:40]!r} is repeated")
            seen.add(key)
    return result


def _refused(constant: str) -> Any:
    raise NotJsonError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise NotJsonError(f"the number {text[:40]} is out of range")
    return value
