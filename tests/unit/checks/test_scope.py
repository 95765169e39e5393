"""A verdict says what was asked: every check that measures something names it, from the record and not from memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from servegate.artifacts import RunDirectory
from servegate.checks import discovered
from servegate.checks.accuracy.scope import scope as accuracy_scope
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.contract import Evidence
from servegate.checks.prompts.scope import scope as prompts_scope
from servegate.checks.prompts.settings import PromptsSettings
from servegate.config import checks_of, settings_of
from servegate.pipeline.judging import arms_of, evidence_of
from tests.unit.checks.accuracy_samples import arm, evidence, pattern

RECORDED = Path(__file__).parents[3] / "examples" / "recorded-run"


@pytest.fixture(scope="module")
def recorded() -> dict[str, tuple[Evidence[Any], Any]]:
    run = RunDirectory(RECORDED)
    plan = run.read_plan()
    arms, settings = arms_of(run, plan), settings_of(plan)
    return {name: (evidence_of(run, plan, check, arms), settings[name]) for name, check in checks_of(plan).items()}


def test_every_check_that_measures_says_what_it_asked(recorded: dict[str, tuple[Evidence[Any], Any]]) -> None:
    said = {name: discovered()[name].scope(*given) for name, given in recorded.items()}
    assert said["accuracy"].startswith("word-problems 1.0 (5 shots, 64 questions, exact_match by flexible-extract")
    assert said["throughput"] == "32 tokens in, 8 out, judged at 8 in flight"
    assert said["prompts"].startswith("24 prompts (set ")
    assert "longest 76 + 48 tokens, greedy" in said["prompts"]


def test_the_set_is_another_when_a_prompt_is(recorded: dict[str, tuple[Evidence[Any], Any]]) -> None:
    found, settings = recorded["prompts"]
    answers = found.baseline.measurement.answers
    first = answers[0].prompt_id
    changed = [one.model_copy(update={"prompt_sha256": "f" * 64}) if one.prompt_id == first else one for one in answers]
    both = [side.measurement.model_copy(update={"answers": tuple(changed)}) for side in (found.baseline, found.candidate)]
    other = Evidence(*(type(found.baseline)(side.engine, side.manifest, measurement)
                       for side, measurement in zip((found.baseline, found.candidate), both, strict=True)))  # fmt: skip
    assert isinstance(settings, PromptsSettings)
    assert prompts_scope(other, settings) != prompts_scope(found, settings)


def test_every_task_is_named() -> None:
    said = accuracy_scope(evidence(arm(pattern(600)), arm(pattern(600))), AccuracySettings())
    assert said == "gsm8k 3.0 (5 shots, 600 questions, exact_match by flexible-extract, up to 256 tokens, greedy)"
