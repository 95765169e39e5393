"""How the throughput check speaks: the ratio with its interval, beside each arm's own noise; latency where n allows."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from servegate.checks.contract import Evidence, measured, not_measured, remarks
from servegate.checks.throughput.record import LoadPoint, ThroughputMeasurement
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.checks.throughput.shape import SpeedContrast, SpeedPair
from servegate.domain.blocks import Block, Cell, Column, Figure, Fold, Point, Section, Series, Table, Text
from servegate.domain.judgement import Comparison, Finding, outcome_of
from servegate.stats.ratios import requests_for_percentile

PERCENTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
METRICS = ("ttft_ms", "tpot_ms", "itl_ms", "e2e_latency_s")


def present(
    comparison: Comparison,
    evidence: Evidence[ThroughputMeasurement],
    settings: ThroughputSettings,
    findings: tuple[Finding, ...],
) -> Section:
    """Return the section; values keep full precision, the report rounds them."""
    between = SpeedContrast.model_validate(comparison.candidate)
    blocks: list[Block] = [*remarks(findings)]
    blocks.append(_speeds(between))
    if between.points:
        blocks.append(_figure(between))
    if not_measured(evidence) is None:
        blocks.append(_latency(measured(evidence)))
    blocks += [_noise_table(comparison), _how(settings)]
    return Section(
        check="throughput",
        title="Throughput",
        outcome=outcome_of(findings, comparison.n),
        question="Is the candidate slower?",
        summary=_summary(between, settings),
        noise=_noise(between, settings),
        n=f"{comparison.n} judged windows at {settings.judged_at} in flight",
        blocks=tuple(blocks),
    )


def _summary(between: SpeedContrast, settings: ThroughputSettings) -> str:
    if between.not_judged is not None:
        return _first_upper(f"{between.not_judged.message}.")
    point = between.at(settings.judged_at)
    if point is None or point.left is None or point.right is None or point.ratio is None:
        return "Speed was not compared."
    speeds = f"{point.left.output_tokens_per_second:,.1f} -> {point.right.output_tokens_per_second:,.1f} output tok/s"
    if point.invalid:
        return f"INVALID at {settings.judged_at} in flight ({speeds}): {point.invalid[0].partition(': ')[2]}."
    return f"{point.ratio:.3f}x ({_interval(point)}), {point.claim}: {speeds} at {settings.judged_at} in flight."


def _interval(point: SpeedPair) -> str:
    return "no interval" if point.low is None or point.high is None else f"95 % {point.low:.3f} to {point.high:.3f}"


def _noise(between: SpeedContrast, settings: ThroughputSettings) -> str:
    point = between.at(settings.judged_at)
    sides = (("Baseline", point.left), ("candidate", point.right)) if point else ()
    said = [f"{name} varies {side.variation:.2%}" for name, side in sides if side is not None and side.variation is not None]
    if not said:
        return "Noise unknown: there is a single window."
    return f"{'; '.join(said)} between windows (CV); {settings.limits.restart_sd:.1%} between starts is assumed."


def _speeds(between: SpeedContrast) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for point in between.points:
        left, right = point.left, point.right
        rows.append(
            (
                point.concurrency,
                left.output_tokens_per_second if left else None,
                right.output_tokens_per_second if right else None,
                point.ratio,
                point.low,
                point.high,
                point.claim if between.not_judged is None or point.invalid else "not judged",
                left.variation if left else None,
                right.variation if right else None,
                left.windows if left else 0,
            )
        )
    return Table(
        name="throughput-speed",
        title="Output tokens per second",
        columns=(
            Column(title="In flight"), Column(title="Baseline", unit="tok/s", digits=1),
            Column(title="Candidate", unit="tok/s", digits=1), Column(title="Ratio", digits=3),
            Column(title="Low 95 %", digits=3), Column(title="High 95 %", digits=3), Column(title="Difference"),
            Column(title="Baseline CV", percent=True), Column(title="Candidate CV", percent=True), Column(title="Windows"),
        ),
        rows=tuple(rows),
        note="Ratio above 1: the candidate is faster. n.s.: no significant difference.",
    )  # fmt: skip


def _figure(between: SpeedContrast) -> Figure:
    sides = (
        ("baseline", [(point.concurrency, point.left) for point in between.points]),
        ("candidate", [(point.concurrency, point.right) for point in between.points]),
    )
    lines = {
        role: tuple(Point(x=float(at), y=side.output_tokens_per_second) for at, side in points if side)
        for role, points in sides
    }
    said = [
        f"{point.left.output_tokens_per_second:,.0f} and {point.right.output_tokens_per_second:,.0f} at {point.concurrency}"
        for point in between.points
        if point.left and point.right
    ]
    return Figure(
        name="throughput-curve",
        title="Output tokens per second by requests in flight",
        style="lines",
        x_label="requests in flight",
        y_label="output tokens per second",
        series=(
            Series(name="baseline", role="baseline", points=lines["baseline"]),
            Series(name="candidate", role="candidate", points=lines["candidate"]),
        ),
        description=f"Output tokens per second, baseline and candidate: {'; '.join(said)}.",
    )


def _latency(arms: tuple[ThroughputMeasurement, ThroughputMeasurement]) -> Table:
    concurrencies = sorted({point.concurrency for arm in arms for point in arm.points})
    rows = tuple(
        (
            concurrency,
            metric,
            *(_percentile(arm, concurrency, metric, name, share) for name, share in PERCENTILES for arm in arms),
        )
        for concurrency in concurrencies
        for metric in METRICS
    )
    titles = [f"{arm} {name}" for name, _ in PERCENTILES for arm in ("Baseline", "Candidate")]
    needed = {name: requests_for_percentile(share) for name, share in PERCENTILES}
    return Table(
        name="throughput-latency",
        title="Latency under the same load",
        columns=(Column(title="In flight"), Column(title="Metric", code=True), *(Column(title=title) for title in titles)),
        rows=rows,
        note="Median over windows of each window's percentile. A percentile is shown where every window has enough requests "
        f"to bound it from above with 95 % confidence: {needed['p95']} for p95, {needed['p99']} for p99.",
    )


def _percentile(arm: ThroughputMeasurement, concurrency: int, metric: str, name: str, share: float) -> float | str | None:
    windows: Sequence[LoadPoint] = [point for point in arm.points if point.concurrency == concurrency]
    values = [getattr(point, metric).get(name) for point in windows]
    if not windows or None in values:
        return None
    if min(point.completed for point in windows) < requests_for_percentile(share):
        return "n too small"
    return float(median(values))


def _noise_table(comparison: Comparison) -> Block:
    if comparison.noise is None:
        return Text(text=f"Noise: {comparison.noise_reason}.", tone="caution")
    rows: list[tuple[Cell, ...]] = []
    for name, side in (("baseline", comparison.noise.baseline), ("candidate", comparison.noise.candidate)):
        points = SpeedContrast.model_validate(side).points if side is not None else ()
        rows += [(name, point.concurrency, point.ratio, point.low, point.high, point.claim) for point in points]
    return Table(
        name="throughput-noise",
        title="Each arm against itself: odd windows over even ones",
        columns=(
            Column(title="Arm"), Column(title="In flight"), Column(title="Ratio", digits=3), Column(title="Low 95 %", digits=3),
            Column(title="High 95 %", digits=3), Column(title="Difference"),
        ),
        rows=tuple(rows),
        note="Nothing changed between these windows.",
    )  # fmt: skip


def _how(settings: ThroughputSettings) -> Fold:
    limits = settings.limits
    text = (
        f"{settings.input_tokens} tokens in and {settings.output_tokens} out for every request, the end of text ignored, the "
        f"same prompts in both arms, new prompts in every window. The interval of the ratio joins the spread of the windows "
        f"of both arms with {limits.restart_sd:.1%} between starts (once per arm), since windows of one start agree better "
        f"than starts do. Speed fails the gate only at {settings.judged_at} in flight and only when the ratio is below "
        f"{limits.fail_ratio:g} with 95 % confidence; it never earns a PASS. A window with failed requests, other output "
        "lengths or a warm prefix cache is INVALID and proves nothing. Foreign processes, clocks and energy were not observed."
    )
    return Fold(title="How speed is judged", blocks=(Text(text=text),))


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]
