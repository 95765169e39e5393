"""Asks one arm every question once: one step is one round over all tasks."""

from __future__ import annotations

import re

from servegate.checks.accuracy.record import (
    AccuracyInputs,
    AccuracyMeasurement,
    Document,
    Pass,
    Response,
    Row,
    TaskInput,
    TaskRecord,
)
from servegate.checks.accuracy.settings import PREFERRED_FILTER, AccuracySettings, Task
from servegate.checks.contract import Inputs, MeasureContext
from servegate.domain.evidence import ItemStatus
from servegate.domain.workload import EvaluatedRow, Evaluation, EvaluationSpec
from servegate.errors import MeasurementError
from servegate.ports import Probes


def items(settings: AccuracySettings, inputs: Inputs | None) -> int | None:
    """Return how many questions a round has, or None when a task of unknown length is asked in full."""
    counts = [_length(task, _rows_of(task, inputs)) for task in settings.tasks]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def measure(probes: Probes, settings: AccuracySettings, context: MeasureContext[AccuracyMeasurement]) -> AccuracyMeasurement:
    """Run one round. Raises MeasurementError when lm-eval fails or the context length is unknown."""
    evaluated = []
    for position, task in enumerate(settings.tasks):
        spec = _spec(position, task, settings, context)
        evaluation = probes.evaluator.evaluate(spec)
        context.advance(len({row.doc_id for row in evaluation.rows}))
        evaluated.append((task, spec, evaluation))
    return AccuracyMeasurement(
        tasks=tuple(_record(task, spec, evaluation) for task, spec, evaluation in evaluated),
        responses=tuple(
            response for task, _, evaluation in evaluated for response in _responses(task, evaluation, context.step)
        ),
        rows=tuple(_row(task, row, context.step) for task, _, evaluation in evaluated for row in evaluation.rows),
        documents=tuple(
            document
            for task, _, evaluation in evaluated
            for document in (_documents(task, evaluation) if context.step == 0 else ())
        ),
        passes=tuple(
            Pass(task=task.name, round=context.step, command=evaluation.command, warnings=evaluation.warnings)
            for task, _, evaluation in evaluated
        ),
    )


def _spec(
    position: int, task: Task, settings: AccuracySettings, context: MeasureContext[AccuracyMeasurement]
) -> EvaluationSpec:
    rows = _rows_of(task, context.inputs)
    return EvaluationSpec(
        task=task.name,
        shots=task.shots,
        fewshot=rows.fewshot if rows else (),
        questions=rows.questions if rows else (),
        limit=task.questions if rows is None and task.questions != "all" else None,
        max_tokens=task.max_tokens,
        concurrency=settings.concurrency,
        max_length=_max_length(task, context),
        add_bos=settings.add_bos,
        seed=settings.seed,
        label=f"{position}-{re.sub('[^a-z0-9]+', '-', task.name.lower())}-round-{context.step}",
    )


def _max_length(task: Task, context: MeasureContext[AccuracyMeasurement]) -> int:
    """Return the context length to tell lm-eval, which otherwise assumes 2,048 and silently cuts worked examples off.

    The candidate is told the baseline's: a candidate with a shorter context then answers an error instead of quietly
    being asked an easier or harder question.
    """
    if context.baseline is not None:
        known = {record.task: record.max_length for record in context.baseline.tasks}
        if task.name in known:
            return known[task.name]
    if context.engine.max_model_len is None:
        raise MeasurementError(
            "accuracy: the engine's context length is unknown, so lm-eval might cut worked examples off unseen",
            why=context.engine.max_model_len_reason or "",
            advice="Set `max-model-len` in the serving config.",
        )
    return context.engine.max_model_len


def _rows_of(task: Task, inputs: Inputs | None) -> TaskInput | None:
    if task.file is None:
        return None
    found = [rows for rows in inputs.tasks if rows.task == task.name] if isinstance(inputs, AccuracyInputs) else []
    if not found:
        raise MeasurementError(
            f"accuracy: the rows of {task.file} were not loaded", advice="Measure again from the gate config."
        )
    return found[0]


def _length(task: Task, rows: TaskInput | None) -> int | None:
    if rows is not None:
        return len(rows.questions)
    return None if task.questions == "all" else task.questions


def _record(task: Task, spec: EvaluationSpec, evaluation: Evaluation) -> TaskRecord:
    return TaskRecord(
        task=task.name,
        version=evaluation.version,
        shots=spec.shots,
        metric=evaluation.metric,
        filters=evaluation.filters,
        judged_filter=_judged_filter(task, evaluation.filters),
        max_length=spec.max_length,
        max_tokens=spec.max_tokens,
        concurrency=spec.concurrency,
        add_bos=spec.add_bos,
        seed=spec.seed,
        lm_eval=evaluation.lm_eval,
    )


def _judged_filter(task: Task, filters: tuple[str, ...]) -> str:
    wanted = task.filter or (PREFERRED_FILTER if PREFERRED_FILTER in filters else next(iter(filters), None))
    if wanted is None or wanted not in filters:
        raise MeasurementError(
            f"accuracy: task {task.name!r} has no filter {wanted!r}",
            advice=f"Its filters: {', '.join(filters) or 'none'}. Set `filter` of the task to one of them.",
        )
    return wanted


def _responses(task: Task, evaluation: Evaluation, step: int) -> tuple[Response, ...]:
    first: dict[int, EvaluatedRow] = {}
    for row in evaluation.rows:
        first.setdefault(row.doc_id, row)
    return tuple(
        Response(task=task.name, round=step, doc_id=doc_id, status=_status(row, evaluation.null_answer), text=row.response)
        for doc_id, row in sorted(first.items())
    )


def _status(row: EvaluatedRow, null_answer: str) -> ItemStatus:
    """Return what became of an answer: a server that answered null failed, an empty text is an empty answer."""
    if null_answer and row.response == null_answer:
        return ItemStatus.FAILED
    return ItemStatus.OK if row.response.strip() else ItemStatus.EMPTY


def _documents(task: Task, evaluation: Evaluation) -> tuple[Document, ...]:
    first = {row.doc_id: row for row in reversed(evaluation.rows)}
    return tuple(
        Document(task=task.name, doc_id=doc_id, question=row.question, target=row.target)
        for doc_id, row in sorted(first.items())
    )


def _row(task: Task, row: EvaluatedRow, step: int) -> Row:
    return Row(
        task=task.name,
        round=step,
        doc_id=row.doc_id,
        filter=row.filter,
        doc_hash=row.doc_hash,
        target_hash=row.target_hash,
        prompt_hash=row.prompt_hash,
        extracted=row.extracted,
        score=row.score,
    )
