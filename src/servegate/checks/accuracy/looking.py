"""A look at the candidate's first questions: a catastrophe need not be measured to its end.

lm-eval tells scores at the end of a pass only, so the look is a pass of its own, over the first 64 questions, and costs one
more start of lm-eval (10 s and more) in the candidate's first round. Therefore only a large check has one, where those seconds
are little beside what a catastrophe would cost: its rounds and all that is measured after them. Nothing is asked twice: the
pass over all questions is given the answers to the first ones, but for a prompt that several questions share. With several
tasks the candidate is looked at after each, for free.

What a catastrophe is, `judging.stop` says, by the rule that ends a candidate after a whole round: 12 or more questions right to
wrong, none back, and FAIL holds. The candidate's first round is the only one that is looked into: a catastrophe shows at once.
"""

from __future__ import annotations

from servegate.checks.accuracy.judging import stop
from servegate.checks.accuracy.record import AccuracyMeasurement
from servegate.checks.accuracy.settings import AccuracySettings, Task
from servegate.checks.contract import ArmEvidence, Evidence, MeasureContext
from servegate.domain.arms import Role
from servegate.domain.evidence import Reason
from servegate.domain.workload import EvaluationSpec

FIRST_QUESTIONS = 64
LARGE = 500
"""Questions of a round from which on the look is worth its start."""


def is_worth_a_look(position: int, task: Task, context: MeasureContext[AccuracyMeasurement]) -> bool:
    """Whether the first questions of a task are looked at before the others are asked: of the first task of a large check."""
    if position or context.baseline is None or not _is_first_round(context):
        return False
    asked = {(row.task, row.doc_id) for row in context.baseline.rows}
    first = sum(name == task.name for name, _ in asked)
    return len(asked) >= LARGE and first > 2 * FIRST_QUESTIONS


def first_part(spec: EvaluationSpec) -> EvaluationSpec:
    """Return the pass over the first questions."""
    return spec.model_copy(update={"label": f"{spec.label}-first", "limit": FIRST_QUESTIONS})


def is_catastrophe(
    found: AccuracyMeasurement, settings: AccuracySettings, context: MeasureContext[AccuracyMeasurement]
) -> bool:
    """Whether what was found of the candidate so far ends the gate."""
    if context.baseline is None or not _is_first_round(context):
        return False
    part = found.model_copy(update={"partial": Reason(code="unfinished", message="more questions were to be asked")})
    evidence = Evidence(
        baseline=ArmEvidence(engine=None, manifest=None, measurement=context.baseline),
        candidate=ArmEvidence(engine=None, manifest=None, measurement=part),
    )
    return stop(evidence, settings) is not None


def _is_first_round(context: MeasureContext[AccuracyMeasurement]) -> bool:
    """Whether this is the candidate's first round, the only one that is looked into."""
    return context.arm != Role.BASELINE and context.step == 0
