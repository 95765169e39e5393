"""What broken contracts mean: one by one, where each must be beyond noise, and over all prompts together."""

from __future__ import annotations

from servegate.checks.prompts.findings import counted_as, found, in_state, named, refs
from servegate.checks.prompts.settings import Limits
from servegate.checks.prompts.tally import ContractState, drop_of, kept_of
from servegate.domain.judgement import Comparison, Finding, Severity
from servegate.stats.paired import mcnemar_one_sided
from servegate.stats.pooled import stratified_one_sided

LOST_PROMPTS_P, LOST_ROUNDS_P = 0.05, 0.01
"""Chances at which contracts that were kept less often ask for a person. Rounds of one prompt may be copies, so less is
believed of them; prompts are independent. Of harmless changes at most .05 + .01 are asked about."""


def broken(comparison: Comparison, limits: Limits) -> Finding | None:
    """Kept in every round of the baseline and in none of the candidate's: no noise does that often."""
    items = in_state(comparison, ContractState.CONFIRMED)
    if not items:
        return None
    over = len(items) > limits.contract_breaks
    message = (
        f"{counted_as(items, 'contract')} kept in every baseline round and broken in every candidate round: {named(items)}"
    )
    return found(
        "contract-broken" if over else "contract-broken-tolerated",
        Severity.FAIL if over else Severity.INFO,
        message if over else f"{message}; `limits.contract_breaks` tolerates them",
        refs(items),
        rule="confirmed contract breaks",
        value=float(len(items)),
        operator=">" if over else "<=",
        limit=float(limits.contract_breaks),
    )


def unstable(comparison: Comparison, _limits: Limits) -> Finding | None:
    """Kept by the baseline almost always and by the candidate almost never: too much for noise, too little for a FAIL."""
    said = "kept by the baseline and not reliably by the candidate"
    return _for_review(comparison, ContractState.UNSTABLE, "contract-unstable", said)


def not_judged(comparison: Comparison, _limits: Limits) -> Finding | None:
    """An answer that was cut or never came may have kept its contract: that is not known, and no PASS."""
    said = "could not be judged in both arms (cut, failed, or no parser could tell)"
    return _for_review(comparison, ContractState.NOT_JUDGED, "contract-not-judged", said)


def _for_review(comparison: Comparison, state: ContractState, code: str, said: str) -> Finding | None:
    items = in_state(comparison, state)
    if not items:
        return None
    return found(code, Severity.REVIEW, f"{counted_as(items, 'contract')} {said}: {named(items)}", refs(items))


def lost(comparison: Comparison, _limits: Limits) -> Finding | None:
    """A contract kept in half of the rounds and then never is noise by itself; many of them are a loss."""
    items = [item for item in comparison.items if item["contract"]]
    tables = {item["prompt_id"]: kept_of(item["contract"]) for item in items}
    losing = [item for item in items if drop_of(tables[item["prompt_id"]]) > 0]
    gained = sum(drop_of(table) < 0 for table in tables.values())
    by_prompts = mcnemar_one_sided(len(losing), gained)
    by_rounds = stratified_one_sided(tuple(tables.values()))
    if by_prompts > LOST_PROMPTS_P and by_rounds > LOST_ROUNDS_P:
        return None
    rounds = [sum(getattr(table, name) for table in tables.values()) for name in ("baseline", "candidate")]
    said = f"the candidate kept its contracts in {rounds[1]} rounds, the baseline in {rounds[0]}"
    message = f"{said}: {len(losing)} prompts lost and {gained} gained, more than chance leaves: {named(losing)}"
    prompts_decide = by_prompts <= LOST_PROMPTS_P
    return found(
        "contracts-lost",
        Severity.REVIEW,
        message,
        refs(losing),
        rule=f"one-sided exact p over {'prompts' if prompts_decide else 'rounds within prompts'}",
        value=by_prompts if prompts_decide else by_rounds,
        operator="<=",
        limit=LOST_PROMPTS_P if prompts_decide else LOST_ROUNDS_P,
    )
