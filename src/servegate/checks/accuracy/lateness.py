"""Answers that are there because somebody asked again: a user asks once.

A question whose answer came empty, null or cut is asked a second time, and lm-eval makes a request that failed (HTTP 500) up to
three times. Both keep one stumble of a server from deciding about a model, and both hide an engine that stumbles often: one
that loses every twentieth answer by chance loses one in four hundred of them twice. So what a second asking mended is counted,
and a candidate that surely needs it more often than the baseline is read by a person.
"""

from __future__ import annotations

from servegate.checks.accuracy.contrast import Validity
from servegate.checks.accuracy.faults import made
from servegate.domain.judgement import Comparison, Finding, Severity
from servegate.stats.proportions import more_often_one_sided

LATE_POINTS = 1.0
"""As for loops (`judging.DEGENERATE_POINTS`): more than one answer in a hundred is no chance event that users forgive."""
ALPHA = 0.05


def late(comparison: Comparison, validity: Validity) -> tuple[Finding, ...]:
    """Return what second askings hide: a REVIEW where the candidate surely needs more of them, else information."""
    return (*_came_late(comparison, validity), *_repeated(validity))


def _came_late(comparison: Comparison, validity: Validity) -> tuple[Finding, ...]:
    if not (validity.late_baseline or validity.late_candidate):
        return ()
    said = (
        f"{validity.late_candidate:,} of {validity.answers_candidate:,} answers of the candidate and "
        f"{validity.late_baseline:,} of {validity.answers_baseline:,} of the baseline came only when they were asked again"
    )
    more = comparison.estimates.get("late_increase")
    if more is None or more.low is None or more.low <= LATE_POINTS:
        return (made("came-late", Severity.INFO, said),)
    return (
        made(
            "late-increase",
            Severity.REVIEW,
            f"{said} (the first were empty, null or cut): a user asks once",
            rule="lower 95 % of the increase of answers that came at the second asking, points", value=more.low, operator=">",
            limit=LATE_POINTS,
        ),
    )  # fmt: skip


def _repeated(validity: Validity) -> tuple[Finding, ...]:
    before, after = validity.repeated_baseline, validity.repeated_candidate
    if not (before or after) or not validity.answers_candidate or not validity.answers_baseline:
        return ()
    more = 100 * (after / validity.answers_candidate - before / validity.answers_baseline)
    said = (
        f"{after:,} attempts at requests of the candidate and {before:,} of the baseline failed and were repeated by lm-eval "
        f"({validity.answers_candidate:,} and {validity.answers_baseline:,} answers)"
    )
    chance = more_often_one_sided(after, validity.answers_candidate, before, validity.answers_baseline)
    if more <= LATE_POINTS or chance > ALPHA:
        return (made("repeated", Severity.INFO, said),)
    return (
        made(
            "repeated-increase",
            Severity.REVIEW,
            f"{said}: a user's request is not made again by itself",
            rule="increase of repeated attempts, per hundred answers", value=more, operator=">", limit=LATE_POINTS,
        ),
    )  # fmt: skip
