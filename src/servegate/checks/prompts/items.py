"""One item per prompt: everything about it that judging and showing need, but its texts, which stay in the evidence.

`round` names the round whose answers are worth reading: the one with the most serious class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from servegate.checks.prompts.classes import SAME, AnswerClass, Reading
from servegate.checks.prompts.nearness import NOT_ASKED
from servegate.checks.prompts.pairing import Pair
from servegate.checks.prompts.records import Prompt
from servegate.checks.prompts.tally import ContractState, contract_state, counts, share
from servegate.domain.plan import sha256_of
from servegate.domain.records import Json
from servegate.text.similarity import rouge_l, similarity

SERIOUSNESS = (
    AnswerClass.CONTRACT_BROKEN,
    AnswerClass.DEGENERATE,
    AnswerClass.CHANGED_FACT,
    AnswerClass.NOT_COMPARABLE,
    AnswerClass.WORDING,
    AnswerClass.WHITESPACE,
    AnswerClass.ENCODING,
    AnswerClass.IDENTICAL,
)
"""Most worth reading first."""
SETTLING = frozenset({"number", "one_of"})
"""Contracts that state the right answer. One that states a form (`json`, `max_words`) does not settle which value is right."""
MOST_CHANGES = 20


@dataclass(frozen=True)
class Prompted:
    """One prompt: its pairs between the arms by round, and one pair of rounds within each arm (baseline, candidate)."""

    prompt: Prompt
    pairs: tuple[Pair, ...]
    noise: tuple[Pair | None, Pair | None]


def item_of(one: Prompted, confirm_rounds: int) -> dict[str, Json]:
    """Return the item of a prompt that has at least one pair."""
    shown = min(one.pairs, key=lambda pair: (SERIOUSNESS.index(pair.judged.answer_class), pair.round))
    alike, alike_reason = _similarity(shown)
    contract = _contract(one, confirm_rounds)
    beyond = _beyond_noise(one)
    kept = contract is not None and contract["state"] == ContractState.KEPT.value
    settled = kept and not SETTLING.isdisjoint(one.prompt.expect or ())
    stable = _stable_fact_change(one)
    changed = list(dict.fromkeys(change for pair in one.pairs for change in pair.judged.changes))
    return {
        "prompt_id": one.prompt.id,
        "category": one.prompt.category,
        "round": shown.round,
        "class": shown.judged.answer_class.value,
        "reason": shown.judged.reason,
        "prompt_sha256": one.prompt.prompt_sha256,
        "changes": [change.to_json() for change in changed[:MOST_CHANGES]],
        "changes_sha256": sha256_of(sorted([change.kind.value, change.left, change.right] for change in changed)),
        "similarity": alike,
        "similarity_reason": alike_reason,
        "rouge_l": rouge_l(shown.left.answer.text, shown.right.answer.text) if alike is not None else None,
        "rouge_l_reason": alike_reason,
        **_cosine(shown),
        "divergence": shown.divergence.to_json() if shown.divergence else None,
        "by_round": [
            {
                "round": pair.round,
                "class": pair.judged.answer_class.value,
                "reason": pair.judged.reason,
                "cut": pair.judged.cut,
                "statuses": [pair.left.answer.status.value, pair.right.answer.status.value],
            }
            for pair in one.pairs
        ],
        "contract": contract,
        "degenerate": _shares(one, lambda reading: reading.degeneration is not None),
        "cap_hits": _shares(one, lambda reading: reading.cut),
        "tokens": {
            "baseline": sum(pair.left.answer.completion_tokens or 0 for pair in one.pairs),
            "candidate": sum(pair.right.answer.completion_tokens or 0 for pair in one.pairs),
        },
        "noise": {
            arm: pair.judged.answer_class.value if pair else None
            for arm, pair in zip(("baseline", "candidate"), one.noise, strict=True)
        },
        "beyond_noise": beyond,
        "stable_fact_change": stable,
        "unread": stable and not settled,
    }


def importance(item: dict[str, Json]) -> tuple[int, int, float, str]:
    """Return a sort key for the reading queue: contracts first, then the ladder, then the least alike; unknown is least.

    Alike is by the embedding model's cosine where there is one, else by the ratio of equal characters.
    """
    states = (ContractState.CONFIRMED.value, ContractState.UNSTABLE.value)
    state = item["contract"]["state"] if item["contract"] else ""
    alike = item["similarity"] if item.get("cosine") is None else item["cosine"]
    return (
        states.index(state) if state in states else len(states),
        SERIOUSNESS.index(AnswerClass(item["class"])),
        -1.0 if alike is None else alike,
        item["prompt_id"],
    )


def _similarity(pair: Pair) -> tuple[float | None, str | None]:
    if not pair.left.answered or not pair.right.answered:
        return None, "one side has no answer"
    alike = similarity(pair.left.answer.text, pair.right.answer.text)
    return alike, None if alike is not None else "too long to compare"


def _cosine(pair: Pair) -> dict[str, Json]:
    cosine, reason = pair.right.answer.cosine, pair.right.answer.cosine_reason
    return {"cosine": cosine, "cosine_reason": None if cosine is not None else reason or NOT_ASKED}


def _contract(one: Prompted, confirm_rounds: int) -> dict[str, Json] | None:
    if not one.prompt.expect:
        return None
    baseline, candidate = counts([pair.left for pair in one.pairs]), counts([pair.right for pair in one.pairs])
    reasons = [pair.right.contract.why for pair in one.pairs if pair.right.kept() is not True and pair.right.contract]
    return {
        "kinds": sorted(one.prompt.expect),
        "state": contract_state(baseline, candidate, confirm_rounds).value,
        "baseline": baseline.to_json(),
        "candidate": candidate.to_json(),
        "why": reasons[0] if reasons else "",
    }


def _shares(one: Prompted, holds: Callable[[Reading], bool]) -> dict[str, float | None]:
    """Return, of each arm's answered rounds, the share of which something holds."""
    return {
        "baseline": share([pair.left for pair in one.pairs], holds),
        "candidate": share([pair.right for pair in one.pairs], holds),
    }


def _stable_fact_change(one: Prompted) -> bool:
    """Facts change between the arms in every round, and neither arm changes any between its own rounds."""
    steady = {*SAME, AnswerClass.WORDING}
    own = [pair is not None and pair.judged.answer_class in steady for pair in one.noise]
    return all(own) and all(pair.judged.answer_class is AnswerClass.CHANGED_FACT for pair in one.pairs)


def _beyond_noise(one: Prompted) -> bool:
    """Each arm agrees with itself, and they differ from each other in every round."""
    own = [pair is not None and pair.judged.answer_class in SAME for pair in one.noise]
    unequal = [pair.judged.answer_class not in {*SAME, AnswerClass.NOT_COMPARABLE} for pair in one.pairs]
    return all(own) and all(unequal)
