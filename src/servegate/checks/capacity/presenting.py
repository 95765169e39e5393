"""How capacity is shown: weights and KV cache in tables of their own, then what was predicted of requests and speed."""

from __future__ import annotations

from typing import Any

from servegate.checks.capacity.record import ArmCapacity, CapacityContrast, Reading
from servegate.checks.capacity.settings import CapacitySettings
from servegate.checks.capacity.words import LINES
from servegate.checks.contract import Evidence, remarks
from servegate.domain.blocks import Block, Cell, Column, Fold, Section, Table, Text
from servegate.domain.judgement import Comparison, Finding, outcome_of


def present(
    comparison: Comparison, _evidence: Evidence[Any], settings: CapacitySettings, findings: tuple[Finding, ...]
) -> Section:
    """Return the section; values keep full precision, the report rounds them."""
    contrast = CapacityContrast.model_validate(comparison.candidate)
    blocks: list[Block] = [*remarks(findings)]
    blocks += [_weights(contrast), _cache(contrast), _predictions(contrast, settings), _notes(contrast)]
    return Section(
        check="capacity",
        title="Capacity",
        outcome=outcome_of(findings, comparison.n),
        question="Does it take and hold what arithmetic says?",
        summary=_summary(contrast),
        noise="Arithmetic beside one start of each engine: there is no noise to measure.",
        n=f"{comparison.n} quantities",
        blocks=tuple(blocks),
    )


def _summary(contrast: CapacityContrast) -> str:
    sides = (contrast.baseline, contrast.candidate)
    weights = _change("Weights", [side.weights_gib for side in sides], "{:,.2f}", "GiB")
    tokens = _change("KV cache", [side.tokens for side in sides], "{:,.0f}", "tokens")
    return f"{weights}. {tokens}."[:300]


def _change(what: str, readings: list[Reading], form: str, unit: str) -> str:
    """Return what the engines said of a quantity beside what was predicted, or why either is missing."""

    def both(values: list[float | None]) -> str:
        return " -> ".join("unknown" if value is None else form.format(value) for value in values) + f" {unit}"

    engine, predicted = [each.engine for each in readings], [each.predicted for each in readings]
    said = "not predicted" if predicted == [None, None] else f"predicted {both(predicted)}"
    if engine == [None, None]:
        return f"{what} {said}, not measured: {(readings[0].engine_reason or 'unknown')[:80]}"
    return f"{what} {both(engine)} ({said})"


def _weights(contrast: CapacityContrast) -> Table:
    rows = tuple((name, arm.quantization, *_cells(arm.weights_gib)) for name, arm in contrast.arms)
    return Table(
        name="capacity-weights",
        title="Weights, on one card",
        columns=(Column(title="Arm"), Column(title="Quantization", code=True), *_columns("GiB", 2)),
        rows=rows,
        note="Predicted from the model's config.json. A format's scales are counted; embeddings and lm_head keep 16 bits.",
    )


def _cache(contrast: CapacityContrast) -> Table:
    rows = tuple(
        (name, arm.kv_cache_dtype, what, *_cells(reading))
        for name, arm in contrast.arms
        for what, reading in (("bytes per token", arm.token_bytes), ("tokens", arm.tokens))
    )
    return Table(
        name="capacity-kv-cache",
        title="KV cache",
        columns=(Column(title="Arm"), Column(title="Type", code=True), Column(title="Quantity"), *_columns("", 0)),
        rows=rows,
        note="Predicted tokens are the most that can be: what weights leave of the memory that may be used.",
    )


def _columns(unit: str, digits: int) -> tuple[Column, ...]:
    return (
        Column(title="Predicted", unit=unit, digits=digits),
        Column(title="Engine", unit=unit, digits=digits),
        Column(title="Gap", percent=True),
        Column(title="Reading"),
    )


def _cells(reading: Reading) -> tuple[Cell, ...]:
    """Return predicted, engine, gap and what it means; what is missing says why instead of a number."""
    predicted: Cell = reading.predicted if reading.predicted is not None else f"not predicted: {reading.predicted_reason}"
    engine: Cell = reading.engine if reading.engine is not None else f"not measured: {reading.engine_reason}"
    gap: Cell = reading.gap if reading.gap is not None else "none"
    return predicted, engine, gap, f"{reading.state}: {reading.explanation}" if reading.explanation else reading.state


def _predictions(contrast: CapacityContrast, settings: CapacitySettings) -> Fold:
    rows: list[tuple[Cell, ...]] = [("served on", *(arm.room for _name, arm in contrast.arms))]
    for line in LINES:
        cells = [_predicted(arm, line.text(arm.prediction, settings.price_per_gpu_hour_usd) if arm.prediction else None)
                 for _name, arm in contrast.arms]  # fmt: skip
        if any(cells):
            rows.append((line.title, *cells))
    table = Table(
        name="capacity-predicted",
        title="Predicted, not measured",
        columns=(Column(title="Quantity"), Column(title="Baseline"), Column(title="Candidate")),
        rows=tuple(rows),
        note="Ceilings from the card's bandwidth and dense arithmetic: what is measured stays below them.",
    )
    return Fold(title="What arithmetic predicts of requests, speed and cost", blocks=(table,))


def _predicted(arm: ArmCapacity, text: str | None) -> str:
    return f"not predicted: {arm.reason}" if text is None else text


def _notes(contrast: CapacityContrast) -> Text:
    notes = [f"{name}: {note}" for name, arm in contrast.arms if arm.prediction for note in arm.prediction.notes]
    said = list(dict.fromkeys(notes))
    return Text(text="Beside the numbers: " + "; ".join(said) + "." if said else "Nothing was left out of the prediction.")
