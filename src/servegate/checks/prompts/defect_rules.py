"""Answers that are broken whatever they say: more of them in the candidate, or too few prompts to know."""

from __future__ import annotations

from servegate.checks.prompts.findings import bounded, found, named, rose
from servegate.checks.prompts.settings import Limits
from servegate.domain.judgement import Comparison, Finding, Severity
from servegate.stats.intervals import questions_needed

DEGENERATE = "degenerate"


def degenerate(comparison: Comparison, limits: Limits) -> Finding | None:
    """More answers that are empty, loop, or are a soup of tokens: the one defect that nobody could want."""
    return _increase(comparison, DEGENERATE, "degenerate answers", limits.degenerate_increase_points, fails=True)


def cap_hits(comparison: Comparison, limits: Limits) -> Finding | None:
    """More answers that hit `max_tokens`: they may only be longer, so a person looks and nothing fails."""
    return _increase(comparison, "cap_hits", "answers that hit max_tokens", limits.cap_hit_increase_points, fails=False)


def _increase(comparison: Comparison, name: str, what: str, limit: float, *, fails: bool) -> Finding | None:
    """FAIL when the increase is over the limit at 99 %; REVIEW when one is seen and not shown to be under it at 95 %."""
    estimate, strict = (comparison.estimates.get(f"{name}_increase{suffix}") for suffix in ("", "_99"))
    if estimate is None or strict is None or estimate.value <= 0:
        return None
    items = [item for item in comparison.items if rose(item[name])]
    code = f"{name.replace('_', '-').removesuffix('s')}-increase"
    seen = f"{what}: {estimate.value:+.1f} points over {estimate.n} prompts ({named(items)})"
    if fails and strict.low is not None and strict.low > limit:
        return bounded(code, Severity.FAIL, f"more {seen}", items, "lower 99 % of the increase", strict.low, ">", limit)
    if estimate.high is not None and estimate.high >= limit:
        what_for = f"more {seen}; not shown to stay under {limit:g} points"
        return bounded(code, Severity.REVIEW, what_for, items, "upper 95 % of the increase", estimate.high, ">=", limit)
    if estimate.high is None:
        return None
    what_for = f"more {seen}; shown to stay under {limit:g} points, which is tolerated"
    return bounded(f"{code}-tolerated", Severity.INFO, what_for, items, "upper 95 % of the increase", estimate.high, "<", limit)


def unseen(comparison: Comparison, limits: Limits) -> Finding | None:
    """None seen among n prompts is not none: what n can not rule out stays possible."""
    names = {"degenerate": "degenerate answers", "cap_hits": "cap hits"}
    found_for = {name: comparison.estimates.get(f"{name}_increase") for name in names}
    if all(estimate is not None and estimate.value > 0 for estimate in found_for.values()):
        return None  # each is told by its own rule
    limit = limits.unseen_increase_points
    bounds = {
        name: 100.0 if estimate is None or estimate.high is None else estimate.high
        for name, estimate in found_for.items()
        if estimate is None or estimate.value <= 0
    }
    open_ = {name: high for name, high in bounds.items() if high >= limit}
    if not open_:
        return None
    most, distinct = max(open_.values()), comparison.candidate.get("distinct", comparison.n)
    what = " and ".join(names[name] for name in open_)
    needed = questions_needed(limit / 100, 0.0, 0.05)
    return found(
        "increase-not-ruled-out",
        Severity.REVIEW,
        f"{what} did not increase, and {distinct} prompts leave up to {most:.1f} points possible; {needed} prompts without "
        f"one rule out {limit:g} (or accept more: `limits.unseen_increase_points`)",
        rule="upper 95 % of an increase that was not seen (points)",
        value=most,
        operator=">=",
        limit=limit,
    )
