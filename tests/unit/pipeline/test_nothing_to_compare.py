"""A candidate is not started when nothing that was got from the baseline could be compared with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from servegate.checks.accuracy.record import AccuracyMeasurement
from servegate.domain.arms import Arm
from servegate.domain.evidence import NotMeasured
from servegate.domain.judgement import Outcome
from servegate.domain.workload import Evaluation, EvaluationSpec
from servegate.pipeline import compare
from servegate.ports import Session
from tests.unit.pipeline.test_more_rounds import World, measured


class Wrong(World):
    """A world whose baseline gets nothing right; it remembers which engines were started."""

    def __init__(self, wrong: str) -> None:
        super().__init__({"baseline": 0, "candidate": 0})
        self.wrong = wrong
        self.started: list[str] = []

    @contextmanager
    def session(self, arm: Arm, log_path: Path) -> Iterator[Session]:
        self.started.append(arm.name)
        with super().session(arm, log_path) as session:
            yield session

    def evaluate(self, spec: EvaluationSpec, known: Mapping[str, str | None] | None = None) -> Evaluation:
        found = super().evaluate(spec, known)
        if self.arm != self.wrong:
            return found
        return found.model_copy(update={"rows": tuple(row.model_copy(update={"score": 0.0}) for row in found.rows)})


@pytest.mark.parametrize("arms", [(("baseline", "candidate"),), (("baseline",), ("candidate",))], ids=["at once", "one by one"])
def test_a_baseline_that_gets_nothing_right_ends_the_gate_before_the_candidate_starts(
    tmp_path: Path, arms: tuple[tuple[str, ...], ...]
) -> None:
    world = Wrong("baseline")
    _, run = measured(tmp_path, {}, arms, world)
    assert world.started == ["baseline"]
    assert world.labels == ["baseline 0"]
    said = "not started, since no check that measures got anything from the baseline"
    assert [line for line in world.said if line.startswith(f"candidate: {said}")]
    stages = [(one["stage"], one["arm"], one["outcome"]) for one in run.read_run().data["stages"]]
    assert stages[-1] == ("start", "candidate", "not started")
    found = run.read_measurement("candidate", "accuracy", AccuracyMeasurement)
    assert isinstance(found, NotMeasured)
    assert found.reason.code == "nothing_to_compare"
    verdict = compare(run)
    assert verdict.outcome is Outcome.ERROR
    assert "all 40 answers of the baseline scored 0" in verdict.headline


@pytest.mark.parametrize("wrong", ["nobody", "candidate"])
@pytest.mark.parametrize("arms", [(("baseline", "candidate"),), (("baseline",), ("candidate",))], ids=["at once", "one by one"])
def test_a_sound_baseline_starts_the_candidate(tmp_path: Path, wrong: str, arms: tuple[tuple[str, ...], ...]) -> None:
    world = Wrong(wrong)
    measured(tmp_path, {}, arms, world)
    assert world.started == ["baseline", "candidate"]
