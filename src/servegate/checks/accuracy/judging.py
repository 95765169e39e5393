"""The `standard` policy for accuracy: validity first, then the drop.

PASS: with 95 % confidence the drop is below `pass_drop_points`, on at least `smallest_n` distinct questions, with every
question paired, and no matter how answers that never came are counted. FAIL: with 99 % confidence the drop is above
`fail_drop_points`. Where both hold, a small drop is real and inside the margin, and PASS wins. Everything else is for a
person, with the reason and with what would settle it.
"""

from __future__ import annotations

from servegate.checks.accuracy.comparing import FAIL_ALPHA, PASS_ALPHA, compare
from servegate.checks.accuracy.contrast import RIGHT_TO_WRONG, Contrast, Validity, summed
from servegate.checks.accuracy.record import AccuracyMeasurement
from servegate.checks.accuracy.settings import AccuracySettings, Limits
from servegate.checks.contract import Evidence, finding
from servegate.domain.evidence import NotMeasured
from servegate.domain.judgement import Comparison, EvidenceRef, Finding, Severity
from servegate.stats.intervals import never_seen_bound, questions_needed
from servegate.stats.paired import mcnemar_one_sided

CHECK_NAME = "accuracy"
CATASTROPHE = 12
"""Questions that got worse, with none better, after which a candidate is not measured further."""
MOST_REFS = 100
"""A finding names so many questions; the comparison holds them all."""
ENOUGH_TEXTS = 20
"""So many answers, all equal in both arms, are worth a remark."""


def judge(comparison: Comparison, settings: AccuracySettings) -> tuple[Finding, ...]:
    """Return what is wrong, unclear or worth knowing; none of it blocking means PASS."""
    between = Contrast.model_validate(comparison.candidate)
    validity = between.validity or Validity()
    broken = _harness(comparison, validity)
    gaps = _gaps(comparison, validity, settings.limits)
    if broken or comparison.n == 0:
        return (*broken, *gaps)
    verdict = _drop(comparison, validity, settings.limits)
    return (*verdict, *_smoke(comparison, between, validity, settings.limits), *gaps, *_remarks(between, validity))


def stop(evidence: Evidence[AccuracyMeasurement], settings: AccuracySettings) -> Finding | None:
    """Return the failure when it is a catastrophe: `CATASTROPHE` questions or more got worse, none better, and FAIL holds.

    Under "no difference" that many one-sided flips come once in 2**12 looks (exact sign test), so looking after every
    round costs nothing that matters; a PASS is never declared early.
    """
    comparison = compare(evidence, settings)
    if isinstance(comparison, NotMeasured):
        return None
    validity = Contrast.model_validate(comparison.candidate).validity or Validity()
    if validity.worse_questions < CATASTROPHE or validity.better_questions:
        return None
    return next((item for item in judge(comparison, settings) if item.severity is Severity.FAIL), None)


# -- validity --------------------------------------------------------------------------------------------------


def _harness(comparison: Comparison, validity: Validity) -> tuple[Finding, ...]:
    found: list[Finding] = []
    if validity.arms_differ_in:
        found.append(_finding("asked-differently", Severity.NOT_COMPARABLE,
                              f"the arms were not asked in the same way: {'; '.join(validity.arms_differ_in)}"))  # fmt: skip
    differing = comparison.unpaired.hash_differs
    if differing:
        found.append(
            _finding(
                "other-questions",
                Severity.NOT_COMPARABLE,
                f"{differing} answers belong to another question, reference or prompt in the other arm (hashes differ)",
                rule="answers with different hashes", value=float(differing), operator=">", limit=0.0,
            )
        )  # fmt: skip
    if validity.uniform_score is not None:
        found.append(
            _finding(
                "uniform-score",
                Severity.ERROR,
                f"every answer of both arms scored {validity.uniform_score:.0%}: check the task, the filter and the prompt, "
                "not the candidate",
                rule="accuracy of both arms", value=100 * validity.uniform_score, operator="==",
                limit=100 * validity.uniform_score,
            )
        )  # fmt: skip
    return tuple(found)


def _gaps(comparison: Comparison, validity: Validity, limits: Limits) -> tuple[Finding, ...]:
    """Evidence that is missing: each gap alone withholds PASS."""
    found: list[Finding] = []
    unpaired = comparison.unpaired
    if unpaired.baseline_only or unpaired.candidate_only:
        missing = unpaired.baseline_only + unpaired.candidate_only
        found.append(
            _finding(
                "missing-questions",
                Severity.REVIEW,
                f"{missing} answers have no partner: {unpaired.baseline_only} only in the baseline, "
                f"{unpaired.candidate_only} only in the candidate",
                rule="answers without a partner", value=float(missing), operator=">", limit=0.0,
            )
        )  # fmt: skip
    for arm, lost, answers in (
        ("baseline", validity.no_answers_baseline, validity.answers_baseline),
        ("candidate", validity.no_answers_candidate, validity.answers_candidate),
    ):
        if answers and lost / answers > limits.no_answer_share:
            found.append(
                _finding(
                    f"no-answer-{arm}",
                    Severity.REVIEW,
                    f"{lost} of {answers} answers of the {arm} never came (empty or failed); they are not wrong answers",
                    rule=f"share of answers that never came, {arm}",
                    value=lost / answers, operator=">", limit=limits.no_answer_share,
                )
            )  # fmt: skip
    if comparison.n == 0:
        found.append(_finding("no-pairs", Severity.REVIEW, "no question was answered by both arms, so nothing was compared"))
    return tuple(found)


