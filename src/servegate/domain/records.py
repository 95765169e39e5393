"""Base classes of every record and of every settings model.

Records are read back from run directories, so unknown fields are ignored (a newer servegate may have added an
optional one). Settings come from people, so unknown keys are errors.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

Json = Any
"""A value of JSON as the standard library parses it. Records validate it; nothing else may rely on its shape."""


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
