"""The row of the table of decisions: accuracy of both arms with its interval, and the drop."""

from __future__ import annotations

from servegate.checks.accuracy.contrast import Contrast
from servegate.checks.accuracy.record import AccuracyMeasurement
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.contract import Evidence
from servegate.domain.deciding import ArmValue, Figures, measured_or
from servegate.domain.judgement import Comparison
from servegate.domain.records import Json


def figures(
    comparison: Comparison,
    evidence: Evidence[AccuracyMeasurement],  # noqa: ARG001 - the comparison says it all
    settings: AccuracySettings,  # noqa: ARG001 - limits are no measurement
) -> tuple[Figures, ...]:
    """Return accuracy over the questions that both arms answered."""
    drop = comparison.estimates.get("drop")
    between = Contrast.model_validate(comparison.candidate)
    tasks = ", ".join(task.task for task in between.tasks)
    noise = comparison.noise
    said = ""
    if drop is not None and drop.low is not None and drop.high is not None:
        # Subtracted from 0.0 and not negated, since -0.0 would print a sign.
        change, low, high = 0.0 - drop.value, 0.0 - drop.high, 0.0 - drop.low
        said = f"{change:+.2f} points ({100 * drop.level:.0f} % {low:+.2f} to {high:+.2f})".replace("-", "−")
    return (
        Figures(
            key="accuracy",
            about=tasks[:120],
            baseline=_arm(comparison, "baseline", noise.baseline if noise else None),
            candidate=_arm(comparison, "candidate", noise.candidate if noise else None),
            difference=said,
        ),
    )


def _arm(comparison: Comparison, name: str, own: dict[str, Json] | None) -> ArmValue:
    """Return one arm's accuracy; `own` is the arm against itself."""
    estimate = comparison.estimates.get(f"accuracy_{name}")
    if estimate is None:
        return measured_or(None, "no question was answered by both arms", "")
    known = estimate.low is not None and estimate.high is not None
    interval = f"{100 * estimate.level:.0f} % {estimate.low:.2f} to {estimate.high:.2f}" if known else "no interval"
    share = Contrast.model_validate(own).discordance if own else None
    itself = "" if share is None else f"; {100 * share:.1f} % of answers flip against itself"
    return measured_or(estimate.value, None, f"{interval}, n = {estimate.n:,}{itself}")
