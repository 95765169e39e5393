"""Known faults of starting and of kernels, out of a data file with sources: a name for what an exception means.

The file is `data/faults.toml`. A fault gives a diagnosis and a suggestion; nothing here changes how an engine is started,
because a variable that picks another kernel changes what is measured.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True)
class Fault:
    """One known fault; `engines` and `cards` say in words where its sources met it."""

    code: str
    signature: re.Pattern[str]
    engines: str
    cards: str
    cause: str
    workaround: str
    sources: tuple[str, ...]

    @property
    def advice(self) -> str:
        """Return cause, suggestion and first source as one line for a reader."""
        met = "" if self.cards == self.engines == "any" else f" Met with {self.engines}, {self.cards}."
        return f"{self.cause} {self.workaround}{met} See {self.sources[0]}"


@cache
def known_faults() -> tuple[Fault, ...]:
    """Return every known fault, narrow ones first."""
    text = (resources.files("servegate.data") / "faults.toml").read_text("utf-8")
    return tuple(
        Fault(**{**entry, "signature": re.compile(entry["signature"]), "sources": tuple(entry["sources"])})
        for entry in tomllib.loads(text)["fault"]
    )


def fault_of(exception: str) -> Fault | None:
    """Return the first known fault that an exception's text shows."""
    return next((fault for fault in known_faults() if fault.signature.search(exception)), None)
