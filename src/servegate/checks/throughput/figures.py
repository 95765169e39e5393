"""Rows of the table of decisions: speed, latency, energy and cost at the judged concurrency, and for one request in flight.

Windows that prove nothing (a warm cache, failed requests, a card that is too hot) give no value here, only their reason.
A ceiling stands beside the speed: decoding by the card's bandwidth and arithmetic, the first token by the prompt's arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from servegate.checks.contract import ArmEvidence, Evidence, measured, not_measured
from servegate.checks.throughput.ceilings import Ceiling, ceilings
from servegate.checks.throughput.latency import Load, joules_per_thousand, percentile, windows_of_load
from servegate.checks.throughput.record import LoadPoint, ThroughputMeasurement
from servegate.checks.throughput.settings import SERVING, SINGLE, ThroughputSettings
from servegate.checks.throughput.shape import SpeedContrast, SpeedPair, Windows
from servegate.domain.deciding import ArmValue, Figures, measured_or
from servegate.domain.evidence import EngineStatus
from servegate.domain.judgement import Comparison
from servegate.stats.ratios import coefficient_of_variation

PRICE = "checks.capacity.price_per_gpu_hour_usd"
SINGLE_KEY = "checks.throughput.single"
OF_A_LOAD = ("throughput", "ttft", "tpot")
"""Rows of one load, which with one request in flight have `_one` behind them."""
PARALLEL = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
UNJUDGED = {
    "cpu": "not judged: a CPU's speed",
    "device-unknown": "not judged: what it ran on is not known",
    "no-windows": "not judged: no window is paired",
    "no-interval": "not judged: no interval",
}
"""Code of `NotJudged` -> the words in a narrow cell; the check's section says it in full."""
Pair = tuple[ArmValue, ArmValue]


def figures(
    comparison: Comparison, evidence: Evidence[ThroughputMeasurement], settings: ThroughputSettings
) -> tuple[Figures, ...]:
    """Return the rows of both loads; a load that was not measured gives reasons."""
    if not_measured(evidence) is not None:
        return ()
    between = SpeedContrast.model_validate(comparison.candidate)
    served, alone = (SERVING, settings.judged_at), (SERVING if settings.single is None else SINGLE, 1)
    about = f"{settings.judged_at:,} in flight"
    rows = [*_load(between, evidence, settings, served, "", about), *_load(between, evidence, settings, alone, "_one", "")]
    point = between.at(settings.judged_at)
    energy = _both(evidence, point, lambda arm, _side: _energy(windows_of_load(arm, served)))
    return (
        *rows,
        Figures(key="energy", about=about, baseline=energy[0], candidate=energy[1], difference=_unjudged(between)),
        _cost(evidence, point, about, _unjudged(between)),
    )


def _load(
    between: SpeedContrast,
    evidence: Evidence[ThroughputMeasurement],
    settings: ThroughputSettings,
    load: Load,
    suffix: str,
    about: str,
) -> list[Figures]:
    point = between.at(load[1], load[0])
    limits = ceilings(evidence, settings, load)
    if load not in {(shape.load, shape.concurrency) for shape in settings.shapes()}:
        unasked = ArmValue(value=None, reason=f"the gate sends no such load ({SINGLE_KEY} is null)")
        return [Figures(key=f"{key}{suffix}", about=about, baseline=unasked, candidate=unasked) for key in OF_A_LOAD]
    speed = _both(evidence, point, lambda _arm, side: _speed(side))
    first = _both(evidence, point, lambda arm, _side: _latency(arm, load, "ttft_ms"))
    further = _both(evidence, point, lambda arm, _side: _latency(arm, load, "tpot_ms"))
    unjudged, ratio = _unjudged(between), ""
    if point is not None and point.ratio is not None and not point.invalid:
        interval = "no interval" if point.low is None or point.high is None else f"95 % {point.low:.3f} to {point.high:.3f}"
        ratio = f"{point.ratio:.3f}x ({interval}{', unclear' if point.doubted else ''})"
    return [
        Figures(
            key=f"throughput{suffix}", about=about, baseline=speed[0], candidate=speed[1],
            difference="; ".join(part for part in (ratio, unjudged) if part),
            bound=_said(limits, point is not None, lambda each: each.decode, "ceiling of decoding", "{:,.1f}"),
        ),
        Figures(
            key=f"ttft{suffix}", about=about, baseline=first[0], candidate=first[1], difference=unjudged,
            bound=_said(limits, point is not None, lambda each: each.first_token_ms, "floor of the prompt alone", "{:,.1f} ms"),
        ),
        Figures(
            key=f"tpot{suffix}", about=about, baseline=further[0], candidate=further[1], difference=unjudged,
            bound=_said(limits, point is not None, lambda each: each.token_ms, "floor", "{:,.2f} ms"),
        ),
    ]  # fmt: skip


