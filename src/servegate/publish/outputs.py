"""What a later step of the workflow may branch on: words of closed lists, numbers, and paths of ours. No text of anybody else.

A figure that is not known is `not-measured`, never empty and never 0: in a workflow's expression an empty text counts as 0, so
`drop < 1` would hold for a drop that nobody measured, while a text that is no number counts as NaN, with which every
comparison is false (https://docs.github.com/en/actions/reference/workflows-and-actions/expressions#operators).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from servegate.domain.evidence import EngineFacts, NotMeasured
from servegate.domain.judgement import Comparison, Outcome, Severity, Verdict

UNKNOWN = "not-measured"
ARMS = "arms"
"""Findings of this name are about the arms themselves, so that they void every check's figures."""
SPEED = "throughput"
DISBELIEVED = (Outcome.NOT_COMPARABLE, Outcome.ERROR)
"""Outcomes of a check whose figures the gate itself does not believe."""
IMPOSSIBLE = "throughput/above-ceiling"
"""A speed beyond what the card can do was not measured right, whatever its weight in the verdict."""
IN_PART = ("/partial", "/planned-missing")
"""How codes end of a check that was measured in part: its figure is not the one that was planned."""
MOST_CODES = 20
_CODE = re.compile(r"[a-z0-9_]{1,40}/[a-z0-9_-]{1,80}")
_INTERVAL = ("value", "low", "high")
_ESTIMATES = {"accuracy-drop-points": ("accuracy", "drop"), "speed-ratio": ("throughput", "judged_ratio")}
"""Output -> the check and its estimate; `-low` and `-high` are the interval that decides."""
_COUNTS = {
    "changed-answers": ("candidate", "differing"),
    "compared-answers": ("candidate", "answered"),
    "baseline-changed-answers": ("noise", "differing"),
}
"""Output -> whose count of the `prompts` check, by one round; the last is the baseline against itself."""
FIGURES = (
    *(name + end for name in _ESTIMATES for end in ("", "-low", "-high")),
    *_COUNTS,
    "kv-cache-ratio",
)


def figures(
    verdict: Verdict,
    comparisons: Mapping[str, Comparison | NotMeasured],
    engines: Mapping[str, EngineFacts | None],
) -> dict[str, str]:
    """Return every figure in full precision; those that the gate itself does not believe are `not-measured`.

    `accuracy-drop-points` is positive where the candidate is worse; both ratios are candidate / baseline.
    """
    void = _void(verdict)
    valid = {
        name: found
        for name, found in comparisons.items()
        if isinstance(found, Comparison) and not void & {name, ARMS} and not found.candidate.get("not_judged")
    }
    values: dict[str, Any] = {}
    for output, (check, key) in _ESTIMATES.items():
        estimate = valid[check].estimates.get(key) if check in valid else None
        for part, end in zip(_INTERVAL, ("", "-low", "-high"), strict=True):
            values[output + end] = getattr(estimate, part, None)
    prompts = valid.get("prompts")
    counted = {
        "candidate": prompts.candidate if prompts else None,
        "noise": prompts.noise.baseline if prompts and prompts.noise else None,
    }
    for output, (whose, key) in _COUNTS.items():
        values[output] = (counted[whose] or {}).get(key)
    before, after = (engines.get(role) for role in ("baseline", "candidate"))
    if before and after and before.kv_cache_tokens and after.kv_cache_tokens and ARMS not in void:
        values["kv-cache-ratio"] = after.kv_cache_tokens / before.kv_cache_tokens
    return {name: _number(values.get(name)) for name in FIGURES}


def _void(verdict: Verdict) -> set[str]:
    """Return the checks without figures: not comparable, in error, in part; and speed where another check fails.

    Of arms in error (an engine that died, a lost card) no figure is of the whole; a broken candidate is often a fast one.
    """
    found = {
        item.check
        for item in verdict.findings
        if item.severity in (Severity.NOT_COMPARABLE, Severity.ERROR) or item.code.endswith(IN_PART)
    }
    found |= {name for name, check in verdict.checks.items() if check.outcome in DISBELIEVED}
    failed = {item.check for item in verdict.findings if item.severity is Severity.FAIL}
    failed |= {name for name, check in verdict.checks.items() if check.outcome is Outcome.FAIL}
    if failed - {SPEED} or any(item.code == IMPOSSIBLE for item in verdict.findings):
        found.add(SPEED)
    return found


def nothing() -> dict[str, str]:
    """Return every figure as not measured: of no run, or of several, which have no figure in common."""
    return dict.fromkeys(FIGURES, UNKNOWN)


def codes(*verdicts: Verdict) -> str:
    """Return the codes of the findings that kept the verdicts from PASS, the first ones, separated by commas."""
    found = [item.code for verdict in verdicts for item in verdict.findings if item.severity is not Severity.INFO]
    return ",".join(list(dict.fromkeys(code for code in found if _CODE.fullmatch(code)))[:MOST_CODES])


def _number(value: object) -> str:
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return repr(value) if known else UNKNOWN
