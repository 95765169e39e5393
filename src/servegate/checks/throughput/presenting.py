"""How the throughput check speaks: the ratio with its interval, beside each arm's own noise; latency where n allows."""

from __future__ import annotations

from servegate.checks.contract import Evidence, measured, not_measured, remarks
from servegate.checks.throughput.explaining import reading
from servegate.checks.throughput.latency import alone, goodput, in_flight, latency, machine
from servegate.checks.throughput.pace import restart_sd
from servegate.checks.throughput.record import ThroughputMeasurement
from servegate.checks.throughput.settings import SINGLE, Limits, ThroughputSettings
from servegate.checks.throughput.shape import SpeedContrast, SpeedPair
from servegate.domain.blocks import Block, Cell, Column, Figure, Fold, Point, Section, Series, Table, Text
from servegate.domain.calibration import RestartSpread, restarts, valid_for
from servegate.domain.judgement import Comparison, Finding, outcome_of


def present(
    comparison: Comparison,
    evidence: Evidence[ThroughputMeasurement],
    settings: ThroughputSettings,
    findings: tuple[Finding, ...],
) -> Section:
    """Return the section; values keep full precision, the report rounds them."""
    between = SpeedContrast.model_validate(comparison.candidate)
    blocks: list[Block] = [*remarks(findings), *_readings(between, evidence)]
    blocks.append(_speeds(between))
    if len(between.serving) > 1:
        blocks += [_figure(between), *_gain(between)]
    if not_measured(evidence) is None:
        arms = measured(evidence)
        row = alone(arms, between)
        blocks += [row] if row is not None else []
        if settings.slo is not None:
            blocks.append(goodput(arms, settings.slo))
        tables = [table for table in (latency(arms), machine(arms)) if table.rows]
        blocks += [Fold(title=table.title, blocks=(table,)) for table in tables]
    noise = _noise_table(comparison)
    blocks += [Fold(title=noise.title, blocks=(noise,)) if isinstance(noise, Table) else noise, _how(settings)]
    return Section(
        check="throughput",
        title="Throughput",
        outcome=outcome_of(findings, comparison.n),
        question="Is the candidate slower?",
        summary=_summary(between, settings),
        noise=_noise(between, settings, _recorded(evidence)),
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


def _readings(between: SpeedContrast, evidence: Evidence[ThroughputMeasurement]) -> list[Text]:
    """Say what the judged load, and one request in flight, probably mean; nothing where speed is not judged."""
    void = [str(in_flight((point.load, point.concurrency))) for point in between.points if point.invalid]
    found = []
    if void:
        said = "INVALID, so nothing below that is of these loads says anything either: latencies, goodput, energy. In flight"
        found.append(Text(text=f"{said}: {'; '.join(void)}.", tone="caution"))
    if between.not_judged is not None or between.judged_at is None:
        return found
    for where, point in (
        (f"{between.judged_at} in flight", between.at(between.judged_at)),
        ("One request in flight", between.at(1, SINGLE)),
    ):
        text = reading(point, evidence.baseline.engine, evidence.candidate.engine) if point else None
        found += [Text(text=f"{where}: {text}")] if text else []
    return found


def _interval(point: SpeedPair) -> str:
    return "no interval" if point.low is None or point.high is None else f"95 % {point.low:.3f} to {point.high:.3f}"


def _recorded(evidence: Evidence[ThroughputMeasurement]) -> RestartSpread | None:
    """Return the spread between starts that the gate's own calibration holds for what was served here."""
    plan = evidence.plan
    if plan is None or plan.calibration is None:
        return None
    here = valid_for(plan, evidence.baseline.engine, evidence.baseline.manifest)
    return restarts(plan.calibration, here, measured=True)


def _noise(between: SpeedContrast, settings: ThroughputSettings, recorded: RestartSpread | None) -> str:
    point = between.at(settings.judged_at)
    sides = (("Baseline", point.left), ("candidate", point.right)) if point else ()
    said = [f"{name} varies {side.variation:.2%}" for name, side in sides if side is not None and side.variation is not None]
    if not said or point is None:
        return "Unknown: there is a single window."
    seen = f" A change of {point.detectable:.1%} would be found four times out of five." if point.detectable is not None else ""
    return f"{'; '.join(said)} between windows (CV); {_restarts(point, settings.limits, recorded)}.{seen}"


def _restarts(point: SpeedPair, limits: Limits, recorded: RestartSpread | None) -> str:
    """Say which spread between starts the interval of this load holds, and where it is from."""
    spread = limits.restart_sd if point.restart_sd is None else point.restart_sd
    if point.host_bound and spread != limits.restart_sd:
        said = f"{spread:.1%} between starts, since the host sets the pace"
        other = recorded.against(spread) if recorded is not None and recorded.setting == "host_restart_sd" else None
        return f"{said}: {other}" if other else said
    if recorded is not None and recorded.setting == "restart_sd":
        agrees = f"which agrees with {recorded.starts} starts of this gate"
        return f"{spread:.1%} between starts, {recorded.against(spread) or agrees}"
    source = "is assumed until it was calibrated here" if spread == Limits().restart_sd else "as the config says"
    return f"{spread:.1%} between starts {source}"


def _speeds(between: SpeedContrast) -> Table:
    rows: list[tuple[Cell, ...]] = []
    for point in between.points:
        left, right = point.left, point.right
        rows.append(
            (
                in_flight((point.load, point.concurrency)),
                left.output_tokens_per_second if left else None,
                right.output_tokens_per_second if right else None,
                point.ratio,
                point.low,
                point.high,
                point.claim if between.not_judged is None or point.invalid else "not judged",
                left.variation if left else None,
                right.variation if right else None,
                left.windows if left else 0,
                point.detectable,
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
            Column(title="Detectable", percent=True),
        ),
        rows=tuple(rows),
        note="Ratio above 1: the candidate is faster. n.s.: no significant difference; unclear: something else than the "
        "change would explain it. Detectable: the smallest change that so many windows find four times out of five.",
    )  # fmt: skip


def _figure(between: SpeedContrast) -> Figure:
    sides = (
        ("baseline", [(point.concurrency, point.left) for point in between.serving]),
        ("candidate", [(point.concurrency, point.right) for point in between.serving]),
    )
    lines = {
        role: tuple(Point(x=float(at), y=side.output_tokens_per_second) for at, side in points if side)
        for role, points in sides
    }
    said = [
        f"{point.left.output_tokens_per_second:,.0f} and {point.right.output_tokens_per_second:,.0f} at {point.concurrency}"
        for point in between.serving
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


def _gain(between: SpeedContrast) -> list[Figure]:
    """Draw the speed-up over concurrency with its interval; where speed is not judged, no gain is drawn."""
    points = [point for point in between.serving if point.ratio is not None and not point.invalid]
    if between.not_judged is not None or len(points) < 2:
        return []
    said = [f"{point.ratio:.3f} ({_interval(point)}) at {point.concurrency}" for point in points]
    drawn = tuple(
        Point(x=float(point.concurrency), y=point.ratio, low=point.low, high=point.high)
        for point in points
        if point.ratio is not None
    )
    return [
        Figure(
            name="throughput-gain",
            title="Candidate over baseline by requests in flight",
            style="lines",
            x_label="requests in flight",
            y_label="ratio of output tokens per second",
            series=(Series(name="candidate over baseline", role="difference", points=drawn),),
            description=f"Ratio of output tokens per second: {'; '.join(said)}.",
            reference=1.0,
        )
    ]


def _noise_table(comparison: Comparison) -> Block:
    if comparison.noise is None:
        return Text(text=f"Noise: {comparison.noise_reason}.", tone="caution")
    rows: list[tuple[Cell, ...]] = []
    for name, side in (("baseline", comparison.noise.baseline), ("candidate", comparison.noise.candidate)):
        points = SpeedContrast.model_validate(side).points if side is not None else ()
        rows += [
            (name, in_flight((point.load, point.concurrency)), point.ratio, point.low, point.high, point.claim)
            for point in points
        ]
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
    turns = ", the arms in turn (A B B A), one engine asleep, and compared block by block" if settings.interleave else ""
    text = (
        f"{settings.input_tokens} tokens in and {settings.output_tokens} out for every request, the end of text ignored, "
        "the same prompts in both arms, none twice. One run of `vllm bench serve`, the baseline's in both arms, is cut into "
        f"windows where its requests end{turns}; the first round of requests fills the engine and is not counted. "
        f"The interval of the ratio joins the spread of the windows of both arms with {limits.restart_sd:.1%} between starts "
        f"(once per arm; {restart_sd(host=True, settings=settings):.0%} where both arms make less than "
        f"{limits.host_share:.0%} of what their cards allow), since windows of one start agree better than starts do. Speed "
        "fails the gate only at "
        f"{settings.judged_at} in flight and only when the ratio is below {limits.fail_ratio:g} with 95 % confidence; it "
        "never earns a PASS. Failed requests, answers of other lengths, a warm prefix cache, somebody else's requests or "
        "processes, a card that is too hot or clocked otherwise, and another tool make a load INVALID: it proves nothing."
    )
    return Fold(title="How speed is judged", blocks=(Text(text=text),))


def _first_upper(text: str) -> str:
    return text[:1].upper() + text[1:]
