"""Pairs the windows of both arms and compares their speed, unless the windows do not deserve it.

A speed-up can be a warm cache, failed requests, shorter answers, or one lucky window. Each of these makes a
concurrency INVALID: its numbers are shown, and nothing is claimed from them.
"""

from __future__ import annotations

import re

from servegate.checks.contract import ArmEvidence, Evidence, measured, not_measured
from servegate.checks.throughput.ceilings import allowance
from servegate.checks.throughput.doubting import doubts
from servegate.checks.throughput.explaining import remarks
from servegate.checks.throughput.pace import host_bound, restart_sd
from servegate.checks.throughput.record import LoadPoint, ThroughputMeasurement
from servegate.checks.throughput.settings import SERVING, SINGLE, ThroughputSettings
from servegate.checks.throughput.shape import INTERVAL_ALPHA, NotJudged, SpeedContrast, SpeedPair, ratio_of, speed_pair
from servegate.checks.throughput.validity import Paired, faults, unseen
from servegate.domain.evidence import EngineFacts, NotMeasured
from servegate.domain.judgement import Comparison, Estimate, Noise, Unpaired
from servegate.domain.records import Json
from servegate.stats.ratios import LogRatio

JUDGED_ALPHA = 0.05
"""A FAIL rests on the one-sided upper bound at 95 %."""
FALLBACK = re.compile(r"torch|fallback|naive|emulat", re.IGNORECASE)
"""Kernels that stand in where the hardware has no unit for the format."""


def compare(evidence: Evidence[ThroughputMeasurement], settings: ThroughputSettings) -> Comparison | NotMeasured:
    """Compare output tokens per second at each concurrency. `n` counts the windows that may be judged."""
    missing = not_measured(evidence)
    if missing is not None:
        return missing
    baseline, candidate = measured(evidence)
    paired, unpaired = _pair(baseline, candidate)
    on_cpu = any(arm.engine is not None and arm.engine.device == "cpu" for arm in (evidence.baseline, evidence.candidate))
    points = tuple(_point(key, pair, evidence, settings, on_cpu=on_cpu) for key, pair in sorted(paired.items()))
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
        items=tuple(_item(windows) for _key, pair in sorted(paired.items()) for windows in pair.windows),
    )


def _point(
    key: tuple[str, int], pair: Paired, evidence: Evidence[ThroughputMeasurement], settings: ThroughputSettings, *, on_cpu: bool
) -> SpeedPair:
    """Compare the arms under one load, beside what their cards allow."""
    allowed = allowance(evidence, settings, key)
    host = host_bound(pair, allowed.arms, settings)
    by_host = on_cpu or host is not None
    point = speed_pair(
        key,
        pair.baseline,
        pair.candidate,
        restart_sd(host=by_host, settings=settings),
        faults(pair, settings, on_cpu=on_cpu),
        unseen(pair, on_cpu=on_cpu),
        (*remarks(pair, settings, on_cpu=on_cpu), *([host] if host else [])),
        in_turn=settings.interleave,
    )
    told = {"ceilings": allowed.arms, "ceilings_reason": allowed.reason, "host_bound": by_host}
    point = point.model_copy(update=told)
    return point if on_cpu else point.model_copy(update={"remarks": (*point.remarks, *doubts(point, pair, settings))})


def _pair(baseline: ThroughputMeasurement, candidate: ThroughputMeasurement) -> tuple[dict[tuple[str, int], Paired], Unpaired]:
    """Join windows of the same load, concurrency and block; a load is named by its kind and concurrency."""
    left, right = (
        {(point.load, point.concurrency, point.block): point for point in arm.points} for arm in (baseline, candidate)
    )
    both = sorted(left.keys() & right.keys())
    same = [key for key in both if left[key].workload_sha256 == right[key].workload_sha256]
    paired = {
        load: Paired(
            baseline=tuple(left[key] for key in same if key[:2] == load),
            candidate=tuple(right[key] for key in same if key[:2] == load),
        )
        for load in sorted({key[:2] for key in same})
    }
    return paired, Unpaired(
        baseline_only=len(left.keys() - right.keys()),
        candidate_only=len(right.keys() - left.keys()),
        hash_differs=len(both) - len(same),
    )


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
    loads = sorted({(point.load, point.concurrency) for point in arm.points})
    pairs: list[SpeedPair] = []
    for load in loads:
        windows = [point for point in arm.points if (point.load, point.concurrency) == load]
        even, odd = ([point for point in windows if point.block % 2 == rest] for rest in (0, 1))
        if even and odd:
            pairs.append(speed_pair(load, even, odd, restart_sd=0.0))
    return SpeedContrast(points=tuple(pairs)).to_json() if pairs else None


def _estimates(
    paired: dict[tuple[str, int], Paired], between: SpeedContrast, settings: ThroughputSettings
) -> dict[str, Estimate]:
    found: dict[str, Estimate] = {}
    for (load, concurrency), pair in sorted(paired.items()):
        point = between.at(concurrency, load)
        if point is None or point.invalid:
            continue
        assert point.restart_sd is not None, "it was compared just now"
        ratio = ratio_of(pair.baseline, pair.candidate, point.restart_sd, in_turn=settings.interleave)
        if ratio is None:
            continue
        name = "single" if load == SINGLE else f"at_{concurrency}"
        found[f"output_tokens_per_second_ratio_{name}"] = _estimate(ratio, INTERVAL_ALPHA, len(pair.baseline), settings)
        if load == SERVING and concurrency == settings.judged_at:
            found["judged_ratio"] = _estimate(ratio, JUDGED_ALPHA, len(pair.baseline), settings)
            change = ratio.smallest_detectable()
            if change is not None:
                found["smallest_detectable_change"] = Estimate(
                    value=100 * change, low=None, high=None, unit="%", n=len(pair.baseline),
                    method="two-sided 5 %, power 80 %", reason="a planning figure has no interval",
                )  # fmt: skip
    return found


def _estimate(ratio: LogRatio, alpha: float, n: int, settings: ThroughputSettings) -> Estimate:
    bounds = ratio.bounds(alpha)
    return Estimate(
        value=ratio.ratio,
        low=bounds[0] if bounds else None,
        high=bounds[1] if bounds else None,
        unit="ratio",
        n=n,
        level=1 - 2 * alpha,
        method="mean log ratio of paired blocks, t, restart spread added"
        if settings.interleave
        else "mean log ratio of windows, Welch t, restart spread added",
        reason=None if bounds else "a single window has no spread, so there is no interval",
    )


def _item(windows: tuple[LoadPoint, LoadPoint]) -> dict[str, Json]:
    baseline, candidate = windows
    return {
        "id": baseline.id,
        "load": baseline.load,
        "concurrency": baseline.concurrency,
        "block": baseline.block,
        "baseline_output_tokens_per_second": baseline.output_tokens_per_second,
        "candidate_output_tokens_per_second": candidate.output_tokens_per_second,
        "baseline_output_tokens": baseline.output_tokens,
        "candidate_output_tokens": candidate.output_tokens,
    }
