"""Asks one arm every question once: one step is one round over all tasks; `finish` asks once more what did not come whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from servegate.checks.accuracy.looking import FIRST_QUESTIONS, first_part, is_catastrophe, is_worth_a_look
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
from servegate.checks.accuracy.retrying import ask_again, first_rows, known_answers, status_of
from servegate.checks.accuracy.settings import PREFERRED_FILTER, AccuracySettings, Task
from servegate.checks.contract import Inputs, MeasureContext
from servegate.domain.arms import Role
from servegate.domain.workload import EvaluatedRow, Evaluation, EvaluationSpec
from servegate.errors import MeasurementError
from servegate.ports import Probes

FEW_ANSWERS = 20
"""A baseline that gets none of fewer right may only have been asked too few."""


@dataclass(frozen=True)
class Asked:
    """One pass over one task."""

    task: Task
    spec: EvaluationSpec
    evaluation: Evaluation


def items(settings: AccuracySettings, inputs: Inputs | None) -> int | None:
    """Return how many questions a round has, or None when a task of unknown length is asked in full."""
    counts = lengths(settings, inputs)
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def lengths(settings: AccuracySettings, inputs: Inputs | None) -> tuple[int | None, ...]:
    """Return the questions of each task, None for one of unknown length that is asked in full."""
    return tuple(_length(task, _rows_of(task, inputs)) for task in settings.tasks)


def measure(probes: Probes, settings: AccuracySettings, context: MeasureContext[AccuracyMeasurement]) -> AccuracyMeasurement:
    """Run one round; of a candidate that is a catastrophe, only so much of it as shows that.

    Raises:
        MeasurementError: lm-eval fails, the context length is unknown, the baseline gets nothing right, or is missing.
    """
    if context.arm != Role.BASELINE and context.baseline is None:
        raise MeasurementError("accuracy: the baseline was not measured, so there is nothing to compare this arm with")
    asked: list[Asked] = []
    looks: list[Asked] = []
    for position, task in enumerate(settings.tasks):
        spec, known = _spec(position, task, settings, context), {}
        if is_worth_a_look(position, task, context):
            looks.append(Asked(task, spec, probes.evaluator.evaluate(first_part(spec))))
            context.advance(FIRST_QUESTIONS)
            if is_catastrophe(found := _found(looks, context.step), settings, context):
                return found
            rows = () if context.baseline is None else context.baseline.rows
            known = known_answers(looks[0].evaluation, [row for row in rows if row.task == task.name])
        asked.append(Asked(task, spec, probes.evaluator.evaluate(spec, known)))
        context.advance(len(first_rows(asked[-1].evaluation)) - (FIRST_QUESTIONS if known else 0))
        if position + 1 < len(settings.tasks) and is_catastrophe(
            found := _found(asked, context.step, looks), settings, context
        ):
            return found
    _refuse_nothing_right(asked, context)
    return _found(asked, context.step, looks)


def finish(
    probes: Probes,
    settings: AccuracySettings,
    context: MeasureContext[AccuracyMeasurement],
    measured: AccuracyMeasurement,
) -> AccuracyMeasurement:
    """Return the arm once what did not come whole in any of its rounds was asked again; `context.step` is the last round."""
    for position, task in enumerate(settings.tasks):
        measured = ask_again(probes.evaluator, _spec(position, task, settings, context), measured, context.step)
    return measured


def _found(asked: Sequence[Asked], step: int, looks: Sequence[Asked] = ()) -> AccuracyMeasurement:
    """Return what was found; of `looks`, whose answers the later passes hold as well, that they were taken."""
    return AccuracyMeasurement(
        tasks=tuple(_record(one) for one in asked),
        responses=tuple(response for one in asked for response in _responses(one, step)),
        rows=tuple(_row(one.task, row, step) for one in asked for row in one.evaluation.rows),
        documents=tuple(document for one in asked for document in (_documents(one) if step == 0 else ())),
        passes=tuple(
            Pass(
                task=one.task.name,
                round=step,
                command=one.evaluation.command,
                warnings=one.evaluation.warnings,
                first_token_ids=one.evaluation.first_token_ids,
                repeated=one.evaluation.repeated,
            )
            for one in (*looks, *asked)
        ),
    )


def _refuse_nothing_right(asked: list[Asked], context: MeasureContext[AccuracyMeasurement]) -> None:
    """End the check before the candidate starts when the baseline gets nothing right: it has nothing to lose.

    A baseline that gets everything right can lose something, so it goes on; both arms at 100 % are judged later.
    """
    if context.arm != Role.BASELINE:
        return
    rows = [row for one in asked for row in one.evaluation.rows
            if row.filter == _judged_filter(one.task, one.evaluation.filters)]  # fmt: skip
    if len(rows) >= FEW_ANSWERS and not any(row.score for row in rows):
        raise MeasurementError(
            f"accuracy: all {len(rows):,} answers of the baseline scored 0: check the task, the filter and the prompt, not the "
            "candidate",
            why=f"One answer ends with {rows[0].response[-160:]!r}; the reference is {rows[0].target[-80:]!r}",
            advice="lm-eval's own files of this pass are kept in the run directory.",
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
        metric=task.metric,
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


def _record(asked: Asked) -> TaskRecord:
    task, spec, evaluation = asked.task, asked.spec, asked.evaluation
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
        higher_is_better=evaluation.higher_is_better,
    )


def _judged_filter(task: Task, filters: tuple[str, ...]) -> str:
    wanted = task.filter or (PREFERRED_FILTER if PREFERRED_FILTER in filters else next(iter(filters), None))
    if wanted is None or wanted not in filters:
        raise MeasurementError(
            f"accuracy: task {task.name!r} has no filter {wanted!r}",
            advice=f"Its filters: {', '.join(filters) or 'none'}. Set `filter` of the task to one of them.",
        )
    return wanted


def _responses(asked: Asked, step: int) -> tuple[Response, ...]:
    return tuple(
        Response(
            task=asked.task.name,
            round=step,
            doc_id=doc_id,
            status=status_of(row, asked.evaluation),
            text=row.response,
        )
        for doc_id, row in first_rows(asked.evaluation).items()
    )


def _documents(asked: Asked) -> tuple[Document, ...]:
    first = {row.doc_id: row for row in reversed(asked.evaluation.rows)}
    return tuple(
        Document(task=asked.task.name, doc_id=doc_id, question=row.question, target=row.target)
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
