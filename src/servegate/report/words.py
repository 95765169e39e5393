"""The report's own words: what an outcome is called, what it means, and how to read the numbers."""

from __future__ import annotations

from dataclasses import dataclass

from servegate.domain.judgement import PRECEDENCE, Outcome, Severity


@dataclass(frozen=True)
class Word:
    """An outcome or severity in words; `key` picks its colour, `symbol` stands in for the colour in plain Markdown."""

    key: str
    word: str
    symbol: str
    meaning: str


OUTCOMES = {
    Outcome.PASS: Word("pass", "PASS", "✅", "Every required check measured both arms in full and found no damage."),
    Outcome.REVIEW: Word(
        "review",
        "REVIEW",
        "🟡",
        "Not proven harmless and not proven harmful: a person has to read what is listed, or measure more.",
    ),
    Outcome.FAIL: Word("fail", "FAIL", "❌", "The candidate is worse, beyond both arms' own noise and the limit that was set."),
    Outcome.NOT_COMPARABLE: Word(
        "not-comparable",
        "NOT COMPARABLE",
        "🚫",
        "The arms differ in more than the change under test, so no number here judges it.",
    ),
    Outcome.ERROR: Word(
        "error", "ERROR", "⚠️", "An engine or the harness broke. This says nothing about the quality of the candidate."
    ),
}

INFO = Word("info", "note", "·", "Worth knowing; never changes an outcome.")

NOT_JUDGED = Word(
    "info", "not judged", "⚪", "It was measured and is shown; why nothing is claimed from it stands under Findings."
)

HOW_TO_READ = (
    (
        "A verdict is scoped",
        "It holds for the GPU, driver, engine version and kernels named at the top. Another card or another engine version "
        "selects other kernels and has to be measured again.",
    ),
    (
        "Noise stands beside every comparison",
        "Each arm is measured more than once and compared with itself. A difference between the arms counts only as far as "
        "it exceeds what an arm differs from itself.",
    ),
    (
        "n is the number of paired samples",
        "Samples are paired by id and content hash. Whatever could not be paired, timed out, was cut off or failed is counted "
        "apart and blocks a PASS; it is never counted as equal or as wrong.",
    ),
    (
        "Intervals, not points",
        "A value such as 0.8 [−0.4, 2.1] means that the data do not tell apart anything between −0.4 and 2.1. A gate passes "
        "when the bad end of the interval is inside its limit.",
    ),
    (
        "Order of judgement",
        "First whether the arms may be compared at all, then quality, then speed. A gain in speed never outweighs a loss "
        "in quality.",
    ),
)


def severity_word(severity: Severity) -> Word:
    """Return the word of a finding's severity."""
    return INFO if severity is Severity.INFO else OUTCOMES[Outcome(severity.value)]


def severity_rank(severity: Severity) -> int:
    """Return a sort key: what decides first, notes last."""
    return len(PRECEDENCE) if severity is Severity.INFO else PRECEDENCE.index(Outcome(severity.value))
