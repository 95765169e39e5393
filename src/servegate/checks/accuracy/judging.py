"""The `standard` policy for accuracy: validity first, then the drop.

PASS: with 95 % confidence the drop is below `pass_drop_points`, on at least `smallest_n` distinct questions, with every
question paired, whichever way doubtful answers are counted, of a baseline that can do the tasks. FAIL: with 99 % confidence
the drop is above `fail_drop_points`, with every doubt for the candidate. Where both hold, a small drop is real and inside
the margin, and PASS wins. Everything else is for a person, with the reason and with what would settle it.
"""

from __future__ import annotations

from servegate.checks.accuracy.claims import pooled, smoke, soundness, task_claims
from servegate.checks.accuracy.comparing import compare
from servegate.checks.accuracy.contrast import Contrast, Validity, summed
from servegate.checks.accuracy.faults import gaps, harness, made
from servegate.checks.accuracy.lateness import late
from servegate.checks.accuracy.record import AccuracyMeasurement
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.contract import Evidence
from servegate.domain.evidence import NotMeasured
from servegate.domain.judgement import Comparison, Finding, Severity

CATASTROPHE = 12
"""Questions that got worse, with none better, after which a candidate is not measured further."""
ENOUGH_TEXTS = 20
"""So many answers, all equal in both arms, are worth a remark."""
DEGENERATE_POINTS = 1.0
"""An increase of broken answers that is surely larger is read by a person, however the answers score."""


def judge(comparison: Comparison, settings: AccuracySettings) -> tuple[Finding, ...]:
    """Return what is wrong, unclear or worth knowing; none of it blocking means PASS."""
    between = Contrast.model_validate(comparison.candidate)
    validity, limits = between.validity or Validity(), settings.limits
    broken, missing = harness(comparison, validity), gaps(comparison, validity, limits)
    if broken:
        return (*broken, *missing)
    verdict = (*pooled(comparison, validity, limits), *task_claims(comparison, between, limits))
    if comparison.n == 0:
        return (*verdict, *missing)
    sound = soundness(comparison, between, settings)
    remarks = (*_noise(comparison, validity, settings), *_remarks(between, validity))
    unlike = (*_degenerate(comparison), *late(comparison, validity))
    return (*verdict, *sound, *smoke(comparison, between, validity, limits), *unlike, *missing, *remarks)


def stop(evidence: Evidence[AccuracyMeasurement], settings: AccuracySettings) -> Finding | None:
    """Return the failure when it is a catastrophe: `CATASTROPHE` questions or more got worse, none better, and FAIL holds.

    Under "no difference" that many one-sided flips come once in 2**12 looks (exact sign test), so looking after every
    round, and after the candidate's first questions (`looking`), costs nothing that matters; a PASS is never declared early.
    """
    comparison = compare(evidence, settings)
    if isinstance(comparison, NotMeasured):
        return None
    validity = Contrast.model_validate(comparison.candidate).validity or Validity()
    if validity.worse_questions < CATASTROPHE or validity.better_questions:
        return None
    return next((item for item in judge(comparison, settings) if item.severity is Severity.FAIL), None)


def _degenerate(comparison: Comparison) -> tuple[Finding, ...]:
    """A filter may find the right number in a loop, and what was cut in both arms shows no drop: the texts show it."""
    more = comparison.estimates.get("degenerate_increase")
    if more is None or more.low is None or more.low <= DEGENERATE_POINTS:
        return ()
    return (
        made(
            "degenerate-increase",
            Severity.REVIEW,
            f"the candidate's answers are a loop or a soup of tokens {more.value:.1f} points more often, over {more.n:,} "
            "questions: read them, whatever their scores are",
            rule="lower 95 % of the increase of degenerate answers, points", value=more.low, operator=">",
            limit=DEGENERATE_POINTS,
        ),
    )  # fmt: skip


def _noise(comparison: Comparison, validity: Validity, settings: AccuracySettings) -> tuple[Finding, ...]:
    own = comparison.noise.baseline if comparison.noise is not None else None
    share = Contrast.model_validate(own).discordance if own is not None else None
    if share is None or share <= settings.noisy_share:
        return ()
    said = f"the baseline flips {share:.1%} of its own answers from round to round (more than {settings.noisy_share:.0%})"
    return (made("noisy-baseline", Severity.INFO, f"{said}; {validity.rounds} rounds were asked in each arm"),)


def _remarks(between: Contrast, validity: Validity) -> tuple[Finding, ...]:
    found: list[Finding] = []
    if between.format_flips:
        found.append(made("format-flips", Severity.INFO,
                          f"{between.format_flips} answers changed under another filter only: their form changed, "
                          "not the judged answer"))  # fmt: skip
    suspects, losses = summed(between.rounds, "extraction_suspects"), summed(between.rounds, "suspect_losses")
    if suspects:
        found.append(made("extraction-suspects", Severity.INFO,
                          f"{suspects} flips are right under another filter ({losses} right to wrong): read those first; "
                          "no claim rests on them"))  # fmt: skip
    n = summed(between.rounds, "n")
    if validity.serving_differs and n >= ENOUGH_TEXTS and summed(between.rounds, "same_text") == n:
        found.append(made("all-identical", Severity.INFO,
                          f"all {n:,} answers are equal to the last character although the arms are served "
                          "differently: a cache may be shared, or the setting may not be in effect"))  # fmt: skip
    return tuple(found)
