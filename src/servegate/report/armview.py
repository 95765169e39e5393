"""The arms side by side: what each engine said about itself and where it ran, with the rows that differ marked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from servegate.domain.evidence import EngineFacts, EngineStatus, FallbackUsed
from servegate.domain.manifest import Manifest, ServedFiles
from servegate.domain.records import Json
from servegate.report.numbers import number, plain, seconds
from servegate.report.visible import cut

_MOST_ROWS = 200


@dataclass(frozen=True)
class ArmCell:
    """One arm's value, or why it is not known."""

    text: str
    missing: bool


@dataclass(frozen=True)
class ArmRow:
    """One property of all arms. Times differ by nature and are never marked."""

    name: str
    cells: tuple[ArmCell, ...]
    differs: bool


@dataclass(frozen=True)
class ArmGroup:
    """A part of the side-by-side table; `folded` parts are long and rarely needed."""

    title: str
    rows: tuple[ArmRow, ...]
    folded: bool = False


T = TypeVar("T")
Value = tuple[str | None, str | None]
"""A value, or `None` and why it is not known."""

_NO_ENGINE = "no start was attempted"
_NO_MANIFEST = "the environment was not collected"


def groups(
    arms: tuple[str, ...],
    engines: Mapping[str, EngineFacts | None],
    manifests: Mapping[str, Manifest | None],
    longest: int = 1_500,
) -> tuple[ArmGroup, ...]:
    """Return the side-by-side table of the arms, in their order, with values of at most `longest` characters."""
    facts = [engines.get(name) for name in arms]
    places = [manifests.get(name) for name in arms]
    engine_rows = tuple(
        row for name, read in _ENGINE.items() if (row := _row(name, [_of(item, read, _NO_ENGINE) for item in facts]))
    )
    phases = sorted({phase for item in facts if item for phase in item.phases_s}, key=_phase_order)
    starts = tuple(_start_row(phase, facts) for phase in phases)
    place_rows = tuple(
        row for name, get in _PLACE.items() if (row := _row(name, [_of(item, get, _NO_MANIFEST) for item in places]))
    )
    files = tuple(
        row for name, get in _SERVED.items() if (row := _row(name, [_of(item, get, _NO_MANIFEST) for item in places]))
    )
    packages = tuple(
        _mapping_row(name, [item.packages if item else None for item in places]) for name in _names(places, "packages")
    )
    variables = tuple(
        _mapping_row(name, [item.environment if item else None for item in places]) for name in _names(places, "environment")
    )
    found = (
        ArmGroup("Engine", engine_rows),
        ArmGroup("Seconds to start", starts),
        ArmGroup("Model", files if any(item and item.model for item in places) else ()),
        ArmGroup("Machine", place_rows),
        ArmGroup("Environment variables", variables),
        ArmGroup("Packages", packages),
    )
    # What is alike in both arms is behind a fold, but for the engines themselves; a difference is never folded.
    folded = (replace(one, folded=one.title != "Engine" and not any(row.differs for row in one.rows)) for one in found)
    return tuple(_bounded(group, longest) for group in folded if group.rows)


def _bounded(group: ArmGroup, longest: int) -> ArmGroup:
    """Cut long texts only now, when it is known whether the arms differ in them."""
    rows = tuple(
        ArmRow(cut(row.name, 120), tuple(ArmCell(cut(item.text, longest), item.missing) for item in row.cells), row.differs)
        for row in group.rows[:_MOST_ROWS]
    )
    more = len(group.rows) - len(rows)
    rest = (
        (ArmRow(f"… {more:,} more", tuple(ArmCell("in environment.json", True) for _ in rows[0].cells), False),) if more else ()
    )
    return ArmGroup(group.title, (*rows, *rest), group.folded)


_SELDOM = frozenset({"fallback", "added by servegate", "cards of this run"})
"""Rows that most runs, and every old one, have nothing for: an arm that is not there is no reason to show them."""


def _row(name: str, values: list[Value]) -> ArmRow | None:
    """Return a row; None when no arm has the value or a reason for its absence."""
    absent = {None, _NO_ENGINE, _NO_MANIFEST} if name in _SELDOM else {None}
    if all(text is None and reason in absent for text, reason in values):
        return None
    cells = tuple(
        ArmCell(text, False) if text is not None else ArmCell(f"not known: {reason}" if reason else "not known", True)
        for text, reason in values
    )
    return ArmRow(name, cells, differs=len({text for text, _reason in values}) > 1)


def _of(item: T | None, read: Callable[[T], Value], absent: str) -> Value:
    return (None, absent) if item is None else read(item)


def _start_row(phase: str, facts: list[EngineFacts | None]) -> ArmRow:
    cells = tuple(
        ArmCell(seconds(item.phases_s[phase]), False)
        if item and phase in item.phases_s
        else ArmCell("not seen in the log", True)
        for item in facts
    )
    return ArmRow(phase.replace("_", " "), cells, differs=False)


def _phase_order(phase: str) -> tuple[int, str]:
    known = ("spawn", "load", "compile", "warm_up", "ready")
    return (known.index(phase) if phase in known else len(known), phase)


def _names(places: list[Manifest | None], attribute: str) -> list[str]:
    return sorted({name for item in places if item for name in getattr(item, attribute)})


