"""What one check leaves open and another one has answered, settled once all of them are judged.

Twenty-four prompts can not rule out that one answer in a hundred became a loop; the thousand answers of an accuracy check
can. A check sees only its own evidence, so the two are put together here. Nothing is ever made worse, and nothing that was
*seen* is explained away: only "none was seen, but n is small" is settled, and the finding stays, as information.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from servegate.checks.verdict import Judged
from servegate.domain.evidence import NotMeasured
from servegate.domain.judgement import Estimate, Finding, Severity

OPEN = "prompts/increase-not-ruled-out"
"""Code of a finding that says: no increase of broken answers was seen, and so few answers rule out little."""
ANSWERS = ("degenerate_increase", "cut_increase", "lost_increase", "late_increase")
"""Estimates (points) of another check: the increase of loops and soup, of answers that were cut, of those that never came, and
of those that came only when they were asked a second time (a user asks once).
Each is held to the limit by itself: together, loops in place of answers that were merely long would be no change."""
VOID = (Severity.ERROR, Severity.NOT_COMPARABLE)


def settled(results: Mapping[str, Judged]) -> dict[str, Judged]:
    """Return the results with every open question of one check that another check's estimate answers turned to information."""
    return {
        name: replace(result, findings=tuple(_settle(item, name, results) for item in result.findings))
        for name, result in results.items()
    }


def _settle(item: Finding, own: str, results: Mapping[str, Judged]) -> Finding:
    if item.code != OPEN or item.severity is not Severity.REVIEW or item.limit is None:
        return item
    for name, other in results.items():
        answers = () if name == own else _answers(other)
        bounds = [each.high for each in answers if each.high is not None]
        if answers and len(bounds) == len(answers) and max(bounds) < item.limit:
            said = (
                f"{item.message.split(';')[0]}; {name} leaves at most {max(bounds):.2f} points over {answers[0].n} questions "
                f"with answers long enough to tell, under the limit of {item.limit:g}"
            )
            return item.model_copy(update={"severity": Severity.INFO, "message": said})
    return item


def _answers(result: Judged) -> tuple[Estimate, ...]:
    """Return the estimates of a check that was measured in full: one that lost answers answers nothing."""
    if isinstance(result.comparison, NotMeasured) or any(item.severity in VOID for item in result.findings):
        return ()
    if any(item.code.rpartition("/")[2] in {"partial", "planned-missing", "not-planned"} for item in result.findings):
        return ()
    found = [result.comparison.estimates.get(name) for name in ANSWERS]
    return tuple(each for each in found if each is not None) if None not in found else ()
