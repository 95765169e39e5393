"""Pairs the windows of both arms and compares their speed, unless the windows do not deserve it.

A speed-up can be a warm cache, failed requests, shorter answers, or one lucky window. Each of these makes a
concurrency INVALID: its numbers are shown, and nothing is claimed from them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from servegate.checks.contract import ArmEvidence, Evidence, measured, not_measured
from servegate.checks.throughput.record import LoadPoint, ThroughputMeasurement
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.checks.throughput.shape import INTERVAL_ALPHA, NotJudged, SpeedContrast, SpeedPair, ratio_of, speed_pair
from servegate.domain.evidence import EngineFacts, NotMeasured
from servegate.domain.judgement import Comparison, Estimate, Noise, Unpaired
from servegate.domain.records import Json
from servegate.stats.ratios import LogRatio

JUDGED_ALPHA = 0.05
"""A FAIL rests on the one-sided upper bound at 95 %."""
FALLBACK = re.compile(r"torch|fallback|naive|emulat", re.IGNORECASE)
"""Kernels that stand in where the hardware has no unit for the format."""


@dataclass(frozen=True)
class Paired:
    """Windows of both arms at one concurrency, joined by block and workload hash."""

    baseline: tuple[LoadPoint, ...]
    candidate: tuple[LoadPoint, ...]


def compare(evidence: Evidence[ThroughputMeasurement], settings: ThroughputSettings) -> Comparison | NotMeasured:
    """Compare output tokens per second at each concurrency. `n` counts the windows that may be judged."""
    missing = not_measured(evidence)
    if missing is not None:
        return missing
    baseline, candidate = measured(evidence)
    paired, unpaired = _pair(baseline, candidate)
    sd = settings.limits.restart_sd
    points = tuple(
        speed_pair(concurrency, pair.baseline, pair.candidate, sd, _invalid(pair, settings))
        for concurrency, pair in sorted(paired.items())
    )
    between = SpeedContrast(points=points, judged_at=settings.judged_at)
    between = between.model_copy(update={"not_judged": _not_judged(evidence, between, settings)})
    noise = {name: _own_noise(arm) for name, arm in (("baseline", baseline), ("candidate", candidate))}
    judged = between.at(settings.judged_at)
    windows = judged.left.windows if judged and judged.left else 0
    return Comparison(
        candidate=between.to_json(),
        noise=Noise(**noise, reason=None if all(noise.values()) else "an arm has a single window")
        if any(noise.values())
        else None,
        noise_reason=None if any(noise.values()) else "each arm has a single window, so there is no noise to show",
        n=0 if between.not_judged or (judged and judged.invalid) else windows,
        unpaired=unpaired,
        estimates=_estimates(paired, between, settings),
        items=tuple(_item(concurrency, pair) for concurrency, pairs in sorted(paired.items()) for pair in _windows(pairs)),
    )


def _pair(baseline: ThroughputMeasurement, candidate: ThroughputMeasurement) -> tuple[dict[int, Paired], Unpaired]:
    left, right = ({(point.concurrency, point.block): point for point in arm.points} for arm in (baseline, candidate))
    both = sorted(left.keys() & right.keys())
    same = [key for key in both if left[key].workload_sha256 == right[key].workload_sha256]
    paired = {
        concurrency: Paired(
            baseline=tuple(left[key] for key in same if key[0] == concurrency),
            candidate=tuple(right[key] for key in same if key[0] == concurrency),
        )
        for concurrency in sorted({key[0] for key in same})
    }
    return paired, Unpaired(
        baseline_only=len(left.keys() - right.keys()),
        candidate_only=len(right.keys() - left.keys()),
        hash_differs=len(both) - len(same),
    )


def _invalid(pair: Paired, settings: ThroughputSettings) -> tuple[str, ...]:
    """Say why a concurrency proves nothing; empty when nothing speaks against it."""
    found = []
    for name, side in (("baseline", pair.baseline), ("candidate", pair.candidate)):
        asked, completed = sum(point.requests for point in side), sum(point.completed for point in side)
        if completed < asked or any(point.failed for point in side):
            found.append(f"failed-requests: {asked - completed} of {asked} requests of the {name} failed")
        rates = [point.prefix_cache_hit_rate for point in side if point.prefix_cache_hit_rate is not None]
        if rates and max(rates) > settings.limits.prefix_cache_hit_rate:
            found.append(f"warm-cache: the {name} took {max(rates):.1%} of a window's prompts from its prefix cache")
        foreign = sorted({process for point in side for process in point.foreign_processes or ()})
        if foreign:
            found.append(f"foreign-processes: {', '.join(foreign)} used the accelerator of the {name}")
    for one, other in _windows(pair):
        most, least = max(one.output_tokens, other.output_tokens), min(one.output_tokens, other.output_tokens)
        if most and (most - least) / most > settings.limits.output_tokens_share:
            found.append(
                f"output-lengths: window {one.block} generated {one.output_tokens:,} tokens in the baseline "
                f"and {other.output_tokens:,} in the candidate"
            )
            break
    return tuple(found)


def _not_judged(
    evidence: Evidence[ThroughputMeasurement], between: SpeedContrast, settings: ThroughputSettings
) -> NotJudged | None:
    arms = (evidence.baseline, evidence.candidate)
    if any(arm.engine is not None and arm.engine.device == "cpu" for arm in arms):
        return NotJudged(code="cpu", message=f"speed is not judged on a CPU: {_kernels(evidence)}")
    if any(_device_unknown(arm) for arm in arms):
        return NotJudged(
            code="device-unknown", message="speed is not judged: what the engine ran on is not known, and no GPU was seen"
        )
    judged = between.at(settings.judged_at)
    if judged is None:
        return NotJudged(
            code="no-windows", message=f"speed is not judged: no window at {settings.judged_at} in flight is paired"
        )
    if judged.low is None and not judged.invalid:
        return NotJudged(code="no-interval", message=f"speed is not judged: {judged.reason}")
    return None


def _device_unknown(arm: ArmEvidence[ThroughputMeasurement]) -> bool:
    known = arm.engine is not None and arm.engine.device is not None
    return not known and not (arm.manifest is not None and arm.manifest.gpus)


def _kernels(evidence: Evidence[ThroughputMeasurement]) -> str:
    """Name the kernel that did the work, and where the log says so."""
    named = [
        f"{kernel.kernel} for {kernel.layers} ({name}, server.log line {kernel.line})"
        for name, facts in (("baseline", evidence.baseline.engine), ("candidate", evidence.candidate.engine))
        for kernel in (facts.kernels if isinstance(facts, EngineFacts) else ())
    ]
    slow = [text for text in named if FALLBACK.search(text)]
    if slow:
        return f"the engine fell back to {slow[0]}, which says nothing about a GPU's kernels"
    if named:
        return f"the engine used {named[0]}, which says nothing about a GPU's kernels"
    return "a CPU's kernels say nothing about a GPU's, and the log names none"


def _own_noise(arm: ThroughputMeasurement) -> dict[str, Json] | None:
    """Compare an arm's even windows to its odd ones: one start, nothing changed, so any difference is noise."""
    concurrencies = sorted({point.concurrency for point in arm.points})
    pairs: list[SpeedPair] = []
    for concurrency in concurrencies:
        windows = [point for point in arm.points if point.concurrency == concurrency]
        even, odd = ([point for point in windows if point.block % 2 == rest] for rest in (0, 1))
        if even and odd:
            pairs.append(speed_pair(concurrency, even, odd, restart_sd=0.0))
    return SpeedContrast(points=tuple(pairs)).to_json() if pairs else None


