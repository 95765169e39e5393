"""Loads one arm: one step is one load with all its windows, one run of the tool.

Of interleaved blocks a step is one window of every load.
"""

from __future__ import annotations

from servegate.checks.contract import Inputs, MeasureContext
from servegate.checks.throughput.record import LoadPoint, ThroughputMeasurement
from servegate.checks.throughput.settings import LoadShape, ThroughputSettings
from servegate.domain.load import LoadResult, LoadSpec, Telemetry
from servegate.domain.plan import sha256_of
from servegate.errors import MeasurementError
from servegate.ports import Probes

SEEDS_APART = 1000
"""Between the seeds of two loads, so that no window of one draws what a window of the other drew."""
NO_METER = "a card has no counter of energy that only grows and agrees with its power"


def items(settings: ThroughputSettings, _inputs: Inputs | None) -> int | None:
    """Return how many requests a step has, warm-up left out; None where steps are loads of several sizes."""
    sizes = [shape.windows * shape.requests for shape in settings.shapes()]
    return sum(sizes) if settings.interleave else sizes[0] if len(sizes) == 1 else None


def measure(
    probes: Probes, settings: ThroughputSettings, context: MeasureContext[ThroughputMeasurement]
) -> ThroughputMeasurement:
    """Run one load, or one window of every load.

    Raises:
        MeasurementError: the tool fails, or the engine serves a shorter context than its config says and no load fits.
    """
    found: ThroughputMeasurement | None = None
    for position, shape in enumerate(settings.shapes()):
        if not settings.interleave and position != context.step:
            continue
        _refuse_too_long(shape, context.engine.max_model_len)
        measured = _measured(probes, settings, context.step, position, shape)
        found = measured if found is None else found.joined(measured)
        context.advance(shape.windows * shape.requests)
    assert found is not None, "a step of the plan is a load of its settings"
    return found


def _refuse_too_long(shape: LoadShape, longest: int | None) -> None:
    """The plan holds loads against what the configs say; a fallback or an engine's own choice may have left less."""
    if longest is not None and shape.input_tokens + shape.output_tokens > longest:
        raise MeasurementError(
            f"throughput: {shape.input_tokens:,} tokens of prompt and {shape.output_tokens:,} of answer do not fit into the "
            f"{longest:,} tokens of context that the engine serves",
            advice="Lower input_tokens or output_tokens of that load, or set a longer max-model-len.",
        )


def _measured(
    probes: Probes, settings: ThroughputSettings, step: int, position: int, shape: LoadShape
) -> ThroughputMeasurement:
    spec = LoadSpec(
        input_tokens=shape.input_tokens,
        output_tokens=shape.output_tokens,
        concurrency=shape.concurrency,
        requests=shape.requests,
        warm_up_requests=shape.warm_up,
        seed=settings.seed + SEEDS_APART * position + (step if settings.interleave else 0),
        label=f"{shape.load}-{shape.concurrency}-step-{step}",
        windows=shape.windows,
        lead_in=shape.lead_in,
    )
    load = probes.load_generator.load(spec)
    points = tuple(
        _point(window, spec, shape, block=step if settings.interleave else index, position=position)
        for index, window in enumerate(load.windows)
    )
    planned = tuple(each.windows for each in settings.shapes())
    return ThroughputMeasurement(points=points, planned=planned, in_turn=settings.interleave, columns=load.columns)


def _point(window: LoadResult, spec: LoadSpec, shape: LoadShape, *, block: int, position: int) -> LoadPoint:
    workload = spec.to_json()
    del workload["label"]
    telemetry, unseen = window.telemetry, window.telemetry_reason or "nobody looked at the machine"
    foreign = telemetry.foreign_processes if telemetry else None
    energy = telemetry.energy_j if telemetry else None
    return LoadPoint(
        **window.to_json(),
        load=shape.load,
        concurrency=shape.concurrency,
        block=block,
        position=position,
        seed=spec.seed,
        workload_sha256=sha256_of({**workload, "block": block}),
        foreign_processes=foreign,
        foreign_processes_reason=None if foreign is not None else _why(telemetry, "foreign_processes_reason", unseen),
        energy_joules=energy,
        energy_joules_reason=None if energy is not None else _why(telemetry, "cards_reason", unseen, NO_METER),
    )


def _why(telemetry: Telemetry | None, name: str, unseen: str, otherwise: str = "the card cannot say") -> str:
    """Return why a number of the telemetry is missing."""
    return (getattr(telemetry, name) or otherwise) if telemetry is not None else unseen
