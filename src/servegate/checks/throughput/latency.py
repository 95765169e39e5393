"""The tables beside speed: latency with the n that a percentile needs, goodput, the machine, one request and its roofline."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

import numpy as np
import numpy.typing as npt

from servegate.checks.throughput.record import LoadPoint, ThroughputMeasurement
from servegate.checks.throughput.settings import SINGLE, Slo
from servegate.checks.throughput.shape import SpeedContrast
from servegate.checks.throughput.validity import mean_of
from servegate.domain.blocks import Cell, Column, Table
from servegate.stats.ratios import requests_for_percentile

PERCENTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
METRICS = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_latency_s")
COLUMNS = {"ttft_ms": ("ttft_ms", 1.0), "tpot_ms": ("tpot_ms", 1.0), "e2e_latency_s": ("e2e_ms", 0.001)}
"""Metric -> its column of single requests and the factor to the metric's unit."""
Arms = tuple[ThroughputMeasurement, ThroughputMeasurement]
Load = tuple[str, int]


def loads_of(arms: Arms) -> list[Load]:
    """Return every load of both arms, one request in flight first."""
    return sorted({(p.load, p.concurrency) for arm in arms for p in arm.points}, key=lambda each: (each[1], each[0]))


def in_flight(load: Load) -> Cell:
    """Return how a load is called in a row."""
    return "1, alone" if load[0] == SINGLE else load[1]


def latency(arms: Arms) -> Table:
    """Return TTFT, TPOT, ITL and end-to-end percentiles of both arms."""
    rows = tuple(
        (in_flight(load), metric, *(percentile(arm, load, metric, name, share) for name, share in PERCENTILES for arm in arms))
        for load in loads_of(arms)
        for metric in METRICS
    )
    titles = [f"{arm} {name}" for name, _ in PERCENTILES for arm in ("Baseline", "Candidate")]
    needed = {name: requests_for_percentile(share) for name, share in PERCENTILES}
    return Table(
        name="throughput-latency",
        title="Latency under the same load",
        columns=(Column(title="In flight"), Column(title="Metric", code=True), *(Column(title=title) for title in titles)),
        rows=rows,
        note="Over all requests of all windows; itl_ms is the median of the windows' percentiles. A percentile is shown where "
        f"enough requests bound it from above with 95 % confidence: {needed['p95']} for p95, {needed['p99']} for p99.",
    )


def windows_of_load(arm: ThroughputMeasurement, load: Load) -> list[LoadPoint]:
    """Return an arm's windows of a load."""
    return [point for point in arm.points if (point.load, point.concurrency) == load]


def _rows(arm: ThroughputMeasurement, load: Load, column: str) -> npt.NDArray[np.float64] | None:
    """Return one column of a load's requests; None where they were not kept."""
    windows = windows_of_load(arm, load)
    values = arm.columns.get(column)
    if values is None or not windows or any(point.first_row is None or point.rows is None for point in windows):
        return None
    parts = [values[point.first_row : (point.first_row or 0) + (point.rows or 0)] for point in windows]
    return np.concatenate(parts).astype(np.float64)


def percentile(arm: ThroughputMeasurement, load: Load, metric: str, name: str, share: float) -> Cell:
    """Return a percentile of a metric in its unit; None without windows, "n too small" where they bound none."""
    windows = windows_of_load(arm, load)
    if not windows:
        return None
    column, factor = COLUMNS.get(metric, ("", 1.0))
    kept = _rows(arm, load, column)
    if kept is not None:
        kept = kept[np.isfinite(kept)]
        if len(kept) < requests_for_percentile(share):
            return "n too small"
        return float(np.quantile(kept, share)) * factor
    values = [getattr(point, metric).get(name) for point in windows]
    if None in values:
        return None
    if min(point.completed for point in windows) < requests_for_percentile(share):
        return "n too small"
    return float(median(values))


def goodput(arms: Arms, slo: Slo) -> Table:
    """Return the share and the rate of requests that keep every limit of the user's SLO."""
    limits = {"ttft_ms": slo.ttft_ms, "tpot_ms": slo.tpot_ms, "e2e_ms": slo.e2e_ms}
    asked = {name: limit for name, limit in limits.items() if limit is not None}
    rows: list[tuple[Cell, ...]] = []
    for load in loads_of(arms):
        cells: list[Cell] = [in_flight(load)]
        for arm in arms:
            kept, windows = _good(arm, load, asked), windows_of_load(arm, load)
            sent, seconds = sum(point.requests for point in windows), sum(point.duration_s for point in windows)
            cells += ["not recorded"] * 2 if kept is None or not seconds else [kept / sent, kept / seconds]
        rows.append(tuple(cells))
    return Table(
        name="throughput-goodput",
        title="Goodput: requests that keep the SLO",
        columns=(
            Column(title="In flight"), Column(title="Baseline", percent=True), Column(title="Baseline", unit="requests/s"),
            Column(title="Candidate", percent=True), Column(title="Candidate", unit="requests/s"),
        ),
        rows=tuple(rows),
        note=f"The SLO: {', '.join(f'{name} at most {limit:g}' for name, limit in asked.items())}. Failed requests keep none.",
    )  # fmt: skip


