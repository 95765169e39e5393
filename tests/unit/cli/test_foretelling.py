"""What `plan` says of a run beforehand: what to set where the gate's own record contradicts it, and how long it took before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from servegate.artifacts import RunDirectory
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.cli.foretelling import foretold, last_time
from servegate.config import Resolved
from servegate.config.schema import EngineSettings
from servegate.pipeline.calibrating import calibration
from tests.unit.pipeline.test_calibrating import PLAN, read, row


def lines(tmp_path: Path, setting: str, **limits: Any) -> list[str]:
    flag = {"throughput_host_bound": 1.0} if setting == "host_restart_sd" else {}
    rows = [row(number, speeds=((100.0, 100.0), (105.0 + number, 105.0 + number)), spreads=flag) for number in range(6)]
    kept = calibration(read(*rows)).brief().to_json()
    plan = PLAN.model_copy(update={"calibration": kept, "schedule": ()})
    settings = {"throughput": ThroughputSettings.model_validate({"limits": limits})}
    found = Resolved(plan=plan, settings=settings, inputs={}, engine=EngineSettings(), run_root=tmp_path / "run")
    return [line for line, _ in foretold(found) if line.startswith("throughput: ")]


@pytest.mark.parametrize(
    ("setting", "limits", "told"),
    [
        ("restart_sd", {}, True),
        ("restart_sd", {"restart_sd": 0.05}, False),
        ("host_restart_sd", {"host_restart_sd": 0.05}, False),
        ("host_restart_sd", {"host_restart_sd": 0.01}, True),
        ("host_restart_sd", {"host_restart_sd": 0.01, "restart_sd": 0.05}, False),  # the larger of both is in the interval
    ],
)
def test_the_setting_that_mends_a_contradicted_spread_is_given(
    tmp_path: Path, setting: str, limits: dict[str, float], told: bool
) -> None:
    said = lines(tmp_path, setting, **limits)
    assert bool(said) is told
    assert all(f"`checks.throughput.limits.{setting}: 0.0" in line for line in said)


@pytest.mark.parametrize(
    ("status", "stages", "said"),
    [
        ("complete", [{"seconds": 30.4, "check": None}, {"seconds": 12, "check": "prompts"}, {"seconds": 1.2, "check": None}],
         "last time: 44 s (starts 32, prompts 12), under another plan"),
        ("failed", [{"seconds": 30.4, "check": None}], None),
        ("complete", [], None),
        ("complete", "seconds", None),
        ("complete", [7, {"seconds": None}, {"seconds": "9"}], None),
    ],
)  # fmt: skip
def test_only_a_complete_run_says_how_long_it_took(tmp_path: Path, status: str, stages: Any, said: str | None) -> None:
    RunDirectory.create(tmp_path / "run").write_run(status, {"stages": stages}, gate="demo", plan="0" * 64)
    assert last_time(tmp_path / "run", PLAN) == said


def test_where_no_run_lies_nothing_is_said(tmp_path: Path) -> None:
    assert last_time(tmp_path / "none", PLAN) is None
    (tmp_path / "run").mkdir()
    (tmp_path / "run/run.json").write_text("[")
    assert last_time(tmp_path / "run", PLAN) is None
