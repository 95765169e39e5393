"""Accepted differences: which changes of facts somebody has read, so that nobody reads the same drift twice.

An entry accepts exactly one thing: this prompt (by the hash of its messages), this class, these changed tokens (by their
hash), until a date. Anything else about the same prompt is a new change. An entry that has expired, or that matches
nothing, accepts nothing. Contract breaks and degenerate answers can not be accepted.

The date that counts is the day on which the run was measured, so judging a record again gives the same verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from servegate.domain.judgement import Comparison
from servegate.domain.records import Day, Json, Settings, VersionOne
from servegate.errors import UsageError

ACCEPTABLE_CLASS = "changed_fact"
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Entry(Settings):
    """One accepted change."""

    prompt: str = Field(min_length=1)
    """Id of the prompt, for people."""
    prompt_sha256: Sha256
    answer_class: Literal["changed_fact"] = Field(alias="class")
    changes_sha256: Sha256
    """Of the changed tokens of both arms, over all rounds."""
    changes: tuple[str, ...] = ()
    """The same in words, for people."""
    verdict: Literal["same", "wording", "minor"]
    """What the reader found: no change of meaning, other words, or a small one."""
    who: str = Field(min_length=1)
    why: str = Field(min_length=1)
    expires: Day
    """Last day on which it holds."""

    def to_yaml(self) -> dict[str, Json]:
        """Return the entry under the names that the file uses."""
        return {("class" if key == "answer_class" else key): value for key, value in self.to_json().items()}


class Ledger(Settings):
    """The file `servegate.accepted.yaml`."""

    version: VersionOne = 1
    accepted: tuple[Entry, ...] = ()


def parse(data: Json, path: str) -> Ledger:
    """Return the entries of a file's data. Raises UsageError with file, key, value and what is allowed."""
    try:
        return Ledger.model_validate(_tuples(data))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "the whole file"
        raise UsageError(
            f"{path}: {where!r}: {first['msg'].removeprefix('Value error, ')} (found {str(first.get('input'))[:60]!r})",
            advice="`servegate accept` writes these entries; each holds for one change of one prompt.",
        ) from None


def applied(comparison: Comparison, ledger: Ledger, measured_on: date | None) -> tuple[Comparison, tuple[Json, ...]]:
    """Return the comparison with accepted changes no longer unread, and what was accepted.

    A run without a date accepts nothing, since whether an entry has expired is then not known.
    """
    if not ledger.accepted or measured_on is None:
        return comparison, ()
    known = {(entry.prompt_sha256, entry.answer_class, entry.changes_sha256): entry for entry in ledger.accepted}
    items, accepted = [], []
    for item in comparison.items:
        key = (item.get("prompt_sha256"), item.get("class"), item.get("changes_sha256"))
        entry = known.get(key) if item.get("unread") else None  # type: ignore[arg-type]
        if entry is None:
            items.append(item)
            continue
        if date.fromisoformat(entry.expires) < measured_on:
            items.append({**item, "acceptance_expired": entry.expires})
            continue
        items.append({**item, "unread": False, "accepted": {"who": entry.who, "why": entry.why, "expires": entry.expires}})
        accepted.append(
            {name: value for name, value in entry.to_yaml().items() if name not in ("changes", "prompt")}
            | {"prompt_id": item["prompt_id"]}
        )
    unread = sum(bool(item.get("unread")) for item in items)
    candidate = {**comparison.candidate, "unread": unread, "accepted": len(accepted)}
    return comparison.model_copy(update={"items": tuple(items), "candidate": candidate}), tuple(accepted)


def merged(ledger: Ledger, new: Sequence[Entry]) -> Ledger:
    """Return the ledger with new entries; one for the same change replaces the old one."""
    kept = {(entry.prompt_sha256, entry.changes_sha256): entry for entry in (*ledger.accepted, *new)}
    return Ledger(accepted=tuple(sorted(kept.values(), key=lambda entry: (entry.prompt, entry.changes_sha256))))


def _tuples(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(_tuples(item) for item in value) if isinstance(value, list | tuple) else value
