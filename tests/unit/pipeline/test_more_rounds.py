"""A noisy baseline gets more rounds in each arm, the same number, whatever the candidate does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import cast

import pytest

from servegate.artifacts import RunDirectory
from servegate.checks.accuracy.noise import more
from servegate.checks.accuracy.record import AccuracyMeasurement
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.config import Overrides, load, resolve
from servegate.domain.arms import Arm
from servegate.domain.evidence import EngineFacts, EngineStatus
from servegate.domain.judgement import Comparison
from servegate.domain.workload import Endpoint, EvaluatedRow, Evaluation, EvaluationSpec
from servegate.pipeline import Measuring, compare
from servegate.ports import Advance, Completions, LoadGenerator, Probes, Session
from tests.unit.checks.accuracy_samples import arm, flipped, pattern
from tests.unit.samples import engine_facts, manifest

GATE = """version: 1
gate: demo
arms:
  baseline: {config: old.yaml}
  candidate: {config: new.yaml}
checks: {accuracy: {tasks: [{questions: 40}]}}
"""


class Served:
    """A session that answers nothing itself."""

    endpoint = Endpoint(base_url="http://127.0.0.1:9", model="m", tokenizer="m")

    def __init__(self, arm: Arm) -> None:
        self.facts: EngineFacts = engine_facts(arm.name, status=EngineStatus.READY)

    def ensure_alive(self) -> None:
        return

    def ensure_generating(self) -> None:
        return


class World:
    """Engine, probes and progress of a run whose arms flip so many answers from one round to the next."""

    def __init__(self, flips: dict[str, int]) -> None:
        self.flips = flips
        self.labels: list[str] = []
        self.said: list[str] = []
        self.arm = ""

    @contextmanager
    def session(self, arm: Arm, log_path: Path) -> Iterator[Session]:
        log_path.parent.mkdir(parents=True, exist_ok=True)
        log_path.write_text("")
        self.arm = arm.name
        yield Served(arm)

    def stage(self, title: str, arm: str | None, total: int | None) -> AbstractContextManager[Advance]:
        return nullcontext(lambda _count: None)

    def say(self, line: str) -> None:
        self.said.append(line)

    def probes(self, *_all: object) -> Probes:
        return Probes(cast(Completions, None), cast(LoadGenerator, None), self)

    def evaluate(self, spec: EvaluationSpec, known: Mapping[str, str | None] | None = None) -> Evaluation:
        number = int(spec.label.rsplit("-", 1)[-1])
        self.labels.append(f"{self.arm} {number}")
        right = flipped(pattern(40), (number % 2) * self.flips[self.arm], 0)
        rows = tuple(
            EvaluatedRow(
                doc_id=doc_id, filter=name, doc_hash=f"d{doc_id}", target_hash="t", prompt_hash="p", question="q",
                target="1", response="#### 1" if score else "#### 2", extracted="1", score=score,
            )
            for name in ("flexible-extract", "strict-match")
            for doc_id, score in enumerate(right)
        )  # fmt: skip
        return Evaluation(
            task=spec.task, version="3", metric="exact_match", filters=("flexible-extract", "strict-match"), rows=rows,
            lm_eval="0.4.13", higher_is_better=True,
        )  # fmt: skip


def measured(
    tmp_path: Path, flips: dict[str, int], arms: tuple[tuple[str, ...], ...], world: World | None = None
) -> tuple[World, RunDirectory]:
    (tmp_path / "old.yaml").write_text("model: m\n")
    (tmp_path / "new.yaml").write_text("model: m\nquantization: fp8\n")
    (tmp_path / "servegate.yaml").write_text(GATE)
    resolved = resolve(load(tmp_path / "servegate.yaml", Overrides()))
    assert [(step.arm, step.step) for step in resolved.plan.schedule] == [
        ("baseline", 0), ("baseline", 1), ("candidate", 0), ("candidate", 1),
    ]  # fmt: skip
    run, world = RunDirectory.create(tmp_path / "run"), world or World(flips)
    for names in arms:
        Measuring(resolved, run, world, world.probes, lambda *_all: manifest(), world).measure(names)
    return world, run


@pytest.mark.parametrize("arms", [(("baseline", "candidate"),), (("baseline",), ("candidate",))], ids=["at once", "one by one"])
def test_a_noisy_baseline_adds_two_rounds_to_each_arm(tmp_path: Path, arms: tuple[tuple[str, ...], ...]) -> None:
    world, run = measured(tmp_path, {"baseline": 4, "candidate": 0}, arms)
    assert world.labels == [f"{name} {number}" for name in ("baseline", "candidate") for number in range(4)]
    assert [line for line in world.said if "2 more rounds in each arm" in line]
    compare(run)
    found = run.read_comparison("accuracy")
    assert isinstance(found, Comparison)
    assert (len(found.candidate["rounds"]), found.unpaired.total) == (4, 0)
    for name in ("baseline", "candidate"):
        measurement = run.read_measurement(name, "accuracy", AccuracyMeasurement)
        assert isinstance(measurement, AccuracyMeasurement)
        assert measurement.partial is None


@pytest.mark.parametrize("flips", [{"baseline": 3, "candidate": 3}, {"baseline": 0, "candidate": 15}])
def test_a_steady_baseline_adds_none_however_the_candidate_behaves(tmp_path: Path, flips: dict[str, int]) -> None:
    """3 of 40 is 7.5 %; what the candidate flips, or how far it is from the baseline, is never looked at."""
    world, _ = measured(tmp_path, flips, (("baseline", "candidate"),))
    assert world.labels == [f"{name} {number}" for name in ("baseline", "candidate") for number in range(2)]


def test_only_the_planned_rounds_of_the_baseline_count() -> None:
    before = pattern(100)
    noisy = flipped(before, 5, 5)
    assert more(arm(before, noisy), AccuracySettings(), 2) == 2
    assert more(arm(before, noisy, before, noisy), AccuracySettings(), 2) == 2
    assert more(arm(before, before, noisy, before), AccuracySettings(), 2) == 0
    assert more(arm(before, flipped(before, 4, 4)), AccuracySettings(), 2) == 0
    assert more(arm(before, flipped(before, 5, 4)), AccuracySettings(), 2) == 2
    assert more(arm(before), AccuracySettings(), 1) == 0
    assert more(arm(before, noisy), AccuracySettings(more_rounds=0), 2) == 0
