"""What explains a speed without voiding it, and the three ways a result can read, each with its cause and how to confirm it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from servegate.checks.throughput.record import LoadPoint
from servegate.checks.throughput.settings import SINGLE, ThroughputSettings
from servegate.checks.throughput.shape import SpeedPair
from servegate.checks.throughput.validity import POWER_CAP, Paired, cards_of, cpu_taken
from servegate.domain.evidence import EngineFacts

BUSY = 0.5
"""Share of the CPU that others may keep busy beside a GPU's engine before it is worth a remark."""
QUEUED = 0.25
"""Share of a request's time spent in the engine's queue that is worth a remark."""
ODD_INPUT = 0.05
SAME = 0.06
"""An interval that reaches further from 1 does not show that speeds are the same (of steady windows it reaches 0.03)."""
SMALLER = 0.9
"""A candidate whose weights take less than this share of the baseline's is smaller."""


def remarks(pair: Paired, settings: ThroughputSettings, *, on_cpu: bool) -> tuple[str, ...]:
    """Return `code: sentence` of what a reader should know before asking why a load is fast or slow."""
    found = []
    for name, side in pair.sides:
        found += _queue(name, side)
        power = max((card.throttled.get(POWER_CAP, 0.0) for card in cards_of(side)), default=0.0)
        if power > settings.limits.throttled_share:
            found.append(f"power-limit: the card of the {name} was at its power limit for {power:.0%} of a window")
        taken = cpu_taken(side)
        if not on_cpu and taken is not None and taken[0] > BUSY:
            found.append(f"busy-cpu: others kept {taken[0]:.0%} of the CPU busy while the {name} was measured")
        found += _inputs(name, side, settings)
    return tuple(found)


def _queue(name: str, side: Sequence[LoadPoint]) -> list[str]:
    found = []
    waits = [(point.queue_time_s, point.e2e_latency_s["mean"]) for point in side if "mean" in point.e2e_latency_s]
    shares = [waited / whole for waited, whole in waits if waited is not None and whole > 0]
    if shares and fmean(shares) > QUEUED:
        found.append(
            f"queued: requests of the {name} spent {fmean(shares):.0%} of their time waiting in the engine's queue, so it ran "
            "fewer at once than were sent (look at max-num-seqs and at the KV cache)"
        )
    preempted = max((point.preemptions or 0 for point in side), default=0)
    if preempted:
        found.append(f"preempted: the {name} set {preempted} running requests back, since its KV cache was full")
    return found


def _inputs(name: str, side: Sequence[LoadPoint], settings: ThroughputSettings) -> list[str]:
    asked = _asked_input(side, settings)
    counted = [point.prompt_tokens_per_request or point.input_tokens / point.completed for point in side if point.completed]
    if asked is None or not counted or abs(fmean(counted) / asked - 1) <= ODD_INPUT:
        return []
    return [f"prompt-lengths: prompts of the {name} have {fmean(counted):,.0f} tokens on average, {asked:,} were asked for"]


def _asked_input(side: Iterable[LoadPoint], settings: ThroughputSettings) -> int | None:
    if any(point.load == SINGLE for point in side):
        return settings.single.input_tokens if settings.single else None
    return settings.input_tokens


def reading(point: SpeedPair, baseline: EngineFacts | None, candidate: EngineFacts | None) -> str | None:
    """Return what a judged speed probably means and how to confirm it; None where nothing may be claimed."""
    if point.invalid or point.low is None or point.high is None or point.doubted:
        return None
    kernels = ", ".join(dict.fromkeys(kernel.kernel for kernel in candidate.kernels)) if candidate else ""
    named = f"the candidate's log names {kernels}" if kernels else "the candidate's log names no kernel"
    if point.claim in ("faster", "slower") and (held := _held_back(point)):
        return held
    if point.claim == "faster":
        return _faster(named, baseline, candidate)
    if point.claim == "slower":
        return (
            "Slower. Likely cause: a fallback kernel, weights that are unpacked before each use, or (on a small model) the "
            f"cost of quantizing activations. To confirm: {named}; compare TTFT (arithmetic) with TPOT (reading), and serve "
            "the candidate once with enforce-eager on both sides to see whether a compiled fusion was lost."
        )
    if point.host_bound:
        return (
            "No difference beyond what two starts of one config show where the host sets the pace: this load says nothing of "
            f"what the change does to the card. To confirm: {named}; a larger model, more requests in flight or a faster CPU."
        )
    return _same(point, named, _weights(baseline), _weights(candidate))


def _faster(named: str, baseline: EngineFacts | None, candidate: EngineFacts | None) -> str:
    sizes = _weights(baseline), _weights(candidate)
    if sizes[0] is not None and sizes[1] is not None and sizes[1] >= sizes[0]:
        return (
            "Faster, and the weights are no smaller. So it is not that fewer bytes of weights are read: another kernel, other "
            f"scheduling, or a smaller KV cache per token. To confirm: {named}; compare the knobs that differ between the arms."
        )
    return (
        "Faster. Likely cause: fewer bytes are read for each token, or a faster kernel multiplies them. To confirm: "
        f"{named}; the gain should be largest with one request in flight, where only reading counts."
    )


def _same(point: SpeedPair, named: str, before_gib: float | None, after_gib: float | None) -> str | None:
    """Read no significant difference: the same speed only where the interval leaves no room for another one."""
    if before_gib is None or after_gib is None or after_gib > SMALLER * before_gib or not point.low or not point.high:
        return None
    sizes = f"{before_gib:.2f} -> {after_gib:.2f} GiB of weights"
    if max(1 / point.low, point.high) > 1 + SAME:
        return (
            f"Smaller ({sizes}), and whether as fast is not known: no significant difference in speed, and anything from "
            f"{point.low:.3f} to {point.high:.3f} times the baseline's would look like this. To confirm: more windows, blocks "
            "in turn, or a quieter machine."
        )
    return (
        f"Same speed, but smaller: {sizes}, and no significant difference in speed. "
        "Likely cause: the weights are stored small and multiplied as before (a weights-only kernel), or something else "
        f"than the weights limits this load. To confirm: {named}; look at one request in flight, and at the KV cache."
    )


def _weights(facts: EngineFacts | None) -> float | None:
    return facts.weights_gib if facts else None


def _held_back(point: SpeedPair) -> str | None:
    """Return the reading of a difference in which requests of the slower arm waited, or were set back: that is no kernel's."""
    slower = "candidate" if point.claim == "slower" else "baseline"
    told = [
        message
        for code, _, message in (remark.partition(": ") for remark in point.remarks)
        if code in ("queued", "preempted") and f"the {slower} " in message
    ]
    if not told:
        return None
    return (
        f"{point.claim.capitalize()}. Likely cause: {told[0]}. To confirm: give both arms the same max-num-seqs and a KV cache "
        "that holds every request in flight, then compare again; until then this is no speed of the kernels."
    )
