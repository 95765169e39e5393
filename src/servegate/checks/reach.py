"""What a check can say before anything is measured: the best that its plan can show, and how much it asks.

A gate of three prompts ends in REVIEW however good its candidate is, and its owner learns it after the run. So each check says
beforehand (`Check.best`) what its own rules would find in answers without any fault. Only what is certain is said: where the
number of questions is not known yet, the best is taken, and nothing is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Short:
    """A finding that faultless evidence has all the same. `code`: its code in `judge`, less the check's name."""

    code: str
    message: str
    """What there is, and how much would do."""


@dataclass(frozen=True)
class Best:
    """What a check would say of faultless evidence."""

    short: tuple[Short, ...] = ()
    """Each of these withholds PASS."""
    remarks: tuple[str, ...] = ()
    """What it will not judge, though that withholds nothing."""
    needs_points: float | None = None
    """The limit under which such an increase has to be ruled out; None: it asks for none."""
    leaves_points: float | None = None
    """Largest increase of broken answers, in points, that its own answers leave possible: another check's question
    (`settling`). None: it does not tell."""


@dataclass(frozen=True)
class Amount:
    """What one step asks of one arm, at most; None where that is known only once the engine serves."""

    requests: int | None = None
    read: int | None = None
    """Tokens of prompts."""
    written: int | None = None
    """Tokens of answers."""
