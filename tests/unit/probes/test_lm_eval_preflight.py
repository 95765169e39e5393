"""Tasks by name are loaded before an engine starts, by lm-eval itself; what cannot be judged is told at once."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from servegate.errors import MeasurementError, UsageError
from servegate.probes.lm_eval_preflight import check_task
from servegate.subprocesses import Completed, run
from tests.conftest import missing


class Tool:
    """A stand-in for `subprocesses.run` that leaves the recorded files, changed, in the output directory."""

    def __init__(self, recorded: Path | None, *, returncode: int = 0, stderr: str = "", **results: Any) -> None:
        self.recorded, self.returncode, self.stderr, self.results = recorded, returncode, stderr, results
        self.command: tuple[str, ...] = ()

    def __call__(
        self, command: Sequence[str], *, timeout_s: float, environment: Mapping[str, str] | None, check: bool
    ) -> Completed:
        self.command = tuple(command)
        if self.recorded is not None:
            output = Path(next(word.partition("=")[2] for word in command if word.startswith("--output_path=")))
            shutil.copytree(self.recorded / "lm_eval", output / "model")
            path = next((output / "model").glob("results_*.json"))
            path.write_text(json.dumps({**json.loads(path.read_text()), **self.results}))
        return Completed(tuple(command), self.returncode, "", self.stderr, 1.0)


def test_one_question_is_put_to_a_model_that_needs_no_endpoint(recorded: Path) -> None:
    tool = Tool(recorded)
    check_task("arith", 5, "/opt/lm_eval", tool, filter_name="strict-match", metric="exact_match")
    assert tool.command[:3] == ("/opt/lm_eval", "run", "--model=dummy")
    assert {"--tasks=arith", "--num_fewshot=5", "--limit=1", "--log_samples"} <= set(tool.command)


@pytest.mark.parametrize(
    ("options", "results", "said"),
    [
        ({"filter_name": "flexible"}, {}, "task 'arith' has no filter 'flexible'"),
        ({"metric": "f1"}, {}, "there is no metric 'f1'; the task has exact_match"),
        ({}, {"higher_is_better": {"arith": {"exact_match": False}}}, "is better when it is lower"),
        ({}, {"n-samples": {"a": {"effective": 1}, "b": {"effective": 1}}}, "name a task, not a group"),
    ],
)
def test_what_cannot_be_judged_is_told_before_anything_runs(
    recorded: Path, options: dict[str, str], results: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        check_task("arith", 5, "/opt/lm_eval", Tool(recorded, **results), **options)
    assert raised.value.advice


def test_a_task_that_does_not_load_is_quoted(recorded: Path) -> None:
    tool = Tool(None, returncode=1, stderr="Traceback\nConnectionError: Couldn't reach 'openai/gsm8k' on the Hub\n")
    with pytest.raises(UsageError, match="lm-eval can not load task 'gsm8k'") as raised:
        check_task("gsm8k", 5, "/opt/lm_eval", tool)
    assert "Couldn't reach" in raised.value.why
    assert "local `file`" in raised.value.advice


def test_a_tool_that_does_not_start_is_told(recorded: Path) -> None:
    def broken(*_all: object, **_options: object) -> Completed:
        raise MeasurementError("`lm_eval` could not be started", why="no such file")

    with pytest.raises(UsageError, match="can not load task") as raised:
        check_task("gsm8k", 5, "/opt/lm_eval", broken)
    assert raised.value.why == "no such file"


@pytest.mark.service
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("task", "said"), [("gsm8k", "Couldn't reach 'openai/gsm8k'"), ("no_such_task", "Tasks not found: no_such_task")]
)
def test_the_real_tool_without_a_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, task: str, said: str) -> None:
    """Needs lm-eval 0.4.13 (the extra `eval`) beside this Python; about 10 s a task."""
    executable = Path(sys.executable).with_name("lm_eval")
    if not executable.is_file():
        missing("lm_eval (the extra `eval`)")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(UsageError, match="can not load task") as raised:
        check_task(task, 5, str(executable), run)
    assert said in raised.value.why
