"""What a gate config may say about accuracy."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from servegate.checks.laxness import LESS, MORE
from servegate.domain.records import MOST_SEED, Settings

PREFERRED_FILTER = "flexible-extract"
"""Takes the last number of an answer, so a changed format alone does not turn a right answer into a wrong one."""


class Task(Settings):
    """One task: by lm-eval's own name, or rows of a local JSON file."""

    name: str = Field(default="gsm8k", pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]{0,79}$")
    """lm-eval's name of the task; with `file`, a name of your own (the file's name by default)."""
    file: str | None = None
    """A JSON file {"fewshot": [{"question", "answer"}...], "test": [...]}; each answer ends with a line `#### N`."""
    shots: int = Field(default=5, ge=0, le=64)
    """Worked examples before each question."""
    questions: int | Literal["all"] = "all"
    """How many questions, from the first; `all` of them by default."""
    max_tokens: int = Field(default=256, ge=1)
    """Longest answer, in tokens."""
    filter: str | None = None
    """Which of lm-eval's filters is judged; by default `flexible-extract` where the task has it, else its first."""

    metric: str | None = None
    """Which of the task's metrics is judged: one from 0 to 1, more being better; by default `exact_match`, else its first."""
    chance: float = Field(default=0.0, ge=0, lt=1)
    """Share of the questions that guessing gets right: 0.25 where the answer is one of four letters, 0 where it is free."""

    @model_validator(mode="before")
    @classmethod
    def _named_after_its_file(cls, data: Any) -> Any:
        if isinstance(data, dict) and isinstance(data.get("file"), str) and "name" not in data:
            return {**data, "name": cls._name_of(data["file"])}
        return data

    @staticmethod
    def _name_of(file: str) -> str:
        return re.sub(r"[^A-Za-z0-9._-]", "-", PurePosixPath(file).stem).lstrip("-._")[:80] or "local"

    @model_validator(mode="after")
    def _counts_questions(self) -> Self:
        if self.questions != "all" and self.questions < 1:
            raise ValueError(f"questions must be `all` or at least 1, not {self.questions}")
        return self


class Limits(Settings):
    """When a drop passes and when it fails; points are percentage points of accuracy."""

    pass_drop_points: float = Field(default=2.5, gt=0, le=100)
    """PASS needs the drop to be below this with 95 % confidence (one-sided)."""
    fail_drop_points: float = Field(default=0.5, ge=0, le=100)
    """FAIL needs the drop to be above this with 99 % confidence (one-sided)."""
    smallest_n: int = Field(default=500, ge=1)
    """Fewer distinct questions are a smoke test: they may FAIL, they cannot PASS."""
    no_answer_share: float = Field(default=0.005, ge=0, le=1)
    """Largest share of empty or failed answers of the baseline; above it a person decides."""
    margin_share: float = Field(default=0.25, gt=0, le=1)
    """PASS needs a baseline of which `pass_drop_points` are at most this share, counted from `chance`."""
    ceiling_points: float = Field(default=1.0, gt=0, le=100)
    """Near 100 % PASS needs a drop below what the baseline gets wrong, but below no less than this."""

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.fail_drop_points >= self.pass_drop_points:
            raise ValueError(
                f"fail_drop_points ({self.fail_drop_points}) must be below pass_drop_points ({self.pass_drop_points})"
            )
        return self


LAXER = {
    "limits.pass_drop_points": MORE, "limits.fail_drop_points": MORE, "limits.smallest_n": LESS,
    "limits.no_answer_share": MORE, "limits.margin_share": MORE, "limits.ceiling_points": MORE,
}  # fmt: skip
"""Limits that tolerate more when they are larger (`MORE`) or smaller (`LESS`); see `checks.laxness`."""


class AccuracySettings(Settings):
    """Tasks with right answers, asked of both arms in the same words."""

    tasks: tuple[Task, ...] = Field(default=(Task(),), min_length=1)
    """Questions of all tasks are pooled: one drop is judged."""
    concurrency: int = Field(default=64, ge=1, le=4096)
    """Questions in flight; the same in both arms, since batching changes answers."""
    add_bos: bool = False
    """Let lm-eval ask the tokenizer for a beginning-of-text token."""
    seed: int = Field(default=1234, ge=0, le=MOST_SEED)
    """Picks the worked examples; the same in every round and arm."""
    noisy_share: float = Field(default=0.08, ge=0, le=1)
    """Where the baseline flips more of its own answers than this from round to round, both arms get `more_rounds`."""
    more_rounds: int = Field(default=2, ge=0, le=16)
    """Rounds added to each arm where the baseline is noisy; 0 for none."""
    limits: Limits = Limits()

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [task.name for task in self.tasks]
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise ValueError(f"two tasks are called {repeated[0]!r}: give one of them another `name`")
        return self
