"""Completes the table of what a person has to decide on: the engines' own words, then the checks', then reasons.

Weights and KV cache are in every engine's log, so they are there also in a gate without the `capacity` check. A row that
nobody measured says so: a check that is off, one that could not measure, an engine that did not start.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from servegate.checks.contract import ArmEvidence
from servegate.checks.served_models import ARMS
from servegate.domain.arms import Role
from servegate.domain.deciding import QUANTITIES, ArmValue, Figures, measured_or
from servegate.domain.evidence import EngineFacts
from servegate.domain.judgement import Finding, Severity

ONE_START = "one start, noise unknown"


def complete(
    arms: Mapping[str, ArmEvidence[Any]],
    given: Iterable[Figures],
    missing: Mapping[str, str],
    checks: Iterable[str],
    findings: Iterable[Finding] = (),
) -> tuple[Figures, ...]:
    """Return every row in order. `missing`: why a check was not compared; `checks`: those that the gate has.

    Where `findings` say that a check's arms, or the arms themselves, are not comparable, no difference is stated.
    """
    rows = {row.key: row for row in (*_memory(arms), *given)}
    on = set(checks)
    for quantity in QUANTITIES:
        if quantity.key not in rows:
            off = f"the gate has no {quantity.check} check"
            unsaid = f"the {quantity.check} check has no value for it"
            nothing = ArmValue(value=None, reason=missing.get(quantity.check, unsaid) if quantity.check in on else off)
            rows[quantity.key] = Figures(key=quantity.key, baseline=nothing, candidate=nothing)
    void = {item.check for item in findings if item.severity is Severity.NOT_COMPARABLE}
    return tuple(
        rows[quantity.key].model_copy(update={"difference": "not comparable"})
        if void & {quantity.check, ARMS}
        else rows[quantity.key]
        for quantity in QUANTITIES
    )


def _memory(arms: Mapping[str, ArmEvidence[Any]]) -> tuple[Figures, ...]:
    baseline, candidate = (arms[role].engine if role in arms else None for role in (Role.BASELINE, Role.CANDIDATE))
    return (
        Figures(key="weights", baseline=_logged(baseline, "weights_gib"), candidate=_logged(candidate, "weights_gib")),
        Figures(
            key="kv_tokens", baseline=_logged(baseline, "kv_cache_tokens"), candidate=_logged(candidate, "kv_cache_tokens")
        ),
        Figures(
            key="requests", about="each of the longest context", baseline=_longest(baseline), candidate=_longest(candidate)
        ),
    )


def _logged(facts: EngineFacts | None, name: str) -> ArmValue:
    if facts is None:
        return ArmValue(value=None, reason="no start was attempted")
    value = getattr(facts, name)
    return measured_or(None if value is None else float(value), _why(facts, name), ONE_START)


def _longest(facts: EngineFacts | None) -> ArmValue:
    """Return tokens of the cache over the longest context: the engine's own measure of concurrency."""
    if facts is None or facts.kv_cache_tokens is None:
        return _logged(facts, "kv_cache_tokens")
    if not facts.max_model_len:
        return ArmValue(value=None, reason=_why(facts, "max_model_len"))
    return ArmValue(
        value=facts.kv_cache_tokens / facts.max_model_len, noise=f"{facts.max_model_len:,} tokens each; {ONE_START}"
    )


def _why(facts: EngineFacts, name: str) -> str:
    """Return why an engine's fact is not known."""
    if facts.diagnosis is not None:
        return "the engine did not start"
    return getattr(facts, f"{name}_reason") or "the engine's log does not say"
