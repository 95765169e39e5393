"""What an arm's accuracy measurement holds: tasks, every answer as it came, every score with the hashes that pair it.

An answer that never came, or was cut at the limit (`responses[].status`), is kept apart from a wrong one: lm-eval scores
all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from servegate.checks.contract import Inputs
from servegate.domain.evidence import ItemStatus, Measurement, absent
from servegate.domain.records import Record


class TaskInput(Record):
    """Rows of one local task file: {"question": ..., "answer": ...}."""

    task: str
    fewshot: tuple[dict[str, str], ...]
    questions: tuple[dict[str, str], ...]


class AccuracyInputs(Inputs):
    """Rows of the local task files; tasks that lm-eval brings itself have none here."""

    tasks: tuple[TaskInput, ...] = ()


class TaskRecord(Record):
    """How one task was asked; must be equal in both arms. `max_length` is in tokens."""

    task: str
    version: str
    shots: int
    metric: str
    filters: tuple[str, ...]
    judged_filter: str
    max_length: int
    max_tokens: int
    concurrency: int
    add_bos: bool
    seed: int
    lm_eval: str
    higher_is_better: bool | None = None
    """What lm-eval says of the metric; None where it says nothing, as in runs recorded before it was kept."""


class Document(Record):
    """A question and its reference answer, kept once (from round 0) so that a reader can see what was asked."""

    task: str
    doc_id: int
    question: str
    target: str


class Response(Record):
    """One answer as it came."""

    task: str
    round: int
    doc_id: int
    status: ItemStatus
    text: str
    asked: int = 1
    """How often the question was asked in this round: 2 where the first answer did not come."""


class Row(Record):
    """One score: one answer under one filter. The three hashes are lm-eval's own and must be equal in both arms."""

    task: str
    round: int
    doc_id: int
    filter: str
    doc_hash: str
    target_hash: str
    prompt_hash: str
    extracted: str
    score: float

    @property
    def hashes(self) -> tuple[str, str, str]:
        """What must be equal for two rows to be the same question asked in the same words."""
        return self.doc_hash, self.target_hash, self.prompt_hash


class Pass(Record):
    """One run of lm-eval: what was typed and what it warned about."""

    task: str
    round: int
    command: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    first_token_ids: tuple[int, ...] | None = None
    """The first tokens that the engine makes of the first prompt: a beginning-of-text token, or none. None: unknown."""
    repeated: int = 0
    """Attempts at a request that failed and that lm-eval made again; 0 also in runs recorded before they were counted."""


class AccuracyMeasurement(Measurement):
    """One arm's answers and scores."""

    SAMPLES: ClassVar[tuple[str, ...]] = ("responses", "rows", "documents", "passes")

    tasks: tuple[TaskRecord, ...]
    responses: tuple[Response, ...]
    rows: tuple[Row, ...]
    documents: tuple[Document, ...] = ()
    passes: tuple[Pass, ...] = ()

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
