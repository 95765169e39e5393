"""A gap between prediction and engine is a finding: explained, it informs; unexplained, it wants a look."""

from __future__ import annotations

from servegate.checks.capacity.explaining import TOLERANCE
from servegate.checks.capacity.record import CapacityContrast
from servegate.checks.capacity.settings import CapacitySettings
from servegate.checks.contract import finding
from servegate.domain.judgement import Comparison, Finding, Severity

CHECK_NAME = "capacity"


def judge(comparison: Comparison, _settings: CapacitySettings) -> tuple[Finding, ...]:
    """Return a finding for every quantity in which the engine's line lies further from the prediction than 5 %."""
    contrast = CapacityContrast.model_validate(comparison.candidate)
    found = []
    for name, arm in contrast.arms:
        for what, reading in arm.readings:
            if reading.gap is None or reading.state not in ("explained", "unexplained"):
                continue
            severity = Severity.INFO if reading.state == "explained" else Severity.REVIEW
            because = f": {reading.explanation}" if reading.explanation else ""
            message = (
                f"{name}, {what}: the engine says {reading.engine:,.2f}, predicted were {reading.predicted:,.2f} "
                f"({reading.gap:+.1%}), {reading.state}{because}"
            )
            found.append(
                finding(
                    CHECK_NAME, f"{reading.state}-gap", severity, message,
                    rule="gap of engine to prediction", value=abs(reading.gap), operator="<=", limit=TOLERANCE,
                )
            )  # fmt: skip
    return tuple(found)
