"""The rule of thumb that many use, computed beside the policy for comparison; it decides nothing.

"Ship it when accuracy is within one standard error and the flips are at most twice the baseline's own." Its error rates
come from `benchmarks/old_rule.py` (1,319 questions, a baseline that flips 5 % of its own answers, 2.5 % changed for good).
"""

from __future__ import annotations

import math

from servegate.checks.accuracy.contrast import Contrast, summed
from servegate.domain.judgement import Comparison

RATES = (
    "the rule of thumb stops 14 % of harmless candidates (63 % where 5 % of the answers changed for good, as often for the "
    "better as for the worse) and ships 52 % of those that lost 1 point, 11 % of those that lost 2 "
    "(simulated: benchmarks/old_rule.py)"
)
"""As `python benchmarks/old_rule.py` prints them for 4,000 gates."""


def within_old_rule(baseline: float, candidate: float, n: int, flips: float, own_flips: float) -> bool:
    """Return whether the rule says "ship it"; accuracies are shares, `flips` and `own_flips` counts of one round."""
    standard_error = math.sqrt(baseline * (1 - baseline) / n)
    return abs(baseline - candidate) <= standard_error and flips <= 2 * own_flips


def old_rule(comparison: Comparison, between: Contrast) -> str:
    """Return what the rule says of this run, in a sentence."""
    own = comparison.noise.baseline if comparison.noise is not None else None
    if own is None or not between.rounds or not between.rounds[0].n:
        return "not computed: it needs a second round of the baseline"
    noise, first = Contrast.model_validate(own), between.rounds[0]
    if not noise.rounds:
        return "not computed: it needs a second round of the baseline"
    own_flips = summed(noise.rounds, "flipped") / len(noise.rounds)
    right = first.both_right + first.right_to_wrong, first.both_right + first.wrong_to_right
    passes = within_old_rule(right[0] / first.n, right[1] / first.n, first.n, first.flipped, own_flips)
    return f"{'would ship' if passes else 'would not ship'}: {first.flipped} flips in round 1, {own_flips:g} of its own"
