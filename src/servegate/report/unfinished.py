"""The comment of a run without a verdict: cancelled, out of time, broken off, or never begun.

It takes the place of the comment that an earlier run left, so that yesterday's PASS does not stand over a commit that
nobody measured. What is shown of the record is its stages, which are words and numbers of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from servegate.domain.records import Json
from servegate.report.filters import code, markdown, told
from servegate.report.visible import cut

Ended = Literal["cancelled", "failure", "interrupted", "skipped", "left", "damaged"]
HOW: Mapping[Ended, str] = {
    "cancelled": "the run was cancelled, or its time was up, before there was a verdict",
    "failure": "the run broke off before there was a verdict",
    "interrupted": "the run was killed or lost its machine before there was a verdict",
    "skipped": "the run never began",
    "left": "this serving config was not measured",
    "damaged": "the run directory can not be read",
}
_STATUS: Mapping[str, Ended] = {"cancelled": "cancelled", "failed": "failure"}
MOST_STAGES = 12


def ended_as(status: str) -> Ended:
    """Return how a record whose status is not `complete` ended; one that says `running` was killed while it wrote."""
    return _STATUS.get(status, "interrupted")


def unfinished(gate: str, ended: Ended, stages: Sequence[Json] = (), why: str = "") -> bytes:
    """Return the comment. `stages`: those of run.json; `why`: a better reason than the end, of `left` without its subject."""
    sentence = f"this serving config {why}" if why and ended == "left" else why or HOW[ended]
    lines = [
        f"<!-- servegate:{gate} -->",
        f"## ⏹️ NOT EVALUATED: {code(gate)}",
        "",
        f"**{told(cut(sentence[:1].upper() + sentence[1:], 400))}.**",
        "",
        "This says nothing about the change, for it or against it. A verdict that stood here before was about another run "
        "and does not hold for this one. Run the gate again to get one.",
        "",
    ]
    done = [each for each in stages if isinstance(each, dict)]
    lines += [f"- {markdown(_stage(each))}" for each in done[-MOST_STAGES:]]
    if stages and not done:
        lines.append("- the record of what was done is damaged")
    return "\n".join([*lines, ""]).encode("utf-8", "replace")


def headline(ended: Ended, why: str = "") -> str:
    """Return the one sentence: it begins so that nobody reads it as a result."""
    return f"not evaluated: {why or HOW[ended]}"


def _stage(stage: dict[str, Json]) -> str:
    words = [cut(str(stage[key]), 40) for key in ("arm", "stage", "check") if stage.get(key)]
    seconds = stage.get("seconds")
    took = f", {seconds:.0f} s" if isinstance(seconds, int | float) and not isinstance(seconds, bool) else ""
    return f"{' '.join(words)}: {cut(str(stage.get('outcome') or 'done'), 40)}{took}"
