"""Judging: a lost key fails, and whatever could not be judged asks for review.

Two rules fail. A key that the baseline states in every round and the candidate in none is a confirmed break, like any
other contract; it counts only at depths where the baseline is reliable, since a baseline that loses every fifth key
itself makes single keys a lottery. And a drop of the share of stated keys that is beyond doubt (lower 99 % bound) fails
at every depth. A depth at which the baseline is not reliable proves nothing, so it is said, and it is no PASS.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from servegate.checks.contract import Comparison, finding
from servegate.checks.prompts.tally import ContractState
from servegate.checks.retrieval.comparing import share
from servegate.checks.retrieval.settings import Limits, RetrievalSettings
from servegate.domain.judgement import EvidenceRef, Finding, Severity
from servegate.domain.records import Json

NAMED = 5
MOST_EVIDENCE = 50
LEAST_OF_THE_CONTEXT = 0.5
"""Keys found in prompts that fill less of the served context say nothing about the rest of it."""

Item = dict[str, Json]


def judge(comparison: Comparison, settings: RetrievalSettings) -> tuple[Finding, ...]:
    """Return what was lost, and what is not known."""
    limits = settings.limits
    found = [*_evidence(comparison)]
    for depth in comparison.candidate["depths"]:
        found += [*_depth(comparison, depth, limits)]
    return (*found, *_lost(comparison, limits))


def sound(depth: dict[str, Json], limits: Limits) -> bool:
    """Whether the baseline states its keys at a depth reliably enough to prove anything there."""
    kept = share(depth["baseline"])
    return kept is not None and kept >= limits.baseline_share


def _evidence(comparison: Comparison) -> Iterator[Finding]:
    unpaired = comparison.unpaired
    if unpaired.total:
        parts = {"baseline only": unpaired.baseline_only, "candidate only": unpaired.candidate_only}
        parts["asked differently"] = unpaired.hash_differs
        said = ", ".join(f"{count} {name}" for name, count in parts.items() if count)
        yield _found("unpaired", Severity.REVIEW, f"{unpaired.total} answers could not be paired: {said}")
    if comparison.candidate["missing"]:
        message = f"{comparison.candidate['missing']} answers are missing in both arms"
        yield _found("missing", Severity.REVIEW, message)
    open_items = [item for item in comparison.items if item["baseline"]["open"] or item["candidate"]["open"]]
    if open_items:
        message = f"{comparison.candidate['failed']} answers are no evidence (failed, or thoughts without an end): "
        yield _found("not-answered", Severity.REVIEW, message + _named(open_items), open_items)
    served: int | None = comparison.candidate.get("served_tokens")
    longest = max((depth["longest_tokens"] or 0 for depth in comparison.candidate["depths"]), default=0)
    if served is not None and comparison.candidate["depths"] and longest < LEAST_OF_THE_CONTEXT * served:
        yield _found(
            "context-not-filled", Severity.REVIEW,
            f"the longest prompt has {longest:,} tokens, and the arms serve contexts of {served:,}: what is lost beyond it "
            "would not be seen (raise depths_percent, or serve a shorter max-model-len)",
            rule="tokens of the longest prompt", value=float(longest), operator="<", limit=LEAST_OF_THE_CONTEXT * served,
        )  # fmt: skip
    if (silent := comparison.candidate.get("silent")) and comparison.candidate["depths"]:
        message = (
            f"how long a context the {' and the '.join(silent)} serves is not known, so neither is whether {longest:,} tokens, "
            "the longest prompt, fill it: what is lost beyond them would not be seen"
        )
        yield _found("context-unknown", Severity.REVIEW, message)
    if not comparison.candidate["depths"]:
        yield _found("no-prompts", Severity.REVIEW, "no long prompt was written, so nothing was asked")


def _depth(comparison: Comparison, depth: dict[str, Json], limits: Limits) -> Iterator[Finding]:
    at = f"{depth['depth_percent']} % of the context"
    items = [item for item in comparison.items if item["depth_percent"] == depth["depth_percent"]]
    if depth["prompts"] < limits.fewest_prompts:
        yield _found(
            "few-prompts", Severity.REVIEW, f"{depth['prompts']} prompts were compared at {at}: too few for a PASS",
            rule=f"compared prompts at {at}", value=float(depth["prompts"]), operator="<", limit=float(limits.fewest_prompts),
        )  # fmt: skip
    estimates = [comparison.estimates.get(f"drop_at_{depth['depth_percent']}{suffix}") for suffix in ("", "_99")]
    usual, strict = estimates
    worse = [item for item in items if _worse(share(item["baseline"]), share(item["candidate"]))]
    failed = strict is not None and strict.low is not None and strict.low > limits.drop_points
    if failed and strict is not None:
        message = f"{strict.value:.1f} points fewer keys at {at} over {strict.n} prompts ({_named(worse)})"
        yield _found(
            "keys-lost", Severity.FAIL, message, worse, rule=f"lower 99 % of the drop at {at} (points)", value=strict.low,
            operator=">", limit=limits.drop_points,
        )  # fmt: skip
    elif usual is not None and usual.high is not None and usual.value > 0 and usual.high >= limits.drop_points:
        message = f"{usual.value:.1f} points fewer keys at {at} over {usual.n} prompts ({_named(worse)}); noise is not excluded"
        yield _found(
            "fewer-keys", Severity.REVIEW, message, worse, rule=f"upper 95 % of the drop at {at} (points)", value=usual.high,
            operator=">=", limit=limits.drop_points,
        )  # fmt: skip
    kept = share(depth["baseline"])
    if not sound(depth, limits):
        said = f"stated {kept:.0%} of its keys itself" if kept is not None else "gave no answer that can be judged"
        yield _found(
            "depth-not-judged", Severity.REVIEW, f"not judged at {at}: the baseline {said}",
            rule=f"share of keys that the baseline states at {at}", value=kept or 0.0, operator="<",
            limit=limits.baseline_share,
        )  # fmt: skip


def _lost(comparison: Comparison, limits: Limits) -> Iterator[Finding]:
    reliable = {depth["depth_percent"] for depth in comparison.candidate["depths"] if sound(depth, limits)}
    judged = [item for item in comparison.items if item["depth_percent"] in reliable]
    confirmed = [item for item in judged if item["state"] == ContractState.CONFIRMED.value]
    if confirmed:
        over = len(confirmed) > limits.lost_keys
        message = (
            f"{_keys(confirmed)} lost: the baseline states them in every round, the candidate in none ({_named(confirmed)})"
        )
        yield _found(
            "key-lost", Severity.FAIL if over else Severity.INFO, message, confirmed, rule="keys lost in every round",
            value=float(len(confirmed)), operator=">" if over else "<=", limit=float(limits.lost_keys),
        )  # fmt: skip
    unstable = [item for item in judged if item["state"] == ContractState.UNSTABLE.value]
    if unstable:
        message = f"{_keys(unstable)} half lost: the candidate states them in some rounds only ({_named(unstable)})"
        yield _found("key-unstable", Severity.REVIEW, message, unstable)


def _found(code: str, severity: Severity, message: str, items: Sequence[Item] = (), **rule: Any) -> Finding:
    evidence = tuple(EvidenceRef(check="retrieval", id=item["prompt_id"]) for item in items[:MOST_EVIDENCE])
    return finding("retrieval", code, severity, message, evidence=evidence, **rule)


def _worse(before: float | None, after: float | None) -> bool:
    return before is not None and after is not None and after < before


def _keys(items: Sequence[Item]) -> str:
    return f"{len(items)} key{'' if len(items) == 1 else 's'}"


def _named(items: Sequence[Item]) -> str:
    names = ", ".join(item["prompt_id"] for item in items[:NAMED])
    return names + (f" and {len(items) - NAMED} more" if len(items) > NAMED else "")
