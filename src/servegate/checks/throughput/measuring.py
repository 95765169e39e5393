"""Loads one arm: one step is one window at every concurrency."""

from __future__ import annotations

from servegate.checks.contract import Inputs, MeasureContext
from servegate.checks.throughput.record import LoadPoint, ThroughputMeasurement
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.domain.plan import sha256_of
from servegate.domain.workload import LoadSpec
from servegate.ports import Probes

NOT_OBSERVED = "not observed: this version samples no accelerator telemetry during load"


def items(settings: ThroughputSettings, _inputs: Inputs | None) -> int | None:
    """Return how many requests a step has, warm-up left out."""
    return sum(settings.requests(concurrency) for concurrency in settings.concurrency)


def measure(
    probes: Probes, settings: ThroughputSettings, context: MeasureContext[ThroughputMeasurement]
) -> ThroughputMeasurement:
    """Run one window at every concurrency, the fewest in flight first. Raises MeasurementError when the tool fails."""
    points = []
    for position, concurrency in enumerate(sorted(settings.concurrency)):
        points.append(_point(probes, settings, context.step, position, concurrency))
        context.advance(settings.requests(concurrency))
    return ThroughputMeasurement(points=tuple(points))


def _point(probes: Probes, settings: ThroughputSettings, block: int, position: int, concurrency: int) -> LoadPoint:
    spec = LoadSpec(
        input_tokens=settings.input_tokens,
        output_tokens=settings.output_tokens,
        concurrency=concurrency,
        requests=settings.requests(concurrency),
        warm_up_requests=settings.warm_up(concurrency),
        seed=settings.seed + block * len(settings.concurrency) + position,
        label=f"window-{block}-concurrency-{concurrency}",
    )
    result = probes.load_generator.load(spec)
    workload = spec.to_json()
    del workload["label"]
    return LoadPoint(
        **result.to_json(),
        concurrency=concurrency,
        block=block,
        position=position,
        seed=spec.seed,
        workload_sha256=sha256_of(workload),
        foreign_processes_reason=NOT_OBSERVED,
        energy_joules_reason=NOT_OBSERVED,
    )
