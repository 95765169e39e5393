"""The smallest effects that a gate finds four times in five, from the spread it shows when nothing changed.

Each figure is where the rule that the check applies (its limit plus the reach of its interval) is met with probability 80 %.
The spread is that of A/A runs. A real change brings a spread of its own, so these figures are the best case.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from servegate.checks.accuracy.estimates import FAIL_ALPHA, PASS_ALPHA
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.logprobs.settings import LogprobsSettings
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.checks.throughput.shape import SpeedContrast
from servegate.domain.calibration import AaRun, Effect
from servegate.domain.judgement import Comparison
from servegate.domain.records import Settings
from servegate.stats.intervals import POWER, never_seen_bound, normal_quantile
from servegate.stats.ratios import log_ratio
from servegate.stats.spread import StartSpread

SMALL_MODEL, NOT_JUDGED = "small_model", "throughput_not_judged"
"""Flags of a row: why a check neither passes nor fails there."""
RESTART_SD, HOST_BOUND = "throughput_restart_sd", "throughput_host_bound"
"""Of a row: the spread between starts that the judged load's own interval held, and whether the host's pace chose it."""


def spreads(comparisons: Mapping[str, Comparison], settings: Mapping[str, Settings]) -> dict[str, Any]:
    """Return `speeds`, `accuracies` and `spreads` of one run, for its row; what a run does not show is not in it."""
    found: dict[str, float] = {}
    accuracies: tuple[float, ...] = ()
    accuracy, logprobs, prompts = (comparisons.get(name) for name in ("accuracy", "logprobs", "prompts"))
    if accuracy is not None and "drop_sd" in accuracy.estimates:
        found |= {"accuracy_sd": accuracy.estimates["drop_sd"].value, "accuracy_n": float(accuracy.n)}
        named = [accuracy.estimates.get(f"accuracy_{arm}") for arm in ("baseline", "candidate")]
        accuracies = tuple(one.value for one in named if one is not None)
    ratio = logprobs.estimates.get("ppl_ratio") if logprobs is not None else None
    if logprobs is not None and ratio is not None and ratio.high is not None:
        found |= {"logprobs_reach": math.log(ratio.high / ratio.value), "logprobs_n": float(logprobs.n)}
        parameters = (logprobs.candidate.get("arms") or {}).get("parameters")
        limits = settings["logprobs"]
        if parameters is not None and isinstance(limits, LogprobsSettings):
            found[SMALL_MODEL] = float(parameters < limits.limits.smallest_parameters)
    if prompts is not None:
        contracts = prompts.candidate.get("contracts") or {}
        found |= {"contracts_kept": float(contracts.get("kept", 0)), "contracts": float(sum(contracts.values()))}
    throughput = comparisons.get("throughput")
    if throughput is not None:
        found |= _restarts(SpeedContrast.model_validate(throughput.candidate))
    return {"speeds": _speeds(throughput), "accuracies": accuracies, "spreads": found}


def _restarts(between: SpeedContrast) -> dict[str, float]:
    judged = between.at(between.judged_at) if between.judged_at is not None else None
    found = {NOT_JUDGED: 1.0} if between.not_judged else {}
    if judged is not None and judged.restart_sd is not None:
        found |= {RESTART_SD: judged.restart_sd, HOST_BOUND: float(bool(judged.host_bound))}
    return found


def _speeds(comparison: Comparison | None) -> tuple[tuple[float, ...], ...]:
    """Return the windows of both starts of the load that is judged; none where the check calls them INVALID."""
    if comparison is None:
        return ()
    between = SpeedContrast.model_validate(comparison.candidate)
    judged = between.at(between.judged_at) if between.judged_at is not None else None
    if judged is None or judged.invalid:
        return ()
    # Other loads (prefill or decode alone) may have windows at the same concurrency; their speeds are other quantities.
    items = [item for item in comparison.items if (item["load"], item["concurrency"]) == (judged.load, judged.concurrency)]
    sides = tuple(tuple(item[f"{arm}_output_tokens_per_second"] for item in items) for arm in ("baseline", "candidate"))
    return sides if all(sides) and min(map(min, sides)) > 0 else ()


def effects(rows: Sequence[AaRun], settings: Mapping[str, Settings], restart: StartSpread | None) -> tuple[Effect, ...]:
    """Return the smallest effects of every check that is on and has one."""
    found: list[Effect] = []
    for name, one in settings.items():
        if isinstance(one, AccuracySettings):
            found += _accuracy(rows, one)
        elif isinstance(one, ThroughputSettings):
            found.append(_throughput(rows, one, restart))
        elif isinstance(one, LogprobsSettings):
            found += _logprobs(rows, one)
        elif name == "prompts":
            found.append(_contracts(rows))
    return tuple(found)


def _known(rows: Sequence[AaRun], name: str) -> list[float]:
    return [row.spreads[name] for row in rows if name in row.spreads]


def _accuracy(rows: Sequence[AaRun], settings: AccuracySettings) -> list[Effect]:
    spread, counts = _known(rows, "accuracy_sd"), _known(rows, "accuracy_n")
    limits = settings.limits
    failing, passing = "an accuracy drop of this FAILs", "an accuracy drop of this is not passed"
    if not spread or not counts or min(counts) < 1:
        reason = "no run has a paired accuracy"
        return [_none("accuracy", "drop that FAILs", "points", failing, reason)]
    n = int(min(counts))
    sd = math.sqrt(sum(value**2 for value in spread) / len(spread)) / 100
    power = normal_quantile(POWER) * sd / math.sqrt(n)

    def reach(alpha: float) -> float:
        return max(normal_quantile(1 - alpha) * sd / math.sqrt(n), never_seen_bound(n, alpha))

    # A drop that would also pass is passed, so the drop that FAILs lies beyond the one that is not passed.
    held = max(limits.pass_drop_points / 100 - reach(PASS_ALPHA) + power, 0.0)
    failed = max(limits.fail_drop_points / 100 + reach(FAIL_ALPHA) + power, held)
    name = "drop that is not passed"
    unpassed = Effect(check="accuracy", name=name, value=100 * held, unit="points", n=n, meaning=passing)
    if n < limits.smallest_n:
        unpassed = _none("accuracy", name, "points", passing, f"with {n:,} questions no drop is passed (smoke test)")
    return [Effect(check="accuracy", name="drop that FAILs", value=100 * failed, unit="points", n=n, meaning=failing), unpassed]


def _throughput(rows: Sequence[AaRun], settings: ThroughputSettings, restart: StartSpread | None) -> Effect:
    name, meaning = "throughput ratio that FAILs", "candidate over baseline at or below this FAILs"
    if any(_known(rows, NOT_JUDGED)):
        return _none("throughput", name, "ratio", meaning, "speed is not judged on this machine, so nothing about it FAILs")
    reaches, variances = [], []
    for row in rows:
        if len(row.speeds) != 2:
            continue
        held = row.spreads.get(RESTART_SD, settings.limits.restart_sd)  # a row of an older record does not say what it held
        ratio = log_ratio(*row.speeds, held)
        bounds = ratio.bounds(PASS_ALPHA)
        if bounds is None or ratio.se is None:
            continue
        reaches.append(math.log(bounds[1]) - ratio.value)
        # What the ratio really varies by: where restarts spread more than the interval holds, that counts.
        variances.append(ratio.se**2 + (2 * max(restart.sd**2 - held**2, 0.0) if restart else 0.0))
    if not reaches:
        return _none("throughput", name, "ratio", meaning, "no run has two valid windows in each arm")
    reach, spread = sum(reaches) / len(reaches), math.sqrt(sum(variances) / len(variances))
    value = settings.limits.fail_ratio * math.exp(-reach - normal_quantile(POWER) * spread)
    return Effect(check="throughput", name=name, value=value, unit="ratio", n=len(reaches), meaning=meaning)


def _logprobs(rows: Sequence[AaRun], settings: LogprobsSettings) -> list[Effect]:
    name, meaning = "perplexity ratio that FAILs", "candidate over baseline at or above this FAILs"
    reaches, limits = _known(rows, "logprobs_reach"), settings.limits
    if not reaches:
        return [_none("logprobs", name, "ratio", meaning, "no run has a perplexity ratio with an interval")]
    if any(_known(rows, SMALL_MODEL)):
        return [_none("logprobs", name, "ratio", meaning, "a model of this size only gets information from logprobs")]
    n, reach = int(min(_known(rows, "logprobs_n"))), max(reaches)
    power = reach * normal_quantile(POWER) / normal_quantile(1 - PASS_ALPHA)
    held = max(limits.ppl_ratio_pass * math.exp(power - reach), 1.0)
    failed = max(limits.ppl_ratio_fail * math.exp(reach + power), held)
    passing = "candidate over baseline of this is not passed"
    other = "perplexity ratio that is not passed"
    unpassed = Effect(check="logprobs", name=other, value=held, unit="ratio", n=n, meaning=passing)
    if n < limits.smallest_tokens:
        unpassed = _none("logprobs", other, "ratio", passing, f"with {n:,} tokens no ratio is passed (smoke test)")
    return [Effect(check="logprobs", name=name, value=failed, unit="ratio", n=n, meaning=meaning), unpassed]


def _contracts(rows: Sequence[AaRun]) -> Effect:
    name, meaning = "contract breaks", "a change that breaks this share of the contracts for good breaks at least one"
    kept = _known(rows, "contracts_kept")
    n = int(min(kept, default=0))
    if n < 1:
        return _none("prompts", name, "share", meaning, "no contract is kept in every round of an A/A run")
    return Effect(check="prompts", name=name, value=-math.expm1(math.log(1 - POWER) / n), unit="share", n=n, meaning=meaning)


def _none(check: str, name: str, unit: str, meaning: str, reason: str) -> Effect:
    return Effect(check=check, name=name, value=None, unit=unit, n=0, meaning=meaning, reason=reason)
