"""How equal two texts are, in steps that a reader can check by eye.

Equal bytes; equal once the encoding form is folded (the same characters, composed or decomposed, with or without a byte
order mark); equal once white space is folded; or different. Nothing here decides what a difference means: a folded
comparison only says that no letter, digit or sign changed.

NFC is used and NFKC is not: NFKC turns `x²` into `x2`, which changes a number.
"""

from __future__ import annotations

import unicodedata
from enum import StrEnum

MAX_NORMALISED = 16_384
"""Characters. Normalising sorts runs of combining marks in quadratic time; a longer text is compared without it."""
BYTE_ORDER_MARK = "\ufeff"


class Sameness(StrEnum):
    """The first step of the ladder on which two texts are equal."""

    BYTES = "bytes"
    ENCODING = "encoding"
    WHITESPACE = "whitespace"
    NONE = "none"


def sameness(left: str, right: str, *, indentation: bool = False) -> Sameness:
    """Return how equal two texts are; symmetric.

    `indentation`: white space at the start of a line carries meaning (code, YAML), so only line ends, trailing white
    space and outer blank lines are folded.
    """
    if left == right:
        return Sameness.BYTES
    left, right = _composed(left), _composed(right)
    if left == right:
        return Sameness.ENCODING
    fold = _without_line_ends if indentation else _with_single_spaces
    return Sameness.WHITESPACE if fold(left) == fold(right) else Sameness.NONE


def _composed(text: str) -> str:
    text = text.removeprefix(BYTE_ORDER_MARK)
    return text if text.isascii() or len(text) > MAX_NORMALISED else unicodedata.normalize("NFC", text)


def _with_single_spaces(text: str) -> str:
    return " ".join(text.split())


def _without_line_ends(text: str) -> str:
    lines = (line.rstrip() for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    return "\n".join(lines).strip("\n")
