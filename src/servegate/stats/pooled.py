"""Many small tables of rounds, one for each prompt: is the candidate's pass rate lower, over all of them together?

Two answers, since rounds of one prompt may be copies of each other (greedy decoding) or independent draws (a near tie).
`mcnemar_one_sided(lost, gained)` counts prompts, which holds however much rounds depend on each other. `stratified_one_sided`
counts rounds, which holds when within a prompt any round could have come from either arm, and sees a loss over few prompts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

MOST_EXACT = 400
"""Tables that are convolved exactly; with more the sum is normal for every purpose here."""


@dataclass(frozen=True)
class Kept:
    """Rounds that kept a contract, of those judged, in the baseline and in the candidate."""

    baseline: int
    baseline_of: int
    candidate: int
    candidate_of: int


def stratified_one_sided(tables: Sequence[Kept]) -> float:
    """Return P(the candidates' kept rounds sum to what was seen or less), given each table's margins.

    The exact conditional test of a common odds ratio over 2 x 2 tables (Birch, J. R. Stat. Soc. B 26 (1964) 313-324;
    its large-sample form is Mantel and Haenszel's): within a table the candidate's count is hypergeometric. 1 when no
    table is informative. Above `MOST_EXACT` tables the normal approximation with continuity correction is used.

    Raises:
        ValueError: counts that are negative or above their number of rounds.
    """
    informative = []
    for table in tables:
        if not (0 <= table.baseline <= table.baseline_of and 0 <= table.candidate <= table.candidate_of):
            raise ValueError(f"counts outside their rounds: {table}")
        total, rounds = table.baseline + table.candidate, table.baseline_of + table.candidate_of
        if table.baseline_of and table.candidate_of and 0 < total < rounds:
            informative.append((rounds, total, table.candidate_of, table.candidate))
    if not informative:
        return 1.0
    seen = sum(each[3] for each in informative)
    if len(informative) > MOST_EXACT:
        mean = sum(draws * total / rounds for rounds, total, draws, _ in informative)
        variance = sum(_variance(rounds, total, draws) for rounds, total, draws, _ in informative)
        return float(ndtr((seen + 0.5 - mean) / math.sqrt(variance)))
    mass = np.ones(1)
    for rounds, total, draws, _ in informative:
        mass = np.convolve(mass, _mass(rounds, total, draws))
    return min(1.0, float(mass[: seen + 1].sum()))


def _mass(rounds: int, total: int, draws: int) -> list[float]:
    """Return P(0), P(1), ... of the rounds kept among `draws` out of `rounds`, of which `total` are kept (hypergeometric).

    Whole numbers up to the last division, so each is the nearest float; `scipy.stats` takes half a second to import.
    """
    ways = math.comb(rounds, draws)
    return [math.comb(total, kept) * math.comb(rounds - total, draws - kept) / ways for kept in range(min(total, draws) + 1)]


def _variance(rounds: int, total: int, draws: int) -> float:
    return draws * total * (rounds - total) * (rounds - draws) / (rounds * rounds * (rounds - 1))
