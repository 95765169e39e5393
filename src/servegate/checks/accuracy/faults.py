"""What must hold before a drop means anything: faults of the harness, and evidence that is missing."""

from __future__ import annotations

from servegate.checks.accuracy.contrast import Validity
from servegate.checks.accuracy.settings import Limits
from servegate.checks.contract import finding
from servegate.domain.judgement import Comparison, EvidenceRef, Finding, Severity

CHECK_NAME = "accuracy"


def made(code: str, severity: Severity, message: str, *, evidence: tuple[EvidenceRef, ...] = (), **rule: object) -> Finding:
    """Return a finding of this check."""
    return finding(CHECK_NAME, code, severity, message, evidence=evidence, **rule)


def harness(comparison: Comparison, validity: Validity) -> tuple[Finding, ...]:
    """Faults that void the comparison, whatever the drop is."""
    found: list[Finding] = []
    if validity.arms_differ_in:
        found.append(made("asked-differently", Severity.NOT_COMPARABLE,
                          f"the arms were not asked in the same way: {'; '.join(validity.arms_differ_in)}"))  # fmt: skip
    differing = comparison.unpaired.hash_differs
    if differing:
        found.append(
            made(
                "other-questions",
                Severity.NOT_COMPARABLE,
                f"{differing} answers belong to another question, reference or prompt in the other arm (hashes differ)",
                rule="answers with different hashes", value=float(differing), operator=">", limit=0.0,
            )
        )  # fmt: skip
    if validity.lower_is_better:
        found.append(made("lower-is-better", Severity.ERROR,
                          f"less is better in the metric of {', '.join(validity.lower_is_better)}, so a drop is no loss: "
                          "set `metric` of the task to another one"))  # fmt: skip
    if validity.scores_outside:
        found.append(made("scores-outside", Severity.ERROR,
                          f"{validity.scores_outside} scores are no share from 0 to 1, so limits in points mean nothing: "
                          "set `metric` of the task to another one",
                          rule="scores outside 0 to 1", value=float(validity.scores_outside), operator=">",
                          limit=0.0))  # fmt: skip
    if validity.uniform_score is not None:
        found.append(
            made(
                "uniform-score",
                Severity.ERROR,
                f"every answer of both arms scored {validity.uniform_score:.0%}: check the task, the filter and the prompt, "
                "not the candidate",
                rule="accuracy of both arms", value=100 * validity.uniform_score, operator="==",
                limit=100 * validity.uniform_score,
            )
        )  # fmt: skip
    return tuple(found)


def gaps(comparison: Comparison, validity: Validity, limits: Limits) -> tuple[Finding, ...]:
    """Evidence that is missing. Missing answers of the candidate are judged by the drop that counts them against it."""
    found: list[Finding] = []
    unpaired = comparison.unpaired
    if unpaired.baseline_only or unpaired.candidate_only:
        missing = unpaired.baseline_only + unpaired.candidate_only
        found.append(
            made(
                "missing-questions",
                Severity.REVIEW,
                f"{missing} answers have no partner: {unpaired.baseline_only} only in the baseline, "
                f"{unpaired.candidate_only} only in the candidate",
                rule="answers without a partner", value=float(missing), operator=">", limit=0.0,
            )
        )  # fmt: skip
    for arm, lost, cut, answers in (
        ("baseline", validity.no_answers_baseline, validity.cut_baseline, validity.answers_baseline),
        ("candidate", validity.no_answers_candidate, validity.cut_candidate, validity.answers_candidate),
    ):
        if not lost and not cut:
            continue
        broken = arm == "baseline" and lost / answers > limits.no_answer_share
        said = [f"{lost} never came (empty or failed)"] if lost else []
        said += [f"{cut} were cut at the limit of `max_tokens`"] if cut else []
        found.append(
            made(
                f"no-answer-{arm}",
                Severity.REVIEW if broken else Severity.INFO,
                f"of {answers} answers of the {arm} {' and '.join(said)}; they are not wrong answers, and "
                "PASS must hold with them left out and counted against the candidate",
                rule=f"share of answers that never came, {arm}" if broken else None,
                value=lost / answers if broken else None, operator=">" if broken else None,
                limit=limits.no_answer_share if broken else None,
            )
        )  # fmt: skip
    if validity.first_tokens_differ:
        found.append(made("other-first-tokens", Severity.REVIEW,
                          f"the engines begin the same prompt with other tokens ({'; '.join(validity.first_tokens_differ)}): a "
                          "token for the beginning of the text is added in one arm only, or the tokenizers differ; a drop may "
                          "come from that"))  # fmt: skip
    if validity.first_tokens_unknown:
        found.append(made("first-tokens-unknown", Severity.INFO,
                          f"how a prompt begins is known of one arm only ({'; '.join(validity.first_tokens_unknown)} did not "
                          "say), so whether both add a token for the beginning of the text is not known"))  # fmt: skip
    if comparison.n == 0:
        found.append(made("no-pairs", Severity.REVIEW, "no question was answered by both arms, so nothing was compared"))
    return tuple(found)
