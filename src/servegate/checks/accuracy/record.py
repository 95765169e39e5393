"""What an arm's accuracy measurement holds: tasks, every answer as it came, every score with the hashes that pair it.

An answer that never came, or was cut at the limit (`responses[].status`), is kept apart from a wrong one: lm-eval scores
all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from pydantic import model_validator

from servegate.checks.contract import Inputs
from servegate.domain.evidence import ItemStatus, Measurement, absent, ensure_single, unplanned
from servegate.domain.records import Count, Positive, Real, Record, Seed


class TaskInput(Record):
    """Rows of one local task file: {"question": ..., "answer": ...}."""

    task: str
    fewshot: tuple[dict[str, str], ...]
    questions: tuple[dict[str, str], ...]


class AccuracyInputs(Inputs):
    """Rows of the local task files; tasks that lm-eval brings itself have none here."""

    tasks: tuple[TaskInput, ...] = ()

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        ensure_single("files of the task", (task.task for task in self.tasks))
        return self


class TaskRecord(Record):
    """How one task was asked; must be equal in both arms. `max_length` is in tokens."""

    task: str
    version: str
    shots: Count
    metric: str
    filters: tuple[str, ...]
    judged_filter: str
    max_length: Count
    max_tokens: Count
    concurrency: Count
    add_bos: bool
    seed: Seed
    lm_eval: str
    higher_is_better: bool | None = None
    """What lm-eval says of the metric; None where it says nothing, as in runs recorded before it was kept."""


class Document(Record):
    """A question and its reference answer, kept once (from round 0) so that a reader can see what was asked."""

    task: str
    doc_id: Count
    question: str
    target: str


class Response(Record):
    """One answer as it came."""

    task: str
    round: Count
    doc_id: Count
    status: ItemStatus
    text: str
    asked: Positive = 1
    """How often the question was asked in this round: 2 where the first answer did not come."""


class Row(Record):
    """One score: one answer under one filter. The three hashes are lm-eval's own and must be equal in both arms."""

    task: str
    round: Count
    doc_id: Count
    filter: str
    doc_hash: str
    target_hash: str
    prompt_hash: str
    extracted: str
    score: Real

    @property
    def hashes(self) -> tuple[str, str, str]:
        """What must be equal for two rows to be the same question asked in the same words."""
        return self.doc_hash, self.target_hash, self.prompt_hash


class Pass(Record):
    """One run of lm-eval: what was typed and what it warned about."""

    task: str
    round: Count
    command: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    first_token_ids: tuple[Count, ...] | None = None
    """The first tokens that the engine makes of the first prompt: a beginning-of-text token, or none. None: unknown."""
    repeated: Count = 0
    """Attempts at a request that failed and that lm-eval made again; 0 also in runs recorded before they were counted."""


class AccuracyMeasurement(Measurement):
    """One arm's answers and scores."""

    SAMPLES: ClassVar[tuple[str, ...]] = ("responses", "rows", "documents", "passes")

    tasks: tuple[TaskRecord, ...]
    responses: tuple[Response, ...]
    rows: tuple[Row, ...]
    documents: tuple[Document, ...] = ()
    passes: tuple[Pass, ...] = ()

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        """Two rows of one question are told where they are paired (`pairing.rounds_of`)."""
        ensure_single("records of the task", (task.task for task in self.tasks))
        ensure_single("answers to", ((one.task, one.doc_id, one.round) for one in self.responses))
        ensure_single("records of the question", ((one.task, one.doc_id) for one in self.documents))
        return self

    def gaps(self, steps: Sequence[int], rounds: int, inputs: Any) -> tuple[str, ...]:
        """Return which questions lack a score or an answer in a planned round.

        A question is known by the record of its document, by any round that has it, and for a local task by its file.
        """
        rows = {(row.task, row.doc_id, row.round, row.filter) for row in self.rows}
        answers = {(one.task, one.doc_id, one.round) for one in self.responses}
        known = {(one.task, one.doc_id) for one in self.documents} | {key[:2] for key in rows} | {key[:2] for key in answers}
        local = inputs.tasks if isinstance(inputs, AccuracyInputs) else ()
        known |= {(task.task, number) for task in local for number in range(len(task.questions))}
        filters = {task.task: task.filters for task in self.tasks}
        questions = [(*question, step) for step in steps for question in sorted(known)]
        return (
            *absent("planned rounds", steps, (row.round for row in self.rows)),
            *absent("planned answers", questions, answers),
            *absent("planned scores", [(*one, name) for one in questions for name in filters.get(one[0], ())], rows),
            *absent("tasks of the answers", (task for task, _ in sorted(known)), filters),
        )

    def surplus(self, steps: Sequence[int], inputs: Any) -> tuple[str, ...]:
        """Return rounds past the last, and questions that a local task's file does not have."""
        local = {task.task: len(task.questions) for task in inputs.tasks} if isinstance(inputs, AccuracyInputs) else {}
        held = {(row.task, row.doc_id) for row in self.rows} | {(one.task, one.doc_id) for one in self.responses}
        rounds = {row.round for row in self.rows} | {one.round for one in self.responses}
        planned = [one for one in held if one[0] not in local or one[1] < local[one[0]]]
        return (
            *unplanned("rounds", sorted(rounds), steps),
            *unplanned(
                "questions", [":".join(map(str, one)) for one in sorted(held)], [":".join(map(str, one)) for one in planned]
            ),
        )
