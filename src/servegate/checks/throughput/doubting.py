"""What else would explain a claimed speed: clocks, a host that may set the pace, requests that were never in flight.

A claim of the interval is about the change only where nothing else differed. Each doubt is `code: sentence`; with one there is
no claim, `unclear` stands in its place, and a person has to weigh it. A speed that claims nothing needs no excuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from servegate.checks.throughput.pace import restart_sd
from servegate.checks.throughput.record import LoadPoint
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.checks.throughput.shape import SpeedPair, speed_pair
from servegate.checks.throughput.validity import Paired, capped, slowest

CLAIMS = ("faster", "slower")
FEWEST_IN_FLIGHT = 0.5
"""Share of the requests asked for that have to be in flight on average; in a closed loop it is 0.98 and more."""


def doubts(point: SpeedPair, pair: Paired, settings: ThroughputSettings) -> tuple[str, ...]:
    """Return what a claim has to be weighed against; empty where nothing is claimed."""
    if point.claim not in CLAIMS:
        return ()
    found = [_clocks(point, pair, settings), _pace(point, pair, settings), *_in_flight(point, pair)]
    return tuple(each for each in found if each is not None)


def _clocks(point: SpeedPair, pair: Paired, settings: ThroughputSettings) -> str | None:
    """Clocks that are allowed to differ (`clock_share`) may still be as far apart as the speeds are."""
    clocks = [slowest(side, "sm_clock_mhz") for _name, side in pair.sides]
    if point.low is None or point.high is None or not clocks[0] or not clocks[1]:
        return None
    clock = clocks[1] / clocks[0]
    explained = point.low / clock <= 1 if point.claim == "faster" else point.high / clock >= 1
    if not explained or capped(pair, settings, slower=0 if clock > 1 else 1):
        return None
    return (
        f"clocks-explain: the SM clock of the candidate was {clock:.3f} times the baseline's ({clocks[0]:,.0f} and "
        f"{clocks[1]:,.0f} MHz), and without that the speeds do not differ significantly: lock the clocks, or measure in turn"
    )


def _pace(point: SpeedPair, pair: Paired, settings: ThroughputSettings) -> str | None:
    """Without a ceiling nobody can tell whether the host set the pace, where two starts differ far more.

    An arm that comes near the ceiling it has, or whose card is at its power limit, shows that the host can feed the card.
    """
    if all(point.ceilings) or any(capped(pair, settings, slower=side) for side in (0, 1)):
        return None
    for side, ceiling in zip((point.left, point.right), point.ceilings, strict=True):
        if side is not None and ceiling and side.output_tokens_per_second >= settings.limits.host_share * ceiling:
            return None
    spread = restart_sd(host=True, settings=settings)
    key = (point.load, point.concurrency)
    if speed_pair(key, pair.baseline, pair.candidate, spread, in_turn=settings.interleave).claim in CLAIMS:
        return None
    return (
        f"pace-unknown: what the card allows is not known ({point.ceilings_reason or 'no ceiling'}), so it is not known either "
        f"whether the host set the pace; where it does, two starts of one config differ by as much as this (a standard "
        f"deviation of {spread:.0%}). To settle it: set checks.throughput.limits.host_restart_sd to the restart spread that "
        "`servegate calibrate` shows for this gate, whichever setting it names"
    )


def _in_flight(point: SpeedPair, pair: Paired) -> list[str]:
    found = []
    for name, side in pair.sides:
        seen = _mean_in_flight(side)
        if seen is not None and seen < FEWEST_IN_FLIGHT * point.concurrency:
            found.append(
                f"not-in-flight: {seen:,.1f} requests of the {name} were in flight on average, and {point.concurrency} were "
                "asked for: the load tool could not keep up, and this is its speed"
            )
    return found


def _mean_in_flight(side: Sequence[LoadPoint]) -> float | None:
    """Return requests under way on average (Little's law: those completed, times how long each took, over the time)."""
    means = [
        point.completed * point.e2e_latency_s["mean"] / point.duration_s
        for point in side
        if point.duration_s > 0 and "mean" in point.e2e_latency_s
    ]
    return fmean(means) if means else None
