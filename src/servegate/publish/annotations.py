"""Notes on the changed lines of the serving config, so that the verdict stands beside what caused it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from servegate.domain.arms import Role
from servegate.domain.judgement import Outcome, Verdict
from servegate.domain.plan import Plan
from servegate.errors import UsageError
from servegate.publish.workflow_commands import Level, command, one_line
from servegate.text import strict_yaml

_LEVELS: dict[Outcome, Literal["notice", "warning", "failure"]] = {Outcome.PASS: "notice", Outcome.REVIEW: "warning"}


@dataclass(frozen=True)
class Annotation:
    """One note on one line of a file of the repository."""

    path: str
    line: int
    level: Literal["notice", "warning", "failure"]
    message: str

    def to_github(self) -> dict[str, str | int]:
        """Return it as the API of check runs takes it."""
        return {
            "path": self.path,
            "start_line": self.line,
            "end_line": self.line,
            "annotation_level": self.level,
            "message": self.message,
            "title": "servegate",
        }

    def to_command(self) -> str:
        """Return it as a command to the runner, for where no check run can be written."""
        level: Level = "error" if self.level == "failure" else self.level
        return command(level, self.message, title="servegate", file=self.path, line=self.line)


def annotations_of(plan: Plan, verdict: Verdict) -> tuple[Annotation, ...]:
    """Return a note for each knob that the pull request's file sets, or one on its first line; none away from git."""
    if plan.origin is None:
        return ()
    path, inside, _ = plan.origin.candidate_path.partition(" (")
    level = _LEVELS.get(verdict.outcome, "failure")
    lines = {} if inside else _lines(plan.arms[Role.CANDIDATE].config.text)
    found = {}
    for knob in plan.knobs:
        name = knob.name.removeprefix("no-")
        line = next((lines[key] for key in (name, f"no-{name}") if key in lines), None)
        if line is not None:
            change = f"{_shown(knob.baseline)} -> {_shown(knob.candidate)}"
            message = one_line(f"{verdict.outcome.value}: {verdict.headline} ({name}: {change})", 600)
            found[line] = Annotation(path, line, level, message)
    whole = Annotation(path, 1, level, one_line(f"{verdict.outcome.value}: {verdict.headline}", 600))
    return tuple(found[line] for line in sorted(found)) or (whole,)


def _lines(text: str) -> dict[str, int]:
    try:
        document = strict_yaml.load(text, "serving.yaml")
    except UsageError:
        return {}
    return {str(key[0]).replace("_", "-"): line for key, line in document.lines.items() if len(key) == 1}


def _shown(value: object) -> str:
    return "not set" if value is None else str(value)[:80]
