"""Tasks whose answers and worked examples fit into the context of both arms, as far as that can be told beforehand."""

from __future__ import annotations

from servegate.checks.accuracy.record import AccuracyInputs
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.contract import Choice, Inputs
from servegate.checks.lengths import Longest, estimated

ADVICE = "Lower max_tokens of the task, use fewer shots, or serve with a longer max-model-len."


def fit(settings: AccuracySettings, inputs: Inputs | None, longest: Longest) -> Choice:
    """Return the settings as they are, with a remark where worked examples and answer may be too long together.

    Worked examples are never left out to make room: that would be another task.

    Raises:
        UsageError: an answer of `max_tokens` leaves no room for one token of prompt.
    """
    notes = []
    rows = {task.task: task for task in inputs.tasks} if isinstance(inputs, AccuracyInputs) else {}
    for position, task in enumerate(settings.tasks):
        if task.max_tokens >= longest.tokens:
            key = f"checks.accuracy.tasks.{position}.max_tokens"
            longest.refuse(key, f"answers of {task.max_tokens:,} tokens (task {task.name})", ADVICE)
        local = rows.get(task.name)
        if local is None:
            continue
        examples = sum(sorted(estimated("".join(map(str, row.values()))) for row in local.fewshot)[: task.shots])
        question = max((estimated(row["question"]) for row in local.questions), default=0)
        if examples + question + task.max_tokens > longest.tokens:
            notes.append(
                f"accuracy: {task.shots} worked examples, a question and {task.max_tokens:,} tokens of answer of task "
                f"{task.name} may not fit into {longest.tokens:,} tokens of context ({longest.said}); the engine's tokenizer "
                "decides, before anything is asked"
            )
    return Choice(settings, "; ".join(notes))
