"""Both arms side by side: what was asked, what the log shows and in which of its lines. Unknown stays unknown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from servegate.checks.contract import ArmEvidence, Evidence, remarks
from servegate.checks.engagement.reading import ArmReading, Reading
from servegate.checks.engagement.settings import EngagementSettings
from servegate.domain.blocks import Block, Cell, Column, Section, Table, Text
from servegate.domain.evidence import EngineFacts
from servegate.domain.judgement import Comparison, Finding, outcome_of

SILENT = "the engine's log does not say"
NO_LINE = "no line"


def present(
    comparison: Comparison, evidence: Evidence[Any], _settings: EngagementSettings, findings: tuple[Finding, ...]
) -> Section:
    """Return the section."""
    reading = Reading.model_validate(comparison.candidate)
    blocks: list[Block] = [*remarks(findings)]
    blocks += [_facts(reading, evidence), _kernels(reading)]
    return Section(
        check="engagement",
        title="Engagement",
        outcome=outcome_of(findings, comparison.n),
        question="What was really served?",
        summary=_summary(reading),
        noise="What an engine says of itself has no noise.",
        n=f"{comparison.n} facts known of both arms",
        blocks=tuple(blocks),
    )


def _summary(reading: Reading) -> str:
    sides = [f"{side.arm} {_served(side)}" for side in (reading.baseline, reading.candidate)]
    return f"B{'; '.join(sides)[1:]}."


def _served(side: ArmReading) -> str:
    if not side.served:
        return "was not served"
    words = (side.quantization_resolved, side.effective_precision, side.kv_resolved)
    weights, precision, kv = ((word or "unknown")[:40] for word in words)
    return f"weights {weights}, computed in {precision}, KV cache {kv}"


_Read = Callable[[ArmReading], Cell]
_ROWS: tuple[tuple[str, _Read, str, str], ...] = (
    ("engine version", lambda a: a.version, "version", "version_reason"),
    ("quantization, asked", lambda a: a.quantization_asked or "not asked", "asked", ""),
    ("quantization, resolved", lambda a: a.quantization_resolved, "quantization", ""),
    ("precision it computes in", lambda a: a.effective_precision, "kernels", ""),
    ("layers quantized", lambda a: a.quantized_layers, "quantized_layers", "quantized_layers_reason"),
    ("KV cache, asked", lambda a: a.kv_asked or "not asked", "asked", ""),
    ("KV cache, resolved", lambda a: a.kv_resolved, "kv_cache_dtype", ""),
    ("attention backend", lambda a: a.attention_backend, "attention_backend", "attention_backend_reason"),
    ("weights, GiB", lambda a: a.weights_gib, "weights_gib", "weights_gib_reason"),
    ("KV cache, tokens", lambda a: a.kv_cache_tokens, "kv_cache_tokens", "kv_cache_tokens_reason"),
    ("longest context, tokens", lambda a: a.max_model_len, "max_model_len", "max_model_len_reason"),
    ("log-probabilities", lambda a: a.logprobs_mode or "the engine's default", "", ""),
    ("activation scales", lambda a: a.activation_scales, "", "checkpoint_quantization_reason"),
    ("one weight scale covers", lambda a: a.scale_strategy and f"one {a.scale_strategy}", "", ""),
    ("calibration recipe", lambda a: a.recipe, "", "checkpoint_recipe_reason"),
    ("parameters skipped, log lines", lambda a: a.count("scales_skipped"), "scales_skipped", ""),
    ("KV scale 1.0, log lines", lambda a: a.count("kv_scale_one"), "kv_scale_one", ""),
)
"""(what, how it is read, name of its log line or warning, field of EngineFacts that says why it is missing)."""


def _facts(reading: Reading, evidence: Evidence[Any]) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for what, read, line, reason in _ROWS:
        before = _cell(read(reading.baseline), evidence.baseline, reason)
        after = _cell(read(reading.candidate), evidence.candidate, reason)
        differs = "yes" if before != after else "no"
        lines = [_line(side.engine, line) for side in (evidence.baseline, evidence.candidate)]
        rows.append((what, before, after, differs, *lines))
    return Table(
        name="engagement-arms",
        title="Asked and served",
        columns=(
            Column(title="What"), Column(title="Baseline"), Column(title="Candidate"), Column(title="Differs"),
            Column(title="Baseline log line"), Column(title="Candidate log line"),
        ),
        rows=tuple(rows),
        note="Resolved is what the log of the engine says; asked is what the serving config, or the checkpoint, wants.",
    )  # fmt: skip


def _cell(value: Cell, side: ArmEvidence[Any], reason: str) -> Cell:
    if value is not None:
        return value
    if side.engine is None:
        return "unknown: no start was attempted"
    return f"unknown: {(getattr(side.engine, reason) if reason else None) or SILENT}"


def _line(facts: EngineFacts | None, name: str) -> Cell:
    if facts is None or not name:
        return NO_LINE
    if name == "kernels":
        return facts.kernels[0].line if facts.kernels else NO_LINE
    warnings = {warning.code: warning.line for warning in facts.warnings}
    return facts.lines.get(name, warnings.get(name, NO_LINE))


def _kernels(reading: Reading) -> Block:
    rows: list[tuple[Cell, ...]] = [
        (side.arm, kernel.kernel, kernel.layers, kernel.count, kernel.line)
        for side in (reading.baseline, reading.candidate)
        for kernel in side.kernels
    ]
    if not rows:
        return Text(text="Neither log names a kernel: unquantized layers go unnamed.")
    return Table(
        name="engagement-kernels",
        title="Kernels that the engines chose",
        columns=(
            Column(title="Arm"), Column(title="Kernel", code=True), Column(title="For", code=True), Column(title="Log lines"),
            Column(title="First line"),
        ),
        rows=tuple(rows),
    )  # fmt: skip