def _estimates(paired: dict[int, Paired], between: SpeedContrast, settings: ThroughputSettings) -> dict[str, Estimate]:
    found: dict[str, Estimate] = {}
    for concurrency, pair in sorted(paired.items()):
        ratio = ratio_of(pair.baseline, pair.candidate, settings.limits.restart_sd)
        point = between.at(concurrency)
        if ratio is None or point is None or point.invalid:
            continue
        found[f"output_tokens_per_second_ratio_at_{concurrency}"] = _estimate(ratio, INTERVAL_ALPHA, len(pair.baseline))
        if concurrency == settings.judged_at:
            found["judged_ratio"] = _estimate(ratio, JUDGED_ALPHA, len(pair.baseline))
            change = ratio.smallest_detectable()
            if change is not None:
                found["smallest_detectable_change"] = Estimate(
                    value=100 * change, low=None, high=None, unit="%", n=len(pair.baseline),
                    method="two-sided 5 %, power 80 %", reason="a planning figure has no interval",
                )  # fmt: skip
    return found


def _estimate(ratio: LogRatio, alpha: float, n: int) -> Estimate:
    bounds = ratio.bounds(alpha)
    return Estimate(
        value=ratio.ratio,
        low=bounds[0] if bounds else None,
        high=bounds[1] if bounds else None,
        unit="ratio",
        n=n,
        level=1 - 2 * alpha,
        method="mean log ratio of windows, Welch t, restart spread added",
        reason=None if bounds else "a single window has no spread, so there is no interval",
    )


def _windows(pair: Paired) -> list[tuple[LoadPoint, LoadPoint]]:
    candidate = {point.block: point for point in pair.candidate}
    return [(point, candidate[point.block]) for point in pair.baseline]


def _item(concurrency: int, windows: tuple[LoadPoint, LoadPoint]) -> dict[str, Json]:
    baseline, candidate = windows
    return {
        "id": f"{concurrency}/{baseline.block}",
        "concurrency": concurrency,
        "block": baseline.block,
        "baseline_output_tokens_per_second": baseline.output_tokens_per_second,
        "candidate_output_tokens_per_second": candidate.output_tokens_per_second,
        "baseline_output_tokens": baseline.output_tokens,
        "candidate_output_tokens": candidate.output_tokens,
    }
