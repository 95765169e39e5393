"""What became of an answer, and a second chance for those that did not come whole.

An empty answer, a null or one that was cut at the limit says little about a model when it came once: a server under load
produces them by itself. Such questions are asked once more, by themselves; both arms get the same chance in every round.
What still does not come is judged twice (see `readings`). Only an answer that is the same question by its hashes
replaces another.
"""

from __future__ import annotations

from dataclasses import dataclass

from servegate.domain.evidence import ItemStatus
from servegate.domain.workload import EvaluatedRow, Evaluation, EvaluationSpec
from servegate.errors import MeasurementError
from servegate.ports import Evaluator

MOST_CUT_SHARE = 0.1
"""Above this share of cut answers the limit is too low or the model rambles: asking again costs a pass and finds nothing."""


@dataclass(frozen=True)
class Asked:
    """A pass with the second answers in place; `again` names the documents that were asked twice."""

    evaluation: Evaluation
    again: frozenset[int] = frozenset()


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


def ask_again(evaluator: Evaluator, spec: EvaluationSpec, evaluation: Evaluation) -> Asked:
    """Ask once more what did not come whole. A second pass that fails changes nothing; the first one stands."""
    statuses = {doc_id: status_of(row, evaluation) for doc_id, row in first_rows(evaluation).items()}
    cut = [doc_id for doc_id, status in statuses.items() if status is ItemStatus.TRUNCATED]
    lost = [doc_id for doc_id, status in statuses.items() if status not in (ItemStatus.OK, ItemStatus.TRUNCATED)]
    if len(cut) <= MOST_CUT_SHARE * len(statuses):
        lost = sorted([*lost, *cut])
    if not lost:
        return Asked(evaluation)
    try:
        second = evaluator.evaluate(_only(spec, lost))
    except MeasurementError as error:
        said = f"{len(lost)} answers did not come whole, and asking them again failed: {error.what}"
        return Asked(_warned(evaluation, said))
    merged, replaced = _merged(evaluation, second, dict(enumerate(lost)) if spec.questions else {one: one for one in lost})
    said = f"{len(lost)} answers did not come whole and were asked again; {replaced} then came"
    return Asked(_warned(merged, said), frozenset(lost))


def _only(spec: EvaluationSpec, doc_ids: list[int]) -> EvaluationSpec:
    """The same pass over some of its documents; a local task is given their rows, which are numbered from 0 again."""
    label = f"{spec.label}-again"
    if spec.questions:
        return spec.model_copy(update={"label": label, "questions": tuple(spec.questions[one] for one in doc_ids)})
    return spec.model_copy(update={"label": label, "limit": None, "doc_ids": tuple(doc_ids)})


def _merged(first: Evaluation, second: Evaluation, doc_ids: dict[int, int]) -> tuple[Evaluation, int]:
    """Put the second answers that came whole in place of the first; `doc_ids` maps the second's ids to the first's."""
    came: dict[tuple[int, str], EvaluatedRow] = {}
    for row in second.rows:
        if row.doc_id in doc_ids and status_of(row, second) is ItemStatus.OK:
            came[doc_ids[row.doc_id], row.filter] = row.model_copy(update={"doc_id": doc_ids[row.doc_id]})
    whole = {
        doc_id
        for doc_id in {one for one, _ in came}
        if all(
            (again := came.get((row.doc_id, row.filter))) is not None and _same(row, again)
            for row in first.rows
            if row.doc_id == doc_id
        )
    }
    rows = tuple(came[row.doc_id, row.filter] if row.doc_id in whole else row for row in first.rows)
    cut = tuple(doc_id for doc_id in first.cut if doc_id not in whole)
    return first.model_copy(update={"rows": rows, "cut": cut}), len(whole)


def _same(left: EvaluatedRow, right: EvaluatedRow) -> bool:
    return (left.doc_hash, left.target_hash, left.prompt_hash) == (right.doc_hash, right.target_hash, right.prompt_hash)


def _warned(evaluation: Evaluation, said: str) -> Evaluation:
    return evaluation.model_copy(update={"warnings": (*evaluation.warnings, said)})
