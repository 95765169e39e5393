"""What was asked, in a few words: the tasks, their shots and questions, and how long an answer may be."""

from __future__ import annotations

from servegate.checks.accuracy.record import AccuracyMeasurement
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.contract import Evidence, measured


def scope(evidence: Evidence[AccuracyMeasurement], settings: AccuracySettings) -> str:  # noqa: ARG001 - the record says it
    """Return e.g. `gsm8k 3.0 (5 shots, 1,319 questions, exact_match by flexible-extract, up to 256 tokens, greedy)`."""
    baseline, _ = measured(evidence)
    questions = {task.task: {row.doc_id for row in baseline.rows if row.task == task.task} for task in baseline.tasks}
    return "; ".join(
        f"{task.task} {task.version} ({task.shots} shots, {len(questions[task.task]):,} questions, {task.metric} by "
        f"{task.judged_filter}, up to {task.max_tokens:,} tokens, greedy)"
        for task in baseline.tasks
    )
