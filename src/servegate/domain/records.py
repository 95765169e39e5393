"""Base classes of every record and of every settings model.

Records are read back from run directories, so unknown fields are ignored (a newer servegate may have added an
optional one). Settings come from people, so unknown keys are errors.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, field_validator

MOST_SEED = 2**31 - 1
"""Tools seed generators that take 32 bits; servegate adds some of its own."""
MOST, LEAST = 10**12, 1e-9
"""No count, time, size or speed of a gate is larger or smaller. A record says so only when something is wrong with it; and
sums, squares and ratios of what lies between are still numbers."""
Json = Any
"""A value of JSON as the standard library parses it. Records validate it; nothing else may rely on its shape."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _whole(value: Json) -> Json:
    """Refuse what Python calls equal to a whole number: `true` is 1, and so is 1.0."""
    if type(value) is not int:
        raise ValueError(f"it must be a whole number, not {value!r}"[:80])
    return value


def _no_dust(value: float) -> float:
    if 0 < value < LEAST:
        raise ValueError(f"it must be 0 or at least {LEAST:g}")
    return value


def day_of(text: str) -> date:
    """Return a day written as 2026-11-30, the one form that everybody reads alike. Raises ValueError for any other.

    ISO 8601 has more forms (20261130, 2026-W49-1), and so have Python's own readers.
    """
    if not _DAY.fullmatch(text):
        raise ValueError(f"it must be a day such as 2026-11-30, not {text[:40]!r}")
    return date.fromisoformat(text)


def _a_day(text: str) -> str:
    return day_of(text).isoformat()


Count = Annotated[int, Field(strict=True, ge=0, le=MOST)]
"""How many, or the place of one among many. Like all of these it is a number in JSON, too: `"1"`, `true` and `1.0` are none."""
Positive = Annotated[int, Field(strict=True, ge=1, le=MOST)]
Seed = Annotated[int, Field(strict=True, ge=0, lt=2**64)]
Amount = Annotated[float, Field(strict=True, ge=0, le=MOST)]
"""A time, size, speed or temperature."""
Pace = Annotated[Amount, AfterValidator(_no_dust)]
"""An amount that something is divided by, or whose logarithm is taken: zero, or at least `LEAST`."""
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Real = Annotated[float, Field(strict=True, ge=-MOST, le=MOST)]
"""A number of either sign, such as a score."""
VersionOne = Annotated[Literal[1], BeforeValidator(_whole)]
"""The version of a file that a person or a program writes."""
Day = Annotated[str, AfterValidator(_a_day)]
"""A day as text, such as 2026-11-30."""


class Record(BaseModel):
    """A frozen fact. Floats are finite: an unknown number is `None` beside a `<name>_reason`."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False, protected_namespaces=())

    def to_json(self) -> dict[str, Json]:
        """Return the record as plain JSON values; tuples become lists."""
        data: dict[str, Json] = self.model_dump(mode="python")
        return {key: _plain(value) for key, value in data.items()}


class Settings(BaseModel):
    """A frozen part of the gate config: strict types, unknown keys refused, every field with a default."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False, protected_namespaces=(), use_attribute_docstrings=True
    )

    @field_validator("*")
    @classmethod
    def _within_reason(cls, value: Json) -> Json:
        """A number of more digits than anything has is a slip, and would end as an overflow in the middle of a run."""
        for each in value if isinstance(value, tuple) else (value,):
            if type(each) in (int, float) and not -MOST <= each <= MOST:
                raise ValueError(f"numbers go up to {MOST:g} here")
        return value

    def to_json(self) -> dict[str, Json]:
        """Return the settings as plain JSON values under the names that people write; tuples become lists."""
        data: dict[str, Json] = self.model_dump(mode="python", by_alias=True)
        return {key: _plain(value) for key, value in data.items()}


_LEAVES = frozenset((str, int, float, bool))


def _plain(value: Json) -> Json:
    """Tuples to lists and string enums to their text; strings are kept as they are, lone surrogates included."""
    if value is None or type(value) in _LEAVES:
        return value
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return str.__str__(getattr(value, "value", value))
    return value
