"""The numbers of the accuracy section and the figure of its intervals."""

from __future__ import annotations

from servegate.checks.accuracy.contrast import Contrast, Validity
from servegate.checks.accuracy.old_rule import RATES, old_rule
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.domain.blocks import Fact, Facts, Figure, Point, Series
from servegate.domain.judgement import Comparison, Estimate


def facts(comparison: Comparison, between: Contrast, validity: Validity, settings: AccuracySettings) -> Facts:
    """Return the numbers of a comparison, each with what it is held against."""
    estimates = comparison.estimates
    lines = [
        Fact(name="Baseline accuracy", value=_with_interval(estimates["accuracy_baseline"], "%"), note="95 % interval"),
        Fact(name="Candidate accuracy", value=_with_interval(estimates["accuracy_candidate"], "%"), note="95 % interval"),
        Fact(
            name="Drop, at most",
            value=f"{estimates['drop'].high:.2f} points",
            note=f"95 %, one-sided; PASS below {settings.limits.pass_drop_points:g}",
        ),
        Fact(
            name="Drop, at least",
            value=f"{estimates['drop_99'].low:.2f} points",
            note=f"99 %, one-sided; FAIL above {settings.limits.fail_drop_points:g}",
        ),
        Fact(
            name="Drop, at most, doubtful answers against the candidate",
            value=f"{estimates['drop_against_candidate'].high:.2f} points",
            note=f"PASS must hold this way too. Never came: baseline {validity.no_answers_baseline} of "
            f"{validity.answers_baseline}, candidate {validity.no_answers_candidate} of {validity.answers_candidate}; cut: "
            f"{validity.cut_baseline} and {validity.cut_candidate}",
        ),
        Fact(
            name="Drop, at least, doubtful answers for the candidate",
            value=f"{estimates['drop_for_candidate_99'].low:.2f} points",
            note="FAIL must hold this way too: no loss that another filter denies",
        ),
        Fact(
            name="Smallest drop this run could see",
            value=f"{estimates['smallest_detectable_drop'].value:.2f} points",
            note=estimates["smallest_detectable_drop"].method,
        ),
        Fact(
            name="Judged filter",
            value=", ".join(sorted(set(validity.judged_filter.values()))),
            note="the others are information",
        ),
        Fact(name="Rule of thumb (1 SE, flips at most twice the own)", value=old_rule(comparison, between), note=RATES),
        Fact(name="Distinct questions", value=validity.distinct_questions, note=f"PASS needs {settings.limits.smallest_n:,}"),
    ]
    tango = estimates.get("drop_tango")
    if tango is not None:
        lines.append(Fact(name="Drop, Tango's interval", value=_with_interval(tango, "points"), note="90 %; one round"))
        lines.append(Fact(name="McNemar, exact, two-sided p", value=between.rounds[0].mcnemar_p, note="one round; information"))
    return Facts(facts=tuple(lines))


def _with_interval(estimate: Estimate, unit: str) -> str:
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f} {unit}"
    return f"{estimate.value:.2f} {unit} ({estimate.low:.2f} to {estimate.high:.2f})"


def interval(comparison: Comparison, settings: AccuracySettings) -> Figure:
    """Return the drop with its interval in the readings that decide."""
    drop = comparison.estimates["drop"]
    points = [
        ("doubtful answers left out", drop),
        ("against the candidate", comparison.estimates["drop_against_candidate"]),
        ("for the candidate", comparison.estimates["drop_for_candidate"]),
    ]
    return Figure(
        name="accuracy-drop",
        title="Drop in accuracy with its 90 % interval",
        style="intervals",
        x_label="",
        y_label="drop, percentage points (more is worse)",
        series=(
            Series(
                name="drop",
                role="difference",
                points=tuple(Point(x=name, y=point.value, low=point.low, high=point.high) for name, point in points),
            ),
        ),
        description=(
            f"The drop is {drop.value:.2f} points, interval {drop.low:.2f} to {drop.high:.2f}; "
            f"PASS needs its upper end below {settings.limits.pass_drop_points:g}."
        ),
        reference=settings.limits.pass_drop_points,
    )
