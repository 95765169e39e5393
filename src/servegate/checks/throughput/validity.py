"""What makes a set of windows prove nothing. Each fault is `code: sentence`; a load with one is INVALID and claims nothing.

A speed-up can be a warm cache, failed requests, shorter answers, a hot card, a neighbour, or another tool. What was not
looked at is told apart from what was looked at and found in order: `unseen` names it, and a person has to read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

from servegate.checks.throughput.record import LoadPoint
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.domain.load import CardLoad

ROUNDING = 0.01
ENGINE_COUNT = 0.05
"""Share by which the engines' own counts of a prompt's tokens may differ: a request or two of nobody's is in them."""
FEW_REQUESTS = 2
"""So many may be our own: servegate asks an engine that has been silent for a token."""
FEWEST_CLIMBING = 4
HOT = ("HW slowdown", "SW thermal slowdown", "HW thermal slowdown", "HW power brake")
"""Reasons for lower clocks that are about the machine: it is too hot, or its power supply brakes it."""
SAME_LIMIT = 0.10
POWER_CAP = "SW power cap"
"""Clocks that fall because the card is at its power limit belong to the work: serving would meet them as well."""


@dataclass(frozen=True)
class Paired:
    """Windows of both arms of one load, joined by block and workload hash."""

    baseline: tuple[LoadPoint, ...]
    candidate: tuple[LoadPoint, ...]

    @property
    def sides(self) -> tuple[tuple[str, tuple[LoadPoint, ...]], ...]:
        """Both arms by name."""
        return (("baseline", self.baseline), ("candidate", self.candidate))

    @property
    def windows(self) -> list[tuple[LoadPoint, LoadPoint]]:
        """Windows of the same block, baseline first."""
        candidate = {point.block: point for point in self.candidate}
        return [(point, candidate[point.block]) for point in self.baseline if point.block in candidate]


def faults(pair: Paired, settings: ThroughputSettings, *, on_cpu: bool) -> tuple[str, ...]:
    """Say why a load proves nothing; empty when nothing speaks against it."""
    found: list[str] = []
    for name, side in pair.sides:
        found += _of_requests(name, side, settings)
        found += _of_the_machine(name, side, settings, on_cpu=on_cpu)
    return (*found, *_between(pair, settings))


def _of_requests(name: str, side: Sequence[LoadPoint], settings: ThroughputSettings) -> list[str]:
    found = []
    asked, completed = sum(point.requests for point in side), sum(point.completed for point in side)
    if completed < asked or any(point.failed for point in side):
        found.append(f"failed-requests: {asked - completed} of {asked} requests of the {name} failed")
    odd = [point for point in side if not _adds_up(point)]
    if odd:
        requests = f"{odd[0].completed} of {odd[0].requests} requests"
        found.append(
            f"numbers-disagree: window {odd[0].block} of the {name} claims {odd[0].output_tokens_per_second:,.1f} tokens/s for "
            f"{odd[0].output_tokens:,} tokens in {odd[0].duration_s:,.3f} s and {requests}"
        )
    wrong = sum(point.wrong_lengths for point in side)
    if wrong > settings.limits.output_tokens_share * completed:
        found.append(
            f"wrong-lengths: {wrong} of {completed} answers of the {name} have another number of tokens than was asked for: "
            "the context is too short for prompt and answer together (max-model-len), or the tool let answers end by themselves"
        )
    rates = [point.prefix_cache_hit_rate for point in side if point.prefix_cache_hit_rate is not None]
    if rates and max(rates) > settings.limits.prefix_cache_hit_rate:
        found.append(f"warm-cache: the {name} took {max(rates):.1%} of a window's prompts from its prefix cache")
    speeds = [point.output_tokens_per_second for point in side if point.output_tokens_per_second]
    spread = stdev(speeds) / fmean(speeds) if len(speeds) > 1 else 0.0
    # In turn both arms meet the same drift of the machine, and it cancels within a block.
    if spread <= settings.limits.window_cv and not settings.interleave and _climbs(speeds, settings.limits.window_cv):
        found.append(
            f"unsteady: the speed of the {name} went from {speeds[0]:,.1f} to {speeds[-1]:,.1f} tokens/s, the same way from "
            "window to window: it was still warming up, or slowing down, and its mean is no speed of the config"
        )
    if spread > settings.limits.window_cv:
        found.append(
            f"unsteady: the speed of the {name} varied by {spread:.0%} from window to window, so that one start in each arm "
            "says nothing about the change"
        )
    foreign = max((point.foreign_requests or 0 for point in side), default=0)
    if foreign > max(FEW_REQUESTS, settings.limits.output_tokens_share * asked):
        found.append(f"foreign-requests: somebody else sent {foreign} requests to the {name} while it was measured")
    return found