# -- the drop --------------------------------------------------------------------------------------------------


def _drop(comparison: Comparison, validity: Validity, limits: Limits) -> tuple[Finding, ...]:
    drop, sure = comparison.estimates["drop"], comparison.estimates["drop_99"]
    against = comparison.estimates["drop_against_candidate"]
    if drop.high is None or sure.low is None or against.high is None:
        raise ValueError("the estimates of a drop carry bounds")
    at_most, at_least = drop.high, sure.low
    if at_most < limits.pass_drop_points:
        found = []
        if at_least > limits.fail_drop_points:
            found.append(_finding("small-drop", Severity.INFO,
                                  f"a drop of {drop.value:.2f} points is real (99 %: above {limits.fail_drop_points:g}) "
                                  f"and inside the margin of {limits.pass_drop_points:g}, so it does not block"))  # fmt: skip
        if against.high >= limits.pass_drop_points:
            found.append(
                _finding(
                    "no-answer-decides",
                    Severity.REVIEW,
                    f"without the answers that never came the drop is at most {at_most:.2f} points, with them counted "
                    f"against the candidate at most {against.high:.2f}: PASS must hold both ways",
                    rule="upper 95 % of the drop, answers that never came counted as wrong",
                    value=against.high, operator=">=", limit=limits.pass_drop_points,
                )
            )  # fmt: skip
        return tuple(found)
    smoke = validity.distinct_questions < limits.smallest_n
    exact = mcnemar_one_sided(validity.worse_questions, validity.better_questions)
    if at_least > limits.fail_drop_points and (not smoke or exact <= FAIL_ALPHA):
        return (
            _finding(
                "drop",
                Severity.FAIL,
                f"accuracy fell by {drop.value:.2f} points, with 99 % confidence by more than {at_least:.2f}; "
                f"{validity.worse_questions} questions got worse, {validity.better_questions} better",
                rule="lower 99 % of the drop, points", value=at_least, operator=">", limit=limits.fail_drop_points,
                evidence=_flipped(comparison),
            ),
        )  # fmt: skip
    return (
        _finding(
            "drop-open",
            Severity.REVIEW,
            f"the accuracy drop is {drop.value:.2f} points and may be as much as {at_most:.2f} (PASS needs less than "
            f"{limits.pass_drop_points:g}); {_what_would_settle(comparison, limits)}",
            rule="upper 95 % of the drop, points", value=at_most, operator=">=", limit=limits.pass_drop_points,
            evidence=_flipped(comparison),
        ),
    )  # fmt: skip


def _what_would_settle(comparison: Comparison, limits: Limits) -> str:
    """Say how many more questions like these would decide, whichever way is nearer."""
    drop, sd = comparison.estimates["drop"].value / 100, comparison.estimates["drop_sd"].value / 100
    needed = [
        questions_needed(limits.pass_drop_points / 100 - drop, sd, PASS_ALPHA),
        questions_needed(drop - limits.fail_drop_points / 100, sd, FAIL_ALPHA),
    ]
    total = min(count for count in needed if count is not None)
    more = total - comparison.n
    if more > 0:
        return f"about {more:,} more questions would settle it"
    return "as many questions again would likely settle it"


def _smoke(comparison: Comparison, between: Contrast, validity: Validity, limits: Limits) -> tuple[Finding, ...]:
    n = validity.distinct_questions
    if n >= limits.smallest_n:
        return ()
    detail = ""
    if not any(flips.flipped for flips in between.rounds):
        detail = f"; no flip seen, but up to {never_seen_bound(comparison.n, PASS_ALPHA):.1%} of questions may flip (95 %)"
    return (
        _finding(
            "smoke-test",
            Severity.REVIEW,
            f"smoke test: n={n:,}, cannot PASS (PASS needs {limits.smallest_n:,} distinct questions){detail}",
            rule="distinct questions", value=float(n), operator="<", limit=float(limits.smallest_n),
        ),
    )  # fmt: skip


def _remarks(between: Contrast, validity: Validity) -> tuple[Finding, ...]:
    found: list[Finding] = []
    if between.format_flips:
        found.append(_finding("format-flips", Severity.INFO,
                              f"{between.format_flips} answers changed under another filter only: their form changed, "
                              "not the judged answer"))  # fmt: skip
    suspects = summed(between.rounds, "extraction_suspects")
    if suspects:
        found.append(_finding("extraction-suspects", Severity.INFO,
                              f"{suspects} flips are right under another filter: read those first"))  # fmt: skip
    n = summed(between.rounds, "n")
    if validity.serving_differs and n >= ENOUGH_TEXTS and summed(between.rounds, "same_text") == n:
        found.append(_finding("all-identical", Severity.INFO,
                              f"all {n:,} answers are equal to the last character although the arms are served "
                              "differently: a cache may be shared, or the setting may not be in effect"))  # fmt: skip
    return tuple(found)


def _flipped(comparison: Comparison) -> tuple[EvidenceRef, ...]:
    lost = [item for item in comparison.items if item["kind"] == RIGHT_TO_WRONG]
    return tuple(EvidenceRef(check=CHECK_NAME, id=item["id"], step=item["round"]) for item in lost[:MOST_REFS])


def _finding(code: str, severity: Severity, message: str, *, evidence: tuple[EvidenceRef, ...] = (), **rule: object) -> Finding:
    return finding(CHECK_NAME, code, severity, message, evidence=evidence, **rule)
