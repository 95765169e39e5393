"""The lines that a comment of ours begins with, which no reader sees: whose it is, and what it shows.

    <!-- servegate:GATE -->
    <!-- servegate-run: COMMIT RUN.ATTEMPT -->
    <!-- servegate-evidence: EVIDENCE [since TIME] -->      only of a run that was judged

EVIDENCE is the sha256 over the run's evidence, so that an acceptance can be held against what its author had before them.
TIME is when that evidence was first shown, by GitHub's clock. It is written only when a comment is drawn again from the same
evidence, since until then it is the comment's own `updated_at`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from github.IssueComment import IssueComment

from servegate.publish.event import Run

_LINES = re.compile(
    r"<!-- servegate:(?P<gate>[a-z0-9-]{1,40}) -->\r?\n"
    r"<!-- servegate-run: (?P<head>[0-9a-f]{1,64}) (?P<id>[0-9]{1,20})\.(?P<attempt>[0-9]{1,9}) -->"
    r"(?:\r?\n<!-- servegate-evidence: (?P<evidence>[0-9a-f]{64})"
    r"(?: since (?P<since>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z))? -->)?"
)
_TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Shown:
    """What a comment of ours shows. `since` is None when its evidence was shown once only, at the comment's last change."""

    gate: str
    head: str
    run: Run
    evidence: str | None = None
    since: datetime | None = None

    def lines(self) -> str:
        """Return the lines, each ended."""
        run = f"<!-- servegate-run: {self.head} {self.run.id}.{self.run.attempt} -->\n"
        since = f" since {self.since.astimezone(UTC).strftime(_TIME)}" if self.since else ""
        evidence = f"<!-- servegate-evidence: {self.evidence}{since} -->\n" if self.evidence else ""
        return f"{marker(self.gate)}\n{run}{evidence}"


def marker(gate: str) -> str:
    """Return the hidden line that a gate's comment starts with."""
    return f"<!-- servegate:{gate} -->"


def written_by(comment: IssueComment, login: str) -> bool:
    """Whether a comment is of that account; one whose author is gone is nobody's."""
    return comment.user is not None and comment.user.login == login


def shown_by(body: str | None) -> Shown | None:
    """Return what a comment of ours shows; None when its first lines are not ours."""
    found = _LINES.match(body or "")
    if found is None:
        return None
    try:
        since = datetime.strptime(found["since"], _TIME).replace(tzinfo=UTC) if found["since"] else None
    except ValueError:  # the thirtieth of February
        return None
    return Shown(found["gate"], found["head"], Run(int(found["id"]), int(found["attempt"])), found["evidence"], since)


@dataclass(frozen=True)
class Body:
    """A comment's body: the hidden lines, the text (its own marker, if it has one, is not repeated), and where to look."""

    shown: Shown
    text: str
    run_url: str

    def made(self, since: datetime | None = None) -> str:
        """Return it. `since`: when this evidence was first shown, where it was shown before."""
        shown, run = replace(self.shown, since=since), self.shown.run
        where = f"[run {run.id}, attempt {run.attempt}]({self.run_url})"
        tested = f"<sub>Tested commit <code>{shown.head[:12]}</code> in {where}, which keeps the run directory.</sub>"
        text = self.text.removeprefix(marker(shown.gate)).strip()
        return f"{shown.lines()}{text}\n\n{tested}\n"
