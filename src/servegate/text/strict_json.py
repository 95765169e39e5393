"""Why an answer of a model is no JSON: what is wrong, where, and whether it only stops too early.

The rules are `domain.strict_json`'s. A model's answer may end at its token limit, and then "not JSON yet" is no broken
contract: so the error says whether more text could still mend it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from servegate.domain.records import Json
from servegate.domain.strict_json import LooseJsonError, parse_json

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
        return parse_json(text, real=real)
    except json.JSONDecodeError as error:
        end = len(text.rstrip())
        unfinished = error.msg.startswith("Unterminated string") or error.pos >= end - LONGEST_LITERAL
        if error.msg == "Extra data":
            unfinished = False
        raise NotJsonError(
            f"{error.msg} at line {error.lineno} column {error.colno}", error.pos, unfinished=unfinished
        ) from None
    except LooseJsonError as error:
        raise NotJsonError(str(error)) from None
    except ValueError:  # an integer of more digits than the interpreter converts
        raise NotJsonError("a number of too many digits") from None
