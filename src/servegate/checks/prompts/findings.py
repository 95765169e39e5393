"""Wording findings: the same words for the same things, the first ids named, more of them as evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from servegate.checks.contract import finding
from servegate.checks.prompts.tally import ContractState
from servegate.domain.judgement import Comparison, EvidenceRef, Finding, Severity
from servegate.domain.records import Json

CHECK = "prompts"
NAMED = 5
MOST_EVIDENCE = 50

Item = dict[str, Json]


def found(code: str, severity: Severity, message: str, evidence: tuple[EvidenceRef, ...] = (), **rule: Any) -> Finding:
    """Return a finding of this check."""
    return finding(CHECK, code, severity, message, evidence=evidence, **rule)


def bounded(
    code: str, severity: Severity, message: str, items: Sequence[Item], rule: str, value: float, operator: str, limit: float
) -> Finding:
    """Return a finding whose rule compares a number of points with its limit."""
    return found(code, severity, message, refs(items), rule=f"{rule} (points)", value=value, operator=operator, limit=limit)


def in_state(comparison: Comparison, state: ContractState) -> list[Item]:
    """Return the items whose contract came to a state."""
    return [item for item in comparison.items if item["contract"] and item["contract"]["state"] == state.value]


def any_status(item: Item, statuses: Sequence[str]) -> bool:
    """Whether any answer to the prompt, in either arm, has one of the statuses."""
    return any(status in statuses for one in item["by_round"] for status in one["statuses"])


def rose(shares: dict[str, float | None]) -> bool:
    """Whether a share is known in both arms and larger in the candidate."""
    before, after = shares["baseline"], shares["candidate"]
    return before is not None and after is not None and after > before


def refs(items: Sequence[Item]) -> tuple[EvidenceRef, ...]:
    """Return where to look the items up."""
    return tuple(EvidenceRef(check=CHECK, id=item["prompt_id"], step=item["round"]) for item in items[:MOST_EVIDENCE])


def named(items: Sequence[Item]) -> str:
    """Return the ids of the first few items in words."""
    names = ", ".join(item["prompt_id"] for item in items[:NAMED])
    return names + (f" and {len(items) - NAMED} more" if len(items) > NAMED else "")


def counted_as(items: Sequence[Item], what: str) -> str:
    """Return a count with its noun."""
    return f"{len(items)} {what}{'' if len(items) == 1 else 's'}"


def listed(counts: dict[str, int]) -> str:
    """Return counts in words, zeros left out."""
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)
