"""How a text that a person gives is decoded: as UTF-8, with or without the mark that some editors put before it."""

from __future__ import annotations

NUL_SHARE = 0.2
"""UTF-16 and UTF-32 of a text in Latin letters are half and more NUL, and without a mark they are valid UTF-8."""


def decoded(content: bytes) -> str:
    """Return the text. Raises UnicodeDecodeError for bytes that are no UTF-8, or only look like it."""
    text = content.decode("utf-8-sig")
    if content.count(0) > NUL_SHARE * len(content):
        raise UnicodeDecodeError("utf-8", content, content.index(0), content.index(0) + 1, "NULs everywhere, as UTF-16 has")
    return text
