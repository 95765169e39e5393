"""Base classes of every record and of every settings model.

Records are read back from run directories, so unknown fields are ignored (a newer servegate may have added an
optional one). Settings come from people, so unknown keys are errors.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict

Json = Any
"""A value of JSON as the standard library parses it. Records validate it; nothing else may rely on its shape."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def _whole(value: Json) -> Json:
    """Refuse what Python calls equal to a whole number: `true` is 1, and so is 1.0."""
    if type(value) is not int:
        raise ValueError(f"it must be a whole number, not {value!r}"[:80])
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
