"""Looks at the tasks of the accuracy check before anything is served."""

from __future__ import annotations

import shutil

from servegate.checks.accuracy.settings import AccuracySettings
from servegate.config import Resolved
from servegate.errors import UsageError
from servegate.ports import Progress
from servegate.probes.lm_eval_preflight import check_task
from servegate.probes.tools import Runner


def check_tasks(found: Resolved, executable: str, runner: Runner, progress: Progress) -> None:
    """Make lm-eval load every task that is asked for by name.

    Raises:
        UsageError: lm-eval is not there, or a task cannot be loaded or judged.
    """
    settings = found.settings.get("accuracy")
    if not isinstance(settings, AccuracySettings):
        return
    if shutil.which(executable) is None:
        raise UsageError(
            f"accuracy: lm-eval not found: looked for {executable!r}",
            advice="Install servegate with its extra `eval`, or leave the check `accuracy` out (policy `quick` allows that).",
        )
    for task in settings.tasks:
        if task.file is None:
            progress.say(f"accuracy: lm-eval loads task {task.name}")
            check_task(task.name, task.shots, executable, runner, metric=task.metric, filter_name=task.filter)
