"""Known faults of starting and of kernels, out of a data file with sources: a name for what an exception means.

The file is `data/faults.toml`. A fault gives a diagnosis and a suggestion; nothing here changes how an engine is started,
because a variable that picks another kernel changes what is measured.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from servegate.engines.fallbacks import entry


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
    blame: str | None = None
    """`runner` where the machine is at fault, whatever was served."""
    fallback: dict[str, Any] = field(default_factory=dict)
    """`environment` or `options` that get round it, for `engine.fallbacks`; suggested, never applied."""

    @property
    def advice(self) -> str:
        """Return cause, suggestion and first source as one line for a reader."""
        met = "" if self.cards == self.engines == "any" else f" Met with {self.engines}, {self.cards}."
        paste = f" To try that knowingly: `{self.paste}`." if self.fallback else ""
        return f"{self.cause} {self.workaround}{met}{paste} See {self.sources[0]}"

    @property
    def paste(self) -> str:
        """Return the fallback as a line for the gate config."""
        return entry(self.code, self.fallback.get("environment", {}), self.fallback.get("options", {}))


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
