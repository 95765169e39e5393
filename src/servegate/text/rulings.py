"""What judging a contract says: kept, broken, or open, and why in one line."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAX_CHARACTERS = 256 * 1024
"""A longer answer is not parsed: parsers of hostile text stay far below a second up to here."""


class State(StrEnum):
    """`open`: the text so far is no evidence either way, since it was cut or could not be judged in time."""

    KEPT = "kept"
    BROKEN = "broken"
    OPEN = "open"


@dataclass(frozen=True)
class Ruling:
    """A state and why; `why` is one printable line of at most 160 characters."""

    state: State
    why: str = ""


KEPT = Ruling(State.KEPT)


def broken(why: str) -> Ruling:
    """Return a ruling that the contract does not hold."""
    return Ruling(State.BROKEN, one_line(why))


def undecided(why: str) -> Ruling:
    """Return a ruling that nothing can be said."""
    return Ruling(State.OPEN, one_line(why))


def one_line(text: str) -> str:
    """Return a hostile text on one line: unprintable characters as spaces, at most 160 characters."""
    shown = "".join(character if character.isprintable() else " " for character in text[:400])
    return shown if len(shown) <= 160 else shown[:159] + "…"
