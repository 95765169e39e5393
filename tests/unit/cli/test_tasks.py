"""The tasks of the accuracy check are looked at before anything is served."""

from __future__ import annotations

import json
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

import pytest

from servegate.cli.tasks import check_tasks
from servegate.config import Overrides, Resolved, load, resolve
from servegate.errors import UsageError
from servegate.ports import Advance
from servegate.subprocesses import Completed


class Quiet:
    """A progress display nobody watches."""

    def stage(self, title: str, arm: str | None, total: int | None) -> AbstractContextManager[Advance]:
        return nullcontext(lambda _count: None)

    def say(self, line: str) -> None:
        return


def never(*_all: object, **_options: object) -> NoReturn:
    pytest.fail("nothing is run")


def gate(directory: Path, checks: dict[str, Any]) -> Resolved:
    (directory / "old.yaml").write_text("model: m\n")
    rows = [{"question": f"{index}?", "answer": f"#### {index}"} for index in range(2)]
    (directory / "sums.json").write_text(json.dumps({"fewshot": [], "test": rows}))
    arms = {"baseline": {"config": "old.yaml"}, "candidate": {"config": "old.yaml"}}
    (directory / "servegate.yaml").write_text(json.dumps({"version": 1, "gate": "g", "arms": arms, "checks": checks}))
    return resolve(load(directory / "servegate.yaml", Overrides()))


def test_without_lm_eval_nothing_starts(tmp_path: Path) -> None:
    found = gate(tmp_path, {"accuracy": {"tasks": [{"file": "sums.json", "shots": 0}]}})
    with pytest.raises(UsageError, match="lm-eval not found"):
        check_tasks(found, str(tmp_path / "lm_eval"), never, Quiet())


def test_rows_of_a_file_need_no_hub_and_a_gate_without_accuracy_no_lm_eval(tmp_path: Path) -> None:
    check_tasks(gate(tmp_path, {"accuracy": {"tasks": [{"file": "sums.json", "shots": 0}]}}), sys.executable, never, Quiet())
    check_tasks(gate(tmp_path, {"throughput": {}}), str(tmp_path / "lm_eval"), never, Quiet())


def test_every_task_by_name_is_loaded(tmp_path: Path) -> None:
    commands: list[tuple[str, ...]] = []

    def fails(command: Any, **_options: object) -> Completed:
        commands.append(tuple(command))
        return Completed(tuple(command), 1, "", "ConnectionError: no hub", 1.0)

    with pytest.raises(UsageError, match="lm-eval can not load task 'gsm8k'") as raised:
        check_tasks(gate(tmp_path, {"accuracy": {}}), sys.executable, fails, Quiet())
    assert "no hub" in raised.value.why
    assert "--num_fewshot=5" in commands[0]
