"""What became of an answer, and a second chance for those that did not come whole.

An empty answer, a null or one that was cut at the limit says little about a model when it came once: a server under load
produces them by itself. After an arm's last round such questions are asked once more, in one pass a task for all rounds: a pass
costs seconds before its first question. Every other prompt is answered from what came, so each question keeps its words
(lm-eval draws worked examples in the order of the questions) and lm-eval scores all as it did. The one second answer
serves every round that lacks it; both arms get the same chance. What still does not come is judged twice (see `readings`).
That a candidate needs it more often than the baseline is a finding of its own (see `lateness`).
Only an answer that is the same question by its hashes replaces another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from servegate.checks.accuracy.record import AccuracyMeasurement, Pass, Response, Row
from servegate.domain.evidence import ItemStatus
from servegate.domain.workload import EvaluatedRow, Evaluation, EvaluationSpec
from servegate.errors import MeasurementError
from servegate.ports import Evaluator

MOST_CUT_SHARE = 0.1
"""Above this share of cut answers the limit is too low or the model rambles: asking again costs a pass and finds nothing."""


def first_rows(evaluation: Evaluation) -> dict[int, EvaluatedRow]:
    """Return one row per document, in ascending order; the response is the same under every filter."""
    found: dict[int, EvaluatedRow] = {}
    for row in evaluation.rows:
        found.setdefault(row.doc_id, row)
    return dict(sorted(found.items()))


def status_of(row: EvaluatedRow, evaluation: Evaluation) -> ItemStatus:
    """Return what became of an answer: null is failed, white space is empty, as long as it may be is cut."""
    if evaluation.null_answer and row.response == evaluation.null_answer:
        return ItemStatus.FAILED
    if not row.response.strip():
        return ItemStatus.EMPTY
    return ItemStatus.TRUNCATED if row.doc_id in evaluation.cut else ItemStatus.OK


def known_answers(evaluation: Evaluation, baseline: Iterable[Row]) -> dict[str, str | None]:
    """Return the answers of a pass by the hash of the prompt, as they came; None where one was null.

    A prompt that stands for several of the task's questions (`baseline` has all of them) is left out: its answer would be
    given to questions that nobody asked.
    """
    questions = Counter(prompt for prompt, _ in {(row.prompt_hash, row.doc_id) for row in baseline})
    return {
        row.prompt_hash: None if status_of(row, evaluation) is ItemStatus.FAILED else row.response
        for row in evaluation.rows if questions[row.prompt_hash] == 1
    }  # fmt: skip


def ask_again(evaluator: Evaluator, spec: EvaluationSpec, arm: AccuracyMeasurement, step: int) -> AccuracyMeasurement:
    """Return an arm whose answers to one task were asked once more where they did not come whole; `step` is its last round.

    A pass that fails changes nothing; the first answers stand.
    """
    task = spec.task
    responses = [one for one in arm.responses if one.task == task]
    lost = _lost(responses)
    if not lost:
        return arm
    answers = sum(one.doc_id in lost and one.status is not ItemStatus.OK for one in responses)
    said = f"{answers} answers to {len(lost)} questions did not come whole"
    try:
        second = evaluator.evaluate(spec.model_copy(update={"label": f"{spec.label}-again"}), _whole(arm, task, lost))
    except MeasurementError as error:
        note = Pass(task=task, round=step, warnings=(f"{said}, and asking again failed: {error.what}",))
        return arm.model_copy(update={"passes": (*arm.passes, note)})
    merged, replaced = _merged(arm, task, lost, second)
    said = f"{said}, and these questions were asked again; {replaced} of the answers then came"
    note = Pass(
        task=task, round=step, command=second.command, warnings=(said, *second.warnings), repeated=second.repeated
    )  # fmt: skip
    return merged.model_copy(update={"passes": (*arm.passes, note)})


def _lost(responses: list[Response]) -> frozenset[int]:
    """Return the documents to ask again. Where many answers were cut, the cut ones are none."""
    cut = [one for one in responses if one.status is ItemStatus.TRUNCATED]
    worth = len(cut) <= MOST_CUT_SHARE * len(responses)
    fine = (ItemStatus.OK,) if worth else (ItemStatus.OK, ItemStatus.TRUNCATED)
    return frozenset(one.doc_id for one in responses if one.status not in fine)


def _whole(arm: AccuracyMeasurement, task: str, lost: frozenset[int]) -> Mapping[str, str | None]:
    """Return an answer to each prompt that is not to be asked again."""
    texts = {one.doc_id: one.text for one in arm.responses if one.task == task and one.doc_id not in lost}
    asked = {row.prompt_hash for row in arm.rows if row.task == task and row.doc_id in lost}
    return {row.prompt_hash: texts[row.doc_id] for row in arm.rows
            if row.task == task and row.doc_id in texts and row.prompt_hash not in asked}  # fmt: skip


def _merged(arm: AccuracyMeasurement, task: str, lost: frozenset[int], second: Evaluation) -> tuple[AccuracyMeasurement, int]:
    """Put the second answers that came whole in place of those that did not, and count these."""
    came = {(row.doc_id, row.filter): row for row in second.rows if status_of(row, second) is ItemStatus.OK}
    own: dict[tuple[int, int], list[Row]] = {}
    for row in arm.rows:
        if row.task == task and row.doc_id in lost:
            own.setdefault((row.round, row.doc_id), []).append(row)
    replaced = {
        (one.round, one.doc_id): came[one.doc_id, own[one.round, one.doc_id][0].filter].response
        for one in arm.responses
        if one.task == task and one.doc_id in lost and one.status is not ItemStatus.OK
        and all((again := came.get((row.doc_id, row.filter))) is not None and _same(row, again)
                for row in own[one.round, one.doc_id])
    }  # fmt: skip

    def row_of(row: Row) -> Row:
        if row.task != task or (row.round, row.doc_id) not in replaced:
            return row
        again = came[row.doc_id, row.filter]
        return row.model_copy(update={"extracted": again.extracted, "score": again.score})

    def response_of(one: Response) -> Response:
        if one.task != task or one.doc_id not in lost or one.status is ItemStatus.OK:
            return one
        text = replaced.get((one.round, one.doc_id))
        return one.model_copy(update={"asked": 2} if text is None else {"asked": 2, "text": text, "status": ItemStatus.OK})

    rows, responses = tuple(map(row_of, arm.rows)), tuple(map(response_of, arm.responses))
    return arm.model_copy(update={"rows": rows, "responses": responses}), len(replaced)


def _same(left: Row, right: EvaluatedRow) -> bool:
    return left.hashes == (right.doc_hash, right.target_hash, right.prompt_hash)
