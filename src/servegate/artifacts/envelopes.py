"""What every JSON file of a run directory carries around its data: kind, version, plan, arm, status and the reason for it.

A file of another kind, of a newer version or of another plan is an error before anybody looks at its data: two runs that were
mixed up would pair perfectly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from servegate import __version__
from servegate.domain.evidence import Reason
from servegate.domain.records import Json, Record
from servegate.errors import RunDirectoryError

SCHEMA_VERSION = 1
UNBOUND = frozenset({"plan", "run"})
"""Kinds that are not made under a plan: the plan itself, and the run, which begins before there is one."""

R = TypeVar("R", bound=Record)


@dataclass(frozen=True)
class Envelope:
    """What every JSON file of a run directory carries around its data."""

    kind: str
    gate: str
    plan: str | None
    arm: str | None
    status: str
    reason: Reason | None
    seconds: float | None
    columns: Json | None
    data: dict[str, Json]

    def to_json(self) -> dict[str, Json]:
        """Return the whole document."""
        return {
            "kind": self.kind,
            "schema_version": SCHEMA_VERSION,
            "servegate": __version__,
            "gate": self.gate,
            "plan": self.plan,
            "arm": self.arm,
            "status": self.status,
            "reason": self.reason.to_json() if self.reason else None,
            "seconds": self.seconds,
            "columns": self.columns,
            "data": self.data,
        }


def opened(document: Json, path: str, kind: str, plan: str | None) -> Envelope:
    """Return the envelope of a parsed file. `path` is for messages; `plan` is the fingerprint it must carry, None: any.

    Raises:
        RunDirectoryError: it is of another kind, version or plan, or damaged.
    """
    if not isinstance(document, dict) or document.get("kind") != kind:
        found = document.get("kind") if isinstance(document, dict) else type(document).__name__
        raise RunDirectoryError(f"{path} is of kind {found!r}, not {kind!r}", advice="Measure again, or restore the file.")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):  # to Python, true is 1
        raise RunDirectoryError(
            f"{path} has schema version {version!r}; this servegate {__version__} reads {SCHEMA_VERSION}",
            advice=f"Use the servegate that wrote it ({document.get('servegate')!r}) or a newer one.",
        )
    if plan is not None and kind not in UNBOUND and document.get("plan") != plan:
        raise RunDirectoryError(
            f"{path} belongs to another plan than plan.json",
            why="It was copied from another run, or one arm was measured under other settings.",
            advice="Measure both arms under one plan.",
        )
    reason = document.get("reason")
    try:
        return Envelope(
            kind=kind,
            gate=str(document.get("gate")),
            plan=document.get("plan"),
            arm=document.get("arm"),
            status=str(document.get("status")),
            reason=Reason.model_validate(reason) if reason else None,
            seconds=document.get("seconds"),
            columns=document.get("columns"),
            data=document["data"] if isinstance(document.get("data"), dict) else {},
        )
    except ValueError as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error


def validated(record: type[R], data: dict[str, Json], path: str) -> R:
    """Return the data as its record. Raises RunDirectoryError when it does not hold what it should."""
    try:
        return record.model_validate(data)
    except ValueError as error:
        raise RunDirectoryError(f"{path} does not hold what it should: {error}", advice="Measure again.") from error
