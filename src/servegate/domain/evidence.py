"""What was observed: engine facts, and measurements with their columns.

A check either measured (`Measurement`), measured in part (`partial` is set), or did not (`NotMeasured`); an absent
measurement is never an empty one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field, model_validator

from servegate.domain.records import Amount, Count, Json, Record

Columns = dict[str, npt.NDArray[Any]]
"""Columns stored beside a measurement: name -> array whose first axis is the row."""


LOGPROBS = (-10_000.0, 1.0)
"""Range of a logprob in nats. Engines write minus infinity as -9999; arithmetic in 16 bits can come out a little above 0."""


class ItemStatus(StrEnum):
    """What became of one request. Only `ok` may be scored; none of the others is ever "wrong" or "equal"."""

    OK = "ok"
    TRUNCATED = "truncated"
    REASONING_ONLY = "reasoning_only"
    EMPTY = "empty"
    FAILED = "failed"
    TIMEOUT = "timeout"
    SKIPPED = "skipped"


class Reason(Record):
    """Why something is missing: a stable code and a sentence."""

    code: str
    message: str


class NotMeasured(Record):
    """A check that did not measure an arm, and why."""

    reason: Reason


class Measurement(Record):
    """Raw result of one check on one arm; subclasses add fields.

    Tuples hold one record per sample. Items of ragged columns carry `first_row` and `rows`.
    """

    model_config = ConfigDict(
        frozen=True, extra="ignore", allow_inf_nan=False, protected_namespaces=(), arbitrary_types_allowed=True
    )

    columns: Columns = Field(default_factory=dict, exclude=True, repr=False)
    partial: Reason | None = Field(default=None, exclude=True)

    SAMPLES: ClassVar[tuple[str, ...]] = ()
    """Names of the fields that hold one record per sample; steps append to them."""
    COLUMNS: ClassVar[dict[str, tuple[str, int]]] = {}
    """Name of a column -> (kinds of numpy dtype it may have, axes). Columns that are stored must be all of these."""
    RANGES: ClassVar[dict[str, tuple[float, float]]] = {}
    """Name of a column -> the least and the most that a row may hold; NaN is a missing number in all of them."""

    @model_validator(mode="after")
    def _columns_fit(self) -> Self:
        if not self.columns:
            return self
        for name, (kinds, axes) in self.COLUMNS.items():
            column = self.columns.get(name)
            if column is None:
                raise ValueError(f"the column {name!r} is missing")
            if column.dtype.kind not in kinds or column.ndim != axes:
                found = f"{column.dtype} with {column.ndim} axes"
                raise ValueError(f"the column {name!r} must be {'/'.join(kinds)} with {axes} axes, not {found}")
        for name, (least, most) in self.RANGES.items():
            if name in self.columns and (wrong := _outside(self.columns[name], least, most)) is not None:
                raise ValueError(f"row {wrong[0]} of the column {name!r} is {wrong[1]}; allowed are {least:g} to {most:g}")
        return self

    def gaps(self, steps: Sequence[int], rounds: int, inputs: Any) -> tuple[str, ...]:
        """Return, in words, what was planned and is not held: rows that somebody removed, in one arm or in both.

        `steps` are those that the plan's schedule has for this check and arm, `rounds` the gate's, `inputs` the check's
        rendered ones or None. What is missing in one arm only shows when the arms are paired; in both, only here.
        """
        return ()

    def surplus(self, steps: Sequence[int], inputs: Any) -> tuple[str, ...]:
        """Return, in words, what is held and was never planned: rows of another run, or rows that somebody wrote.

        `steps` are those that this check and arm may have had, added ones included; `inputs` as for `gaps`. Such rows pair
        perfectly when they are in both arms.
        """
        return ()

    def joined(self, later: Self) -> Self:
        """Return this measurement followed by a later step of the same check on the same arm.

        Sample tuples are concatenated and their rows shifted; every other field must be equal.

        Raises:
            ValueError: the steps differ in a field that describes the whole measurement.
        """
        shift = max((len(column) for column in self.columns.values()), default=0)
        values: dict[str, Any] = {
            "partial": self.partial or later.partial,
            "columns": {
                name: np.concatenate([side[name] for side in (self.columns, later.columns) if name in side])
                for name in sorted({*self.columns, *later.columns})
            },
        }
        for name in type(self).model_fields:
            if name in values:
                continue
            mine, theirs = getattr(self, name), getattr(later, name)
            if name in self.SAMPLES:
                values[name] = (*mine, *(_shifted(item, shift) for item in theirs))
            elif mine == theirs:
                values[name] = mine
            else:
                raise ValueError(f"steps of one measurement differ in {name!r}: {mine!r} and {theirs!r}")
        return type(self)(**values)


def _outside(column: npt.NDArray[Any], least: float, most: float) -> tuple[int, float] | None:
    """Return (row, value) of the first number outside of the range; NaN is none."""
    if column.dtype.kind not in "fiu" or column.ndim == 0:
        raise ValueError(f"a column of numbers is {column.dtype} with {column.ndim} axes")
    wrong = np.argwhere((column < least) | (column > most))
    return (int(wrong[0][0]), float(column[tuple(wrong[0])])) if len(wrong) else None


def ensure_single(what: str, keys: Iterable[Any]) -> None:
    """Raise ValueError when two records are of the same thing: nothing says which of them holds."""
    seen: set[Any] = set()
    for key in keys:
        if key in seen:
            raise ValueError(f"there are two {what} {':'.join(map(str, key)) if isinstance(key, tuple) else key}"[:200])
        seen.add(key)


def absent(what: str, expected: Iterable[Any], held: Iterable[Any]) -> tuple[str, ...]:
    """Return one sentence about expected keys that are not held, the first few named; nothing when all are."""
    known = set(held)
    missing = [key for key in dict.fromkeys(expected) if key not in known]
    if not missing:
        return ()
    named = ", ".join(":".join(map(str, key)) if isinstance(key, tuple) else str(key) for key in missing[:3])
    return (f"{len(missing)} {what} are not there ({named}{' ...' if len(missing) > 3 else ''})",)


def unplanned(what: str, held: Iterable[Any], planned: Iterable[Any]) -> tuple[str, ...]:
    """Return one sentence about keys that are held and were not planned, the first few named; nothing when all were."""
    known = set(planned)
    extra = [key for key in dict.fromkeys(held) if key not in known]
    if not extra:
        return ()
    named = ", ".join(str(key)[:60] for key in extra[:3])
    return (f"{len(extra)} {what} ({named}{' ...' if len(extra) > 3 else ''})",)


def _shifted(item: Any, shift: int) -> Any:
    first_row = getattr(item, "first_row", None)
    return item if first_row is None else item.model_copy(update={"first_row": first_row + shift})


class Quantization(Record):
    """Weight quantization: what was asked for, what the log says was done, and the precision it computes in."""

    requested: str | None = None
    resolved: str | None = None
    effective_precision: str | None = None


class Requested(Record):
    """A value that was asked for and the value that the log shows."""

    requested: str | None = None
    resolved: str | None = None


class Kernel(Record):
    """One `Selected <kernel> for <layers>` line; `line` numbers a line of server.log from 1."""

    kernel: str
    layers: str
    count: Count
    line: Count


class LogWarning(Record):
    """A known warning of the engine: its stable code, how often it came, and its first line."""

    code: str
    count: Count
    line: Count


class Diagnosis(Record):
    """Why an engine did not start: the first exception of the worker, its line, a known workaround if there is one."""

    code: str
    exception: str
    line: Count | None
    workaround: str | None = None
    blame: str | None = None
    """`runner` where the machine failed and not the engine or its config; None says nothing about it."""


class FallbackUsed(Record):
    """The declared fallback that an arm was served with, since its start as the serving config says failed."""

    name: str
    environment: dict[str, str] = {}
    options: dict[str, Json] = {}
    instead_of: Diagnosis
    """Why the arm did not start without it."""
    failed_log: str
    """Name of the failed start's log, beside server.log."""

    def named(self) -> str:
        """Return it as its name and what it set: `no-graphs (A=1, enforce-eager: True)`."""
        changed = [f"{name}={value}" for name, value in self.environment.items()]
        changed += [f"{name}: {value}" for name, value in self.options.items()]
        return f"{self.name} ({', '.join(changed)})"