def _good(arm: ThroughputMeasurement, load: Load, limits: dict[str, float]) -> int | None:
    columns = {name: _rows(arm, load, name) for name in limits}
    if not columns or any(values is None for values in columns.values()):
        return None
    # TPOT of a single token is not a number, and so no breach of a limit.
    good = [~(values > limits[name]) for name, values in columns.items() if values is not None]
    return int(np.logical_and.reduce(good).sum())


def machine(arms: Arms) -> Table:
    """Return energy, clocks, temperature and neighbours of both arms, as they were sampled while the load ran."""
    rows: list[tuple[Cell, ...]] = []
    digits: list[int] = []
    for load in loads_of(arms):
        sides = [windows_of_load(arm, load) for arm in arms]
        lines: tuple[tuple[str, int, list[Cell]], ...] = (
            ("J per 1,000 output tokens", 1, [joules_per_thousand(side) for side in sides]),
            ("power, W", 1, [mean_of(side, "power_w") for side in sides]),
            ("SM clock, MHz", 0, [mean_of(side, "sm_clock_mhz") for side in sides]),
            ("memory clock, MHz", 0, [mean_of(side, "memory_clock_mhz") for side in sides]),
            ("temperature, C", 0, [mean_of(side, "temperature_c") for side in sides]),
            ("CPU cores busy with others", 2, [_foreign_cores(side) for side in sides]),
            ("mean time in the engine's queue, s", 3, [_mean(point.queue_time_s for point in side) for side in sides]),
        )
        known = [line for line in lines if any(cell is not None for cell in line[2])]
        rows += [(in_flight(load), name, *cells) for name, _digits, cells in known]
        digits += [each for _name, each, _cells in known]
    return Table(
        name="throughput-machine",
        title="The machine while it was measured",
        columns=(
            Column(title="In flight"), Column(title="Quantity"), Column(title="Baseline"), Column(title="Candidate"),
        ),
        rows=tuple(rows),
        row_digits=tuple(digits),
        note="Sampled four times a second and cut to the windows; energy is the card's own counter, idle power included.",
    )  # fmt: skip


def joules_per_thousand(side: Sequence[LoadPoint]) -> float | None:
    """Return joules of the cards per 1,000 output tokens over all windows; None where a window's energy is not known."""
    tokens = sum(point.output_tokens for point in side)
    joules = [point.energy_joules for point in side]
    if not tokens or None in joules:
        return None
    return 1000 * sum(each for each in joules if each is not None) / tokens


def _foreign_cores(side: Sequence[LoadPoint]) -> float | None:
    return _mean(point.telemetry.foreign_cpu_cores if point.telemetry else None for point in side)


def _mean(values: object) -> float | None:
    known = [value for value in values if value is not None]  # type: ignore[attr-defined]
    return fmean(known) if known else None


def alone(arms: Arms, between: SpeedContrast) -> Table | None:
    """Return one request in flight beside its ceiling; None where it was not measured."""
    rows: list[tuple[Cell, ...]] = []
    for point in (each for each in between.points if each.concurrency == 1):
        load = (point.load, 1)
        sides = zip(("baseline", "candidate"), arms, (point.left, point.right), point.ceilings, strict=True)
        for name, arm, side, ceiling in sides:
            tpot = percentile(arm, load, "tpot_ms", "p50", 0.5)
            # Decoding alone, as the ceiling counts it: the first token is the prompt's work.
            decode = 1000 / tpot if isinstance(tpot, float) and tpot > 0 else None
            rows.append(
                (
                    in_flight(load),
                    name,
                    percentile(arm, load, "ttft_ms", "p50", 0.5),
                    tpot,
                    side.output_tokens_per_second if side else None,
                    decode,
                    ceiling if ceiling is not None else f"unknown: {point.ceilings_reason}",
                    decode / ceiling if decode is not None and ceiling else None,
                )
            )
    if not rows:
        return None
    return Table(
        name="throughput-single",
        title="One request in flight, beside the roofline",
        columns=(
            Column(title="In flight"), Column(title="Arm"), Column(title="TTFT p50", unit="ms"),
            Column(title="TPOT p50", unit="ms"),
            Column(title="Output", unit="tok/s", digits=1), Column(title="Decoding", unit="tok/s", digits=1),
            Column(title="Ceiling", unit="tok/s", digits=1), Column(title="Of the ceiling", percent=True),
        ),
        rows=tuple(rows),
        note="The ceiling reads every weight and the request's cache once a token at the card's bandwidth. What is above it "
        "was not measured right.",
    )  # fmt: skip