def _climbs(speeds: Sequence[float], most: float) -> bool:
    """Whether windows go one way only, and far: four in a row do so by chance once in twelve times, five once in sixty."""
    steps = [later - sooner for sooner, later in pairwise(speeds)]
    one_way = all(step > 0 for step in steps) or all(step < 0 for step in steps)
    return len(speeds) >= FEWEST_CLIMBING and one_way and abs(speeds[-1] - speeds[0]) > most * fmean(speeds)


def _adds_up(point: LoadPoint) -> bool:
    """Whether a window's speed is its tokens over its time, of no more requests than it had."""
    if point.completed > point.requests:
        return False
    if not point.completed:  # told as requests that failed
        return True
    if point.output_tokens <= 0 or point.duration_s <= 0:
        return False
    return abs(point.output_tokens_per_second * point.duration_s / point.output_tokens - 1) <= ROUNDING


def _of_the_machine(name: str, side: Sequence[LoadPoint], settings: ThroughputSettings, *, on_cpu: bool) -> list[str]:
    found = []
    foreign = sorted({process for point in side for process in point.foreign_processes or ()})
    if foreign:
        found.append(f"foreign-processes: {', '.join(foreign)} used the accelerator of the {name}")
    for reason in HOT:
        share = max((card.throttled.get(reason, 0.0) for card in cards_of(side)), default=0.0)
        if share > settings.limits.throttled_share:
            found.append(f"throttled: the card of the {name} was slowed down for {share:.0%} of a window ({reason})")
    taken = cpu_taken(side)
    if on_cpu and taken is not None and taken[0] > settings.limits.foreign_cpu_share:
        found.append(
            f"busy-machine: others kept {taken[0]:.0%} of the CPU busy while the {name} was measured on it, "
            f"{taken[1]:.1f} cores on average"
        )
    return found


def _between(pair: Paired, settings: ThroughputSettings) -> list[str]:
    found = []
    for one, other in pair.windows:
        if _apart(one.output_tokens, other.output_tokens) > settings.limits.output_tokens_share:
            found.append(
                f"output-lengths: window {one.block} generated {one.output_tokens:,} tokens in the baseline "
                f"and {other.output_tokens:,} in the candidate"
            )
            break
    for one, other in pair.windows:
        read = [side.input_tokens / max(side.completed, 1) for side in (one, other)]  # a request that failed brings no count
        if _apart(read[0], read[1]) > settings.limits.output_tokens_share:
            found.append(
                f"input-lengths: the prompts of window {one.block} had {read[0]:,.0f} tokens in the baseline and "
                f"{read[1]:,.0f} in the candidate"
            )
            break
    counted = [
        [p.prompt_tokens_per_request for p in side if p.prompt_tokens_per_request is not None] for _name, side in pair.sides
    ]
    if all(counted) and _apart(fmean(counted[0]), fmean(counted[1])) > ENGINE_COUNT:
        found.append(
            f"input-lengths: by the engines' own count prompts had {fmean(counted[0]):,.0f} tokens on average in the baseline "
            f"and {fmean(counted[1]):,.0f} in the candidate"
        )
    shares = [[p.prefix_cache_hit_rate for p in side if p.prefix_cache_hit_rate is not None] for _name, side in pair.sides]
    cold = all(max(each, default=0.0) <= settings.limits.prefix_cache_hit_rate for each in shares)
    if cold and all(shares) and abs(fmean(shares[0]) - fmean(shares[1])) > settings.limits.prefix_cache_difference:
        found.append(
            f"cache-differs: the baseline took {fmean(shares[0]):.1%} of its prompts from the prefix cache, the candidate "
            f"{fmean(shares[1]):.1%}"
        )
    tools = [{point.command[0] for point in side if point.command} for _name, side in pair.sides]
    if tools[0] and tools[1] and tools[0] != tools[1]:
        found.append(f"other-tool: the arms were loaded by two tools, {', '.join(sorted(tools[0] | tools[1]))}")
    for what, unit in (("sm_clock_mhz", "SM"), ("memory_clock_mhz", "memory")):
        clocks = [slowest(side, what) for _name, side in pair.sides]
        if clocks[0] is None or clocks[1] is None or max(clocks[0], clocks[1]) <= 0:
            continue
        if _apart(clocks[0], clocks[1]) > settings.limits.clock_share and not (
            what == "sm_clock_mhz" and capped(pair, settings, slower=0 if clocks[0] < clocks[1] else 1)
        ):
            found.append(
                f"clocks-differ: the {unit} clock was {clocks[0]:,.0f} MHz for the baseline and {clocks[1]:,.0f} MHz for the "
                "candidate, and no power limit explains it"
            )
    return found


