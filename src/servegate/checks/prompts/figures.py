"""The row of the table of decisions: answers that differ between the arms, beside those in which each differs from itself."""

from __future__ import annotations

from servegate.checks.contract import Evidence
from servegate.checks.prompts.records import PromptsMeasurement
from servegate.checks.prompts.settings import PromptsSettings
from servegate.domain.deciding import ArmValue, Figures
from servegate.domain.judgement import Comparison
from servegate.domain.records import Json


def figures(
    comparison: Comparison,
    evidence: Evidence[PromptsMeasurement],  # noqa: ARG001 - the comparison says it all
    settings: PromptsSettings,  # noqa: ARG001 - limits are no measurement
) -> tuple[Figures, ...]:
    """Return how many answers of a round differ: the baseline's from its own next round, the candidate's from the baseline's.

    What both have more or less of is so the change beyond the baseline's own noise.
    """
    noise = comparison.noise
    unknown = comparison.noise_reason or (noise.reason if noise else None) or "the record does not say why"
    before, own = (noise.baseline, noise.candidate) if noise else (None, None)
    itself = f"from itself: {_of(own)}" if own and own["answered"] else f"its own noise is not known: {unknown}"
    return (
        Figures(
            key="changed",
            about="by one round",
            baseline=_arm(before, "from itself", "two rounds of one engine", unknown),
            candidate=_arm(comparison.candidate, "from the baseline", itself, "no answer came in both arms"),
        ),
    )


def _arm(counted: dict[str, Json] | None, what: str, noise: str, reason: str) -> ArmValue:
    if not counted or not counted["answered"]:
        return ArmValue(value=None, reason=reason)
    return ArmValue(value=100 * counted["differing"] / counted["answered"], noise=noise, said=f"{_of(counted)} {what}")


def _of(counted: dict[str, Json]) -> str:
    return f"{counted['differing']} of {counted['answered']}"