def _mapping_row(name: str, values: list[dict[str, str] | None]) -> ArmRow:
    cells = tuple(
        ArmCell(_NO_MANIFEST, True)
        if item is None
        else ArmCell(item[name], False)
        if name in item
        else ArmCell("not set", True)
        for item in values
    )
    return ArmRow(name, cells, differs=len({None if item is None else item.get(name) for item in values}) > 1)


def _status(facts: EngineFacts) -> Value:
    words = {EngineStatus.FAILED: "did not start", EngineStatus.ATTACHED: "attached to a running server"}
    return words.get(facts.status, facts.status.value), None


def _kernels(facts: EngineFacts) -> Value:
    if not facts.kernels:
        return None, "the log names no kernel"
    return "\n".join(
        f"{item.kernel} for {item.layers}" + (f" ({item.count}×)" if item.count > 1 else "") for item in facts.kernels
    ), None


def _warnings(facts: EngineFacts) -> Value:
    return "\n".join(f"{item.code} ({item.count}×, log line {item.line})" for item in facts.warnings) or "none known", None


def _optional(value: str | float | None, reason: str | None, unit: str = "", digits: int = 2) -> Value:
    if value is None:
        return None, reason
    return (value if isinstance(value, str) else number(value, digits)) + unit, None


def _json(value: Json, reason: str | None) -> Value:
    return (None, reason) if value is None else (plain(value), None)


_ENGINE: dict[str, Callable[[EngineFacts], Value]] = {
    "status": _status,
    "version": lambda e: (e.version, e.version_reason),
    "device": lambda e: (e.device, None),
    "quantization, requested": lambda e: (e.quantization.requested or "none", None),
    "quantization, resolved": lambda e: (e.quantization.resolved or "none seen in the log", None),
    "effective precision": lambda e: (e.quantization.effective_precision, None),
    "checkpoint's quantization": lambda e: _json(e.checkpoint_quantization, e.checkpoint_quantization_reason),
    "layers quantized": lambda e: _optional(e.quantized_layers, e.quantized_layers_reason),
    "kernels": _kernels,
    "attention backend": lambda e: (e.attention_backend, e.attention_backend_reason),
    "KV cache dtype, requested": lambda e: (e.kv_cache_dtype.requested or "not set", None),
    "KV cache dtype, resolved": lambda e: (e.kv_cache_dtype.resolved, None),
    "KV cache": lambda e: _optional(e.kv_cache_gib, e.kv_cache_gib_reason, " GiB"),
    "KV cache tokens": lambda e: _optional(e.kv_cache_tokens, e.kv_cache_tokens_reason),
    "weights": lambda e: _optional(e.weights_gib, e.weights_gib_reason, " GiB"),
    "longest context": lambda e: _optional(e.max_model_len, e.max_model_len_reason, " tokens"),
    "sampling defaults": lambda e: _json(e.sampling_defaults, e.sampling_defaults_reason),
    "warnings": _warnings,
    "fallback": lambda e: (None if e.fallback is None else _fallback(e.fallback), None),
    "added by servegate": lambda e: ("\n".join(f"{k}={v}" for k, v in e.added_environment.items()) or None, None),
}

_SERVED: dict[str, Callable[[Manifest], Value]] = {
    "model": lambda m: _served(m, lambda f: f.source, ""),
    "model's commit": lambda m: _served(m, lambda f: f.commit, "commit"),
    "tokenizer": lambda m: _served(m, lambda f: _short(f.vocabulary_sha256, f.tokenizer_sha256), "tokenizer"),
    "chat template": lambda m: _served(m, lambda f: _short(f.chat_template_sha256), "chat_template"),
    "sampling defaults of users": lambda m: _served(
        m, lambda f: plain(f.sampling_defaults) if f.sampling_defaults else "none", ""
    ),
    "stop ids": lambda m: _served(m, lambda f: ", ".join(map(str, f.stop_ids)) or None, "stop_ids"),
}

_PLACE: dict[str, Callable[[Manifest], Value]] = {
    "GPU": lambda m: (_gpus(m) or None, m.gpus_reason),
    "driver": lambda m: (m.driver, m.driver_reason),
    "CUDA": lambda m: (m.cuda, m.cuda_reason),
    "host": lambda m: (m.host, None),
    "system": lambda m: (m.os, None),
    "CPU": lambda m: (f"{m.cpu}, {m.cpu_count} logical CPUs", None),
    "memory": lambda m: (f"{number(m.memory_gib, 1)} GiB", None),
    "servegate": lambda m: (m.servegate, None),
    "lm-eval": lambda m: (m.lm_eval, m.lm_eval_reason),
    "cards of this run": lambda m: (m.card_guard, m.card_guard_reason),
}


def _served(manifest: Manifest, read: Callable[[ServedFiles], str | None], part: str) -> Value:
    """Return a part of the served files; nothing at all for records that are older than they."""
    files = manifest.model
    if files is None:
        return None, None
    return read(files), files.reasons.get(part) or files.reasons.get("files")


def _short(*hashes: str | None) -> str | None:
    """Return the beginnings of hashes: enough to see that two differ."""
    return " ".join(each[:12] for each in hashes if each) or None


def _fallback(used: FallbackUsed) -> str:
    return f"{used.named()}, since it did not start as its serving config says: {used.instead_of.exception}"


def _gpus(manifest: Manifest) -> str:
    return "\n".join(
        f"{gpu.name}, compute capability {gpu.compute_capability}, {number(gpu.memory_gib, 1)} GiB"
        + (", MIG" if gpu.mig else "")
        for gpu in manifest.gpus
    )