def _apart(one: float, other: float) -> float:
    """Return by which share of the larger two amounts differ."""
    return abs(one - other) / max(one, other) if max(one, other) > 0 else 0.0


def capped(pair: Paired, settings: ThroughputSettings, *, slower: int) -> bool:
    """Whether a power limit explains lower clocks: that arm was at its limit, and both arms at the same one.

    An arm at its limit draws the most that the card may. Where it drew less than the other arm, the limit was moved.
    """
    one, other = pair.sides[slower][1], pair.sides[1 - slower][1]
    if not any(card.throttled.get(POWER_CAP, 0.0) > settings.limits.throttled_share for card in cards_of(one)):
        return False
    drawn, most = mean_of(one, "power_w"), mean_of(other, "power_w")
    return drawn is None or most is None or drawn >= (1 - SAME_LIMIT) * most


def unseen(pair: Paired, *, on_cpu: bool) -> tuple[str, ...]:
    """Return what nobody looked at, with the reason: neighbours and clocks of a GPU, the prefix cache."""
    found: dict[str, str] = {}
    for _name, side in pair.sides:
        for point in side:
            if not on_cpu and point.foreign_processes is None:
                found.setdefault("other processes on the card", point.foreign_processes_reason or "unknown")
            if not on_cpu and point.foreign_requests is None:
                found.setdefault("other clients of the engine", point.foreign_requests_reason or "unknown")
            cards = cards_of((point,))
            if not on_cpu and not (cards and all(card.samples and card.sm_clock_mhz is not None for card in cards)):
                reason = point.telemetry_reason or (point.telemetry.cards_reason if point.telemetry else None)
                found.setdefault("clocks of the card", reason or "the card cannot say")
            silent = next((card.throttled_reason for card in cards if card.throttled_reason), None)
            if not on_cpu and silent:
                found.setdefault("whether the card was slowed down", silent)
            if point.prefix_cache_hit_rate is None and "may be off" not in (point.prefix_cache_hit_rate_reason or ""):
                found.setdefault("the prefix cache", point.prefix_cache_hit_rate_reason or "unknown")
    return tuple(f"{what} ({reason})" for what, reason in found.items())


def cards_of(side: Iterable[LoadPoint]) -> list[CardLoad]:
    """Return every card of every window."""
    return [card for point in side if point.telemetry for card in point.telemetry.cards]


def mean_of(side: Iterable[LoadPoint], name: str) -> float | None:
    """Return the mean of a number of the cards over windows; None where no card says."""
    values = [value for card in cards_of(side) if (value := getattr(card, name)) is not None]
    return fmean(values) if values else None


def slowest(side: Iterable[LoadPoint], name: str) -> float | None:
    """Return the mean over windows of the card that has the lowest: the others wait for it at every step."""
    values: dict[str, list[float]] = {}
    for card in cards_of(side):
        if (value := getattr(card, name)) is not None:
            values.setdefault(card.uuid, []).append(value)
    return min(map(fmean, values.values()), default=None)


def cpu_taken(side: Iterable[LoadPoint]) -> tuple[float, float] | None:
    """Return the share of the machine's cores that others kept busy, and how many cores that is, in the worst window."""
    seen = [point.telemetry for point in side if point.telemetry is not None and point.telemetry.foreign_cpu_cores is not None]
    worst = max(seen, key=lambda each: each.foreign_cpu_cores or 0.0, default=None)
    if worst is None or worst.foreign_cpu_cores is None:
        return None
    return worst.foreign_cpu_cores / worst.cpu_cores, worst.foreign_cpu_cores
