"""Whether a baseline is so noisy that two rounds say too little.

Where a server flips 13.4 % of its own answers from round to round, a candidate that lost half a point passes 75 to 79 % of the
time on two rounds and 88 to 94 % on four (`benchmarks/policy_curve.py --discordance 13.4`, 1,500 gates, both assumptions). The
rule looks at the baseline against itself and at nothing else: rounds that were added because of the difference between the arms
would bias it.
"""

from __future__ import annotations

from servegate.checks.accuracy.contrast import contrast
from servegate.checks.accuracy.pairing import pair_with_itself, rounds_of
from servegate.checks.accuracy.record import AccuracyMeasurement
from servegate.checks.accuracy.settings import AccuracySettings


def more(baseline: AccuracyMeasurement, settings: AccuracySettings, planned: int) -> int:
    """Return how many rounds both arms get beyond those planned; only the baseline's planned rounds are looked at."""
    rows = tuple(row for row in baseline.rows if row.round < planned)
    responses = tuple(response for response in baseline.responses if response.round < planned)
    rounds = pair_with_itself(rounds_of(baseline.model_copy(update={"rows": rows, "responses": responses})))
    share = contrast(rounds, {task.task: task.judged_filter for task in baseline.tasks}).discordance
    return settings.more_rounds if share is not None and share > settings.noisy_share else 0
