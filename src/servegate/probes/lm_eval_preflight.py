"""Whether lm-eval can load a task at all, found out before an engine starts.

A hub that cannot be reached, a task that does not exist or a metric that cannot be judged would otherwise show after
minutes of serving. So one question of every task by name is put to lm-eval's own `dummy` model, which needs no endpoint:
the data set is loaded (and then lies in the hub's cache), the prompt is built, and the files that it leaves are read as those
of a real pass are. Rows of a local file need no hub and were checked when the plan was made.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from servegate.errors import MeasurementError, UsageError
from servegate.probes.lm_eval_samples import check_complete, check_judgeable, find_files, read_results, read_samples
from servegate.probes.tools import Runner, run_tool

TIMEOUT_S = 1800.0
"""Loading may mean downloading a data set."""


def check_task(
    task: str, shots: int, executable: str, runner: Runner, *, metric: str | None = None, filter_name: str | None = None
) -> None:
    """Load one task by name and answer one of its questions with nonsense.

    Raises:
        UsageError: lm-eval is not there, cannot load the task, or the task has no such metric or filter.
    """
    with tempfile.TemporaryDirectory(prefix="servegate-tasks-") as directory:
        output = Path(directory)
        command = (
            executable, "run", "--model=dummy", f"--tasks={task}", f"--num_fewshot={shots}", "--limit=1", "--log_samples",
            f"--output_path={output / 'output'}",
        )  # fmt: skip
        try:
            run_tool(
                runner, command, overlay={"LMEVAL_LOG_LEVEL": "INFO"}, api_key="", log_path=output / "log",
                timeout_s=TIMEOUT_S, what=f"`lm_eval` (loading task {task})",
            )  # fmt: skip
        except MeasurementError as error:
            raise UsageError(
                f"accuracy: lm-eval can not load task {task!r}",
                why=_without_frames(error.why) or error.what,
                advice="`lm_eval ls tasks` lists its tasks. Where the hub cannot be reached, use rows of a local `file`, or "
                "fill the hub's cache first (run lm_eval once where it can).",
            ) from error
        try:
            results_path, samples_path = find_files(output / "output")
            results = read_results(results_path)
            samples, _ = read_samples(samples_path, metric)
            found, filters = check_complete(samples, results.documents)
        except (OSError, ValueError) as error:
            raise UsageError(f"accuracy: task {task!r} can not be judged: {error}", advice="Choose another task.") from error
        check_judgeable(task, samples, found, results.higher_is_better, UsageError)
    if filter_name is not None and filter_name not in filters:
        raise UsageError(
            f"accuracy: task {task!r} has no filter {filter_name!r}",
            advice=f"Its filters: {', '.join(filters)}. Set `filter` of the task to one of them.",
        )


def _without_frames(output: str) -> str:
    """Return a tool's last lines without the frames of a traceback: what was raised is the reason, where says nothing here."""
    return "\n".join(line for line in output.splitlines() if line and not line.startswith(" "))
