"""What every JSON file of a run directory carries around its data: kind, version, plan, arm, status and the reason for it.

A file of another kind, of a newer version or of another plan is an error before anybody looks at its data: two runs that were
mixed up would pair perfectly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import BaseModel, BeforeValidator, ValidationError

from servegate import __version__
from servegate.domain.evidence import Reason
from servegate.domain.records import Amount, Count, Json, Record
from servegate.errors import RunDirectoryError
from servegate.text.rulings import one_line

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

SCHEMA_VERSION = 1
UNBOUND = frozenset({"plan", "run"})
"""Kinds that are not made under a plan: the plan itself, and the run, which begins before there is one."""

MOST_FAULTS = 6

R = TypeVar("R", bound=Record)


class _Stage(Record):
    step: Count | None = None
    seconds: Amount | None = None


def _objects(value: Json) -> Json:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else value


class RunData(Record):
    """What of run.json is counted with: the stages' numbers. Whatever else stands among them is nobody's stage."""

    stages: Annotated[tuple[_Stage, ...], BeforeValidator(_objects)] = ()


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
    """Return the data as its record.

    Raises:
        RunDirectoryError: it does not hold what it should; names the first row and field, its value and what is allowed.
    """
    try:
        return record.model_validate(data)
    except ValidationError as error:
        faults = [_fault(item) for item in error.errors(include_url=False)]
        raise RunDirectoryError(
            f"{path} does not hold what it should: {faults[0]}",
            why="\n".join(faults[1:MOST_FAULTS]),
            advice="Restore the file, or measure again: what no run writes proves nothing.",
        ) from None


def _fault(item: ErrorDetails) -> str:
    """Return one of the validator's faults as `responses[3].asked is 0: ...`."""
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in item["loc"]).lstrip(".")
    where = one_line(where or "the whole")
    said = str(item["msg"]).removeprefix("Value error, ").removeprefix("Input ").replace("should", "must", 1)
    if item["type"] == "missing":
        return f"{where} is missing"
    if isinstance(item["input"], BaseModel | dict | list | tuple):
        return f"{where}: {one_line(said)}"
    try:
        value = repr(item["input"])
    except ValueError:  # a whole number of more digits than Python writes
        value = "a number of too many digits"
    return f"{where} is {one_line(value)}: it {one_line(said)}"
