"""What became of every serving config that a pull request changes, as one short comment.

It is read on a phone, between two things, so it is a list: the last column of a table is off that screen. What was not
measured stands above what was, with its reason, so that a green line can not hide a missing one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from servegate.domain.judgement import Outcome, worst
from servegate.report.filters import code, told
from servegate.report.visible import cut
from servegate.report.words import OUTCOMES

MOST_ROWS = (40, 20, 10)
"""Lines from many to few; the first text within `MOST_BYTES` is taken. Paths of nothing but escapes are six times as long."""
MOST_BYTES = 60_000


@dataclass(frozen=True)
class Row:
    """One changed serving config: its path, its outcome, and the headline or the reason for which it was not measured."""

    path: str
    outcome: Outcome
    said: str
    measured: bool


def overall(rows: Sequence[Row]) -> tuple[Outcome, str]:
    """Return the outcome over all, and one sentence; of nothing, REVIEW: not evaluated is no pass."""
    if not rows:
        return Outcome.REVIEW, "not evaluated: no serving config changed"
    left = [row for row in rows if not row.measured]
    outcome = worst(tuple(row.outcome for row in rows))
    if left:
        return outcome, f"{len(left)} of {len(rows)} changed serving configs were not measured: {left[0].path}: {left[0].said}"
    deciding = next(row for row in rows if row.outcome is outcome)
    return outcome, f"{deciding.path}: {deciding.said}" if len(rows) > 1 else deciding.said


def overview(rows: Sequence[Row], rules_changed: Sequence[str], commits: Mapping[str, str]) -> bytes:
    """Return the comment, within `MOST_BYTES`. `commits`: `base` and `head`."""
    content = b""
    for most in MOST_ROWS:
        content = _overview(rows, rules_changed, commits, most)
        if len(content) <= MOST_BYTES:
            break
    return content


def _overview(rows: Sequence[Row], rules_changed: Sequence[str], commits: Mapping[str, str], most: int) -> bytes:
    outcome, headline = overall(rows)
    word = OUTCOMES[outcome]
    lines = [
        f"## {word.symbol} {word.word}: serving configs of this pull request",
        "",
        f"**{told(cut(headline, 400))}**",
        "",
    ]
    if rules_changed:
        named = ", ".join(str(code(cut(path, 80))) for path in rules_changed[:10])
        lines += [
            f"**This pull request changes the rules by which it is judged** ({named}). The base branch's rules judged.",
            "",
        ]
    for row in sorted(rows, key=lambda each: (each.measured, each.path))[:most]:
        shown = OUTCOMES[row.outcome]
        what = shown.word if row.measured else "not measured"
        lines.append(f"- {shown.symbol} **{what}** {code(cut(row.path, 120))}: {told(cut(row.said, 160))}")
    if len(rows) > most:
        lines.append(f"- … and {len(rows) - most} more")
    lines += ["", f"<sub>Compared {code(commits['base'][:12])} with {code(commits['head'][:12])}.</sub>", ""]
    return "\n".join(lines).encode("utf-8", "replace")
