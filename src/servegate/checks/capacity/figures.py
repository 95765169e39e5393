"""Rows of the table of decisions: what the engines logged of weights and cache, beside what was predicted."""

from __future__ import annotations

import math
from typing import Any

from servegate.checks.capacity.record import ArmCapacity, CapacityContrast, Reading
from servegate.checks.capacity.settings import CapacitySettings
from servegate.checks.contract import Evidence
from servegate.checks.deciding import ONE_START
from servegate.domain.deciding import ArmValue, Figures, measured_or
from servegate.domain.judgement import Comparison
from servegate.domain.plan import Plan

ROUNDED = "logged GiB, rounded, over tokens"
"""Where the number comes from is what moves it: a hundredth of a GiB is more than two starts differ by."""


def figures(comparison: Comparison, evidence: Evidence[Any], settings: CapacitySettings) -> tuple[Figures, ...]:
    """Return weights, bytes of a token, tokens, and the requests of `context_tokens` that they hold."""
    contrast = CapacityContrast.model_validate(comparison.candidate)
    arms = [arm for _name, arm in contrast.arms]
    context = settings.context_tokens
    limits = [_limit(evidence.plan, name) for name, _arm in contrast.arms]
    fits = [_requests(arm, context, limit) for arm, limit in zip(arms, limits, strict=True)]
    predictions = [_predicted(arm, limit) for arm, limit in zip(arms, limits, strict=True)]
    return (
        _row("weights", [arm.weights_gib for arm in arms], "{:,.2f} GiB"),
        _row("kv_bytes", [arm.token_bytes for arm in arms], "{:,.0f} bytes", ROUNDED),
        _row("kv_tokens", [arm.tokens for arm in arms], "{:,.0f} tokens", at_most=True),
        Figures(
            key="requests",
            about=f"each of {context:,} tokens",
            baseline=fits[0],
            candidate=fits[1],
            bound=_bound(predictions, "{:,.1f}", [arm.reason for arm in arms], at_most=True),
        ),
    )


def _row(key: str, readings: list[Reading], form: str, noise: str = ONE_START, *, at_most: bool = False) -> Figures:
    baseline, candidate = (measured_or(each.engine, each.engine_reason, noise) for each in readings)
    bound = _bound([each.predicted for each in readings], form, [each.predicted_reason for each in readings], at_most=at_most)
    return Figures(key=key, baseline=baseline, candidate=candidate, bound=bound)


def _bound(values: list[float | None], form: str, reasons: list[str | None], *, at_most: bool) -> str:
    """Return what was predicted of both arms, or why nothing was. `at_most`: the prediction is an upper bound."""
    if values == [None, None]:
        return f"not predicted: {reasons[0] or 'no reason is recorded'}"
    said = ["not predicted" if value is None else form.format(value) for value in values]
    return f"predicted{', at most' if at_most else ''}: {said[0] if said[0] == said[1] else ' -> '.join(said)}"


def _limit(plan: Plan | None, name: str) -> float:
    """Return the declared `max-num-seqs`; what an engine takes without one is its own affair, and never guessed here."""
    declared = plan.arms[name].config.options.get("max-num-seqs") if plan else None
    if not isinstance(declared, int) or isinstance(declared, bool) or declared < 1:
        return math.inf
    return float(declared)


def _predicted(arm: ArmCapacity, limit: float) -> float | None:
    fits = arm.prediction.requests if arm.prediction else None
    return None if fits is None else min(fits, limit)


def _requests(arm: ArmCapacity, context: int, limit: float) -> ArmValue:
    """Return the engine's tokens over a request's, cut by a declared `max-num-seqs`."""
    if arm.tokens.engine is None:
        return measured_or(None, arm.tokens.engine_reason, "")
    if arm.prediction is None:
        return ArmValue(value=None, reason=f"what a request keeps is not known: {arm.reason}")
    if any(kept not in ("full", "latent") for kept in arm.prediction.layers):
        return ArmValue(value=None, reason="layers keep different amounts, so the engine's tokens give no number of requests")
    fits = arm.tokens.engine / context
    if limit < fits:
        told = f"max-num-seqs; the cache has room for {fits:,.1f} ({ONE_START})"
        return ArmValue(value=limit, noise=told, said=f"{limit:,.0f} requests")
    return ArmValue(value=fits, noise=f"from the engine's tokens; {ONE_START}")