def _unjudged(between: SpeedContrast) -> str:
    """Return what stands in place of a difference from which nothing may be claimed."""
    return (
        "" if between.not_judged is None else UNJUDGED.get(between.not_judged.code, f"not judged ({between.not_judged.code})")
    )


def _both(
    evidence: Evidence[ThroughputMeasurement],
    point: SpeedPair | None,
    read: Callable[[ThroughputMeasurement, Windows | None], ArmValue],
) -> Pair:
    if point is None:
        nothing = ArmValue(value=None, reason="no window of this load was measured in both arms")
        return nothing, nothing
    if point.invalid:
        nothing = ArmValue(value=None, reason=f"INVALID: {'; '.join(point.invalid)}"[:400])
        return nothing, nothing
    baseline, candidate = measured(evidence)
    return read(baseline, point.left), read(candidate, point.right)


def _speed(side: Windows | None) -> ArmValue:
    if side is None:
        return ArmValue(value=None, reason="no window was paired")
    return measured_or(side.output_tokens_per_second, None, _spread(side.variation, side.windows))


def _spread(variation: float | None, windows: int) -> str:
    return "one window, no spread" if variation is None else f"CV {100 * variation:.2f} % of {windows} windows"


def _latency(arm: ThroughputMeasurement, load: Load, metric: str) -> ArmValue:
    value = percentile(arm, load, metric, "p50", 0.5)
    if not isinstance(value, float):
        return ArmValue(value=None, reason=value if isinstance(value, str) else "the load generator reported no p50")
    medians = [getattr(point, metric).get("p50") for point in windows_of_load(arm, load)]
    known = [each for each in medians if each is not None]
    return measured_or(value, None, _spread(coefficient_of_variation(known), len(known)))


def _energy(side: Sequence[LoadPoint]) -> ArmValue:
    value = joules_per_thousand(side)
    if value is None:
        said = next((point.energy_joules_reason for point in side if point.energy_joules is None), None)
        return ArmValue(value=None, reason=said or "the cards' energy is not recorded")
    each = [single for point in side if (single := joules_per_thousand([point])) is not None]
    return measured_or(value, None, f"{_spread(coefficient_of_variation(each), len(each))}; idle power included")


def _cost(evidence: Evidence[ThroughputMeasurement], point: SpeedPair | None, about: str, unjudged: str) -> Figures:
    priced = evidence.plan.checks.get("capacity") if evidence.plan else None
    price = priced.get("price_per_gpu_hour_usd") if isinstance(priced, dict) else None
    if not isinstance(price, int | float) or isinstance(price, bool):
        nothing = ArmValue(value=None, reason=f"no price was given ({PRICE})")
        return Figures(key="cost", about=about, baseline=nothing, candidate=nothing)
    sides = (("baseline", evidence.baseline), ("candidate", evidence.candidate))
    counted = [_cards(evidence, name, side) for name, side in sides]
    speeds = _both(evidence, point, lambda _arm, side: _speed(side))
    values = [_priced(speed, cards, float(price)) for speed, cards in zip(speeds, counted, strict=True)]
    priced_at = f"{about}, {price:g} USD per GPU hour"
    return Figures(key="cost", about=priced_at, baseline=values[0], candidate=values[1], difference=unjudged)


def _priced(speed: ArmValue, cards: int | str, price: float) -> ArmValue:
    """Return the price of a million output tokens at a measured speed; the prompts' work is in it."""
    if isinstance(cards, str):
        return ArmValue(value=None, reason=cards)
    if not speed.value:
        return ArmValue(value=None, reason=speed.reason or "no token was generated")
    many = f"{cards} cards" if cards > 1 else "1 card"
    return measured_or(price * cards / (speed.value * 3600) * 1e6, None, f"{many}; {speed.noise}")


def _cards(evidence: Evidence[ThroughputMeasurement], name: str, side: ArmEvidence[ThroughputMeasurement]) -> int | str:
    """Return how many cards served an arm, by its own options; or why that is not known."""
    if side.engine is not None and side.engine.device == "cpu":
        return "it was served on a CPU, and the price is of a GPU"
    if side.engine is None or side.engine.status is EngineStatus.ATTACHED or evidence.plan is None:
        return "how many cards served it is not known"
    cards = 1
    for option in PARALLEL:
        size = evidence.plan.arms[name].config.options.get(option, 1)
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            return f"{option} is no number of cards"
        cards *= size
    return cards


def _said(limits: tuple[Ceiling, Ceiling], seen: bool, read: Callable[[Ceiling], float | str], words: str, form: str) -> str:
    """Return both arms' ceilings, or why there are none; nothing where neither a ceiling nor a measurement is."""
    texts = [each if isinstance(each, str) else form.format(each) for each in map(read, limits)]
    if all(isinstance(read(each), str) for each in limits):
        return f"no ceiling: {texts[0]}" if seen else ""
    return f"{words}: {texts[0] if texts[0] == texts[1] else ' -> '.join(texts)}"
