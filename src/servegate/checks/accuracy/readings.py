"""One drop per question, read in three ways, because some answers are neither right nor wrong.

    LEFT_OUT   what came whole, as the judged filter scores it. The headline.
    AGAINST    every doubt against the candidate: an answer that it did not give, or not in full, counts as wrong, one that only
               the baseline did not give counts as right, and a gain that another filter denies is no gain.
    FOR        every doubt for the candidate: a loss that another filter denies is no loss. An answer that was cut at the limit
               counts as it was scored, since a candidate that rambles until it is cut has said what it had to say;
               one that never came stays out.

PASS must hold under LEFT_OUT and AGAINST, FAIL under FOR. A question that neither arm answered shows no change, unless the
baseline's answer was cut and scored better: AGAINST is never kinder to the candidate than FOR.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum

from servegate.checks.accuracy.kinds import is_extraction_suspect
from servegate.checks.accuracy.pairing import Pair, PairedRound, Question


class Reading(Enum):
    """Who gets the benefit of the doubt."""

    LEFT_OUT = "left out"
    AGAINST = "against the candidate"
    FOR = "for the candidate"


def drops(rounds: Iterable[PairedRound], judged: Mapping[str, str], reading: Reading) -> dict[Question, float]:
    """Return, per question, mean(baseline score) - mean(candidate score) over the rounds that count, in [-1, 1]."""
    found: dict[Question, list[float]] = {}
    for paired in rounds:
        for pair in paired.pairs:
            value = _difference(pair, judged[pair.task], reading)
            if value is not None:
                found.setdefault(pair.question, []).append(value)
    return {question: sum(values) / len(values) for question, values in found.items()}


def _difference(pair: Pair, name: str, reading: Reading) -> float | None:
    """Return the drop of one pair; None when it does not count under this reading."""
    if pair.both_came:
        drop = pair.left.score(name) - pair.right.score(name)
        doubted = (reading is Reading.AGAINST and drop < 0) or (reading is Reading.FOR and drop > 0)
        return 0.0 if doubted and is_extraction_suspect(pair, name) else drop
    if reading is Reading.FOR:
        whole = all(answer.came or answer.cut for answer in (pair.left, pair.right))
        return pair.left.score(name) - pair.right.score(name) if whole else None
    if reading is Reading.LEFT_OUT:
        return None
    if pair.left.came:
        return pair.left.score(name)
    if pair.right.came:
        return 1.0 - pair.right.score(name)
    if pair.left.cut:
        return max(0.0, pair.left.score(name) - (pair.right.score(name) if pair.right.cut else 0.0))
    return 0.0
