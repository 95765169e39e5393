"""The names that `vllm serve` knows, with what each of them takes.

vLLM expands abbreviations (`quant` becomes `quantization`) and drops what it does not know in some positions, so a
misspelt option can silently serve something else. We accept complete, known names only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import resources
from typing import Literal

DATA_FILE = "vllm_options.tsv"
VLLM_VERSION = "0.32.0"
"""The version whose option names and config expansion are reproduced."""


@dataclass(frozen=True)
class Option:
    """One option. `null` says what the parser makes of the text `None`; `default` matters for flags and toggles."""

    name: str
    kind: Literal["flag", "toggle", "value", "list", "optional"]
    null: Literal["none", "text", "error"]
    default: Literal["off", "on", "unset", "set"]
    aliases: tuple[str, ...] = ()

    @property
    def is_boolean(self) -> bool:
        """Whether it is given without a value."""
        return self.kind in ("flag", "toggle")


@cache
def known_options() -> Mapping[str, Option]:
    """Return every option by its name, long aliases and `no-` forms included; all of them point at the option itself."""
    text = resources.files("servegate.data").joinpath(DATA_FILE).read_text("utf-8")
    found: dict[str, Option] = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, kind, null, default, *rest = line.split("\t")
        aliases = tuple(rest[0].split(",")) if rest else ()
        option = Option(name, kind, null, default, aliases)  # type: ignore[arg-type]  # the test of the data file checks them
        found[name] = option
        found.update({alias: option for alias in aliases if len(alias) > 3})
        if option.kind == "toggle":
            found[f"no-{name}"] = option
    return found


def suggestion(name: str) -> str:
    """Return "; did you mean ...?" for a name that is none, or an empty text."""
    options = known_options()
    for option in options.values():
        if name in option.aliases:
            return f"; did you mean {option.name!r}?"
    close = get_close_matches(name, options, n=1, cutoff=0.6) or [each for each in sorted(options) if each.startswith(name)][:1]
    return f"; did you mean {close[0]!r}?" if close else ""
