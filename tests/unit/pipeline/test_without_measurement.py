"""A check without a measurement: no step, no probe, no file of its own, and compared whatever became of the engines."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from servegate import checks, config
from servegate.artifacts import RunDirectory
from servegate.checks.contract import NO_MEASUREMENT, AnyCheck, Check, Evidence
from servegate.config import Overrides, load, resolve
from servegate.domain.arms import Arm
from servegate.domain.blocks import Section
from servegate.domain.evidence import EngineStatus
from servegate.domain.judgement import Comparison, Finding, Outcome
from servegate.domain.records import Settings
from servegate.errors import EngineError
from servegate.pipeline import Measuring, compare, report
from servegate.ports import Advance, Session

GATE = "version: 1\ngate: demo\narms:\n  baseline: {config: old.yaml}\n  candidate: {config: new.yaml}\nchecks: {reading: {}}\n"


def compared(evidence: Evidence[Any], _settings: Settings) -> Comparison:
    sides = (evidence.baseline, evidence.candidate)
    assert all(side.measurement is NO_MEASUREMENT for side in sides)
    assert evidence.plan is not None
    status = [side.engine.status.value if side.engine else "no start was attempted" for side in sides]
    return Comparison(candidate={"status": status, "gate": evidence.plan.gate}, noise=None, n=1)


def presented(comparison: Comparison, _evidence: Evidence[Any], _settings: Settings, _found: tuple[Finding, ...]) -> Section:
    return Section(
        check="reading", title="Reading", outcome=Outcome.PASS, question="Read?", noise="none", n="1", blocks=(),
        summary=" and ".join(comparison.candidate["status"]),
    )  # fmt: skip


READING: AnyCheck = Check("reading", Settings, None, None, compared, lambda _comparison, _settings: (), presented)


class Broken:
    """An engine that never starts, and a progress display nobody watches."""

    def session(self, arm: Arm, log_path: Path) -> AbstractContextManager[Session]:
        log_path.write_text("nothing")
        raise EngineError(f"{arm.name} did not start")

    def stage(self, title: str, arm: str | None, total: int | None) -> AbstractContextManager[Advance]:
        return nullcontext(lambda _count: None)

    def say(self, line: str) -> None:
        return


def test_it_is_compared_although_no_engine_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (config.loading, config.recorded, config.resolving):
        monkeypatch.setattr(module, "discovered", lambda: {**checks.discovered(), "reading": READING})
    (tmp_path / "old.yaml").write_text("model: m\n")
    (tmp_path / "new.yaml").write_text("model: m\nquantization: fp8\n")
    (tmp_path / "servegate.yaml").write_text(GATE)
    resolved = resolve(load(tmp_path / "servegate.yaml", Overrides()))
    assert (resolved.plan.schedule, list(resolved.plan.checks)) == ((), ["reading"])
    run, broken = RunDirectory.create(tmp_path / "run"), Broken()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunDirectory, "write_measurement", lambda *_all: pytest.fail("there is nothing to write"))
        Measuring(resolved, run, broken, lambda *_all: pytest.fail("no probe"), pytest.fail, broken).measure(
            ("baseline", "candidate")
        )
    verdict = compare(run)
    baseline = run.read_engine("baseline")
    assert baseline is not None
    assert baseline.status is EngineStatus.FAILED
    assert verdict.checks["reading"].outcome is Outcome.PASS
    assert verdict.outcome is Outcome.ERROR
    found = run.read_comparison("reading")
    assert isinstance(found, Comparison)
    assert found.candidate == {"status": ["failed", "no start was attempted"], "gate": "demo"}
    assert b"failed and no start was attempted" in report(run)["report.md"]