class EngineStatus(StrEnum):
    """How an arm came to be served."""

    READY = "ready"
    FAILED = "failed"
    ATTACHED = "attached"
    REPLAYED = "replayed"


REHEARSAL = "rehearsal"
"""Code of the log line by which `servegate fake-engine` says that it serves no model."""


class EngineFacts(Record):
    """What an engine said about itself while it started. Unknown is `None` with a reason, never a default."""

    role: str
    session: Count
    status: EngineStatus = Field(exclude=True)
    version: str | None
    version_reason: str | None = None
    argv: tuple[str, ...] = ()
    pid: Count | None = None
    max_model_len: Count | None = None
    max_model_len_reason: str | None = None
    quantization: Quantization = Quantization()
    kv_cache_dtype: Requested = Requested()
    kernels: tuple[Kernel, ...] = ()
    quantized_layers: Count | None = None
    quantized_layers_reason: str | None = None
    attention_backend: str | None = None
    attention_backend_reason: str | None = None
    device: str | None = None
    """`cuda`, `cpu`, ... as the log shows it."""
    weights_gib: Amount | None = None
    weights_gib_reason: str | None = None
    kv_cache_gib: Amount | None = None
    kv_cache_gib_reason: str | None = None
    kv_cache_tokens: Count | None = None
    kv_cache_tokens_reason: str | None = None
    warnings: tuple[LogWarning, ...] = ()
    phases_s: dict[str, Amount] = {}
    """Seconds of each phase of the start: spawn, load, compile, warm_up, ready (only those that were seen)."""
    sampling_defaults: Json | None = None
    sampling_defaults_reason: str | None = None
    unknown_variables: tuple[str, ...] = ()
    """Environment variables that look like the engine's and that it says it does not know."""
    checkpoint_quantization: Json | None = None
    """`quantization_config` of the checkpoint's own config.json."""
    checkpoint_quantization_reason: str | None = None
    contradictions: tuple[str, ...] = ()
    """Facts of which the log says two things, each with both lines; such a fact is unknown."""
    lines: dict[str, Count] = {}
    """Name of a fact -> line of server.log that gave it, where one line did."""
    diagnosis: Diagnosis | None = None
    added_environment: dict[str, str] = {}
    """Variables that servegate added for this start: the arm's compile cache, HF_HUB_OFFLINE where the cache needs it."""
    fallback: FallbackUsed | None = None
    """None: the arm was served as its serving config says."""
    checkpoint_recipe: str | None = None
    """The checkpoint's own recipe.yaml (llm-compressor writes one), which names how and on what it was calibrated."""
    checkpoint_recipe_reason: str | None = None


def sha256_of_token_ids(token_ids: tuple[int, ...]) -> str:
    """Return sha256 of token ids as little-endian int32, so that two arms' prompts can be proven equal."""
    return hashlib.sha256(np.asarray(token_ids, dtype="<i4").tobytes()).hexdigest()
