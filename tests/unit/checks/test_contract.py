"""What every check promises, whichever it is: run over all that are discovered, so a new one is held to it too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from servegate.artifacts import RunDirectory, dump
from servegate.checks import discovered
from servegate.checks.contract import NO_MEASUREMENT, ArmEvidence, Evidence, finding
from servegate.domain.blocks import Block, Fold, Section, Table, Text
from servegate.domain.evidence import Measurement, NotMeasured, Reason
from servegate.domain.judgement import Comparison, Outcome, Severity, outcome_of
from tests.unit.checks.examples import EXAMPLES, Example
from tests.unit.samples import manifest, plan

CHECKS = discovered()
LOST = NotMeasured(reason=Reason(code="lost", message="nobody looked"))


@pytest.fixture(params=sorted(CHECKS))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def example(name: str) -> Example:
    if name not in EXAMPLES:
        pytest.fail(f"the check {name!r} brings no example: add one to tests/unit/checks/examples.py")
    made = EXAMPLES[name]()
    assert isinstance(made, Example)
    return made


def evidence(example: Example, *sides: Measurement | NotMeasured) -> Evidence[Measurement]:
    own = example.measurement or NO_MEASUREMENT
    baseline, candidate = sides or (own, own)
    return Evidence(
        ArmEvidence(example.facts("baseline"), manifest(), baseline),
        ArmEvidence(example.facts("candidate"), manifest(), candidate),
        example.inputs,
        example.plan,
    )


def compared(name: str, example: Example) -> Comparison:
    comparison = CHECKS[name].compare(evidence(example), example.settings)
    assert isinstance(comparison, Comparison)
    return comparison


def test_there_are_checks_and_each_is_called_as_its_module() -> None:
    assert {"accuracy", "engagement", "prompts", "throughput"} <= CHECKS.keys()
    assert all(name == check.name for name, check in CHECKS.items())


def test_a_check_measures_or_has_neither_a_measurement_nor_steps(name: str, example: Example) -> None:
    check = CHECKS[name]
    assert (check.measure is None) == (check.measurement is None) == (example.measurement is None)
    if check.measure is None:
        assert (check.inputs, check.prepare, check.stop) == (None, None, None)


def test_settings_have_defaults_or_a_documented_required_field(name: str) -> None:
    settings = CHECKS[name].settings
    required = [field for field, info in settings.model_fields.items() if info.is_required()]
    undocumented = [field for field, info in settings.model_fields.items() if not (info.description or field == "limits")]
    assert undocumented == []
    if not required:
        assert settings.model_validate({}).to_json()
    with pytest.raises(ValidationError, match="Extra inputs"):
        settings.model_validate({"no_such_setting": 1})


def test_identical_arms_give_no_finding_and_pass(name: str, example: Example) -> None:
    comparison = compared(name, example)
    assert comparison.n > 0
    assert comparison.unpaired.total == 0
    assert CHECKS[name].judge(comparison, example.settings) == ()


@pytest.mark.parametrize("lost", ["baseline", "candidate"])
def test_not_measured_gives_its_reason_and_its_arm(name: str, example: Example, lost: str) -> None:
    if example.measurement is None:
        pytest.skip("a check without a measurement can not lose it")
    sides = (LOST, example.measurement) if lost == "baseline" else (example.measurement, LOST)
    result = CHECKS[name].compare(evidence(example, *sides), example.settings)
    assert result == NotMeasured(reason=Reason(code="lost", message=f"{lost}: nobody looked"))


def test_a_measurement_round_trips_through_the_run_directory(name: str, example: Example, tmp_path: Path) -> None:
    shape = CHECKS[name].measurement
    if shape is None or example.measurement is None:
        pytest.skip("this check has no measurement")
    run = RunDirectory.create(tmp_path / "run")
    run.write_measurement(plan(), "baseline", name, example.measurement, 1.0)
    back = run.read_measurement("baseline", name, shape)
    assert isinstance(back, Measurement)
    assert type(back) is type(example.measurement)
    assert back.to_json() == example.measurement.to_json()
    assert back.columns.keys() == example.measurement.columns.keys()
    for key, column in example.measurement.columns.items():
        assert np.array_equal(back.columns[key], column, equal_nan=column.dtype.kind == "f")


def test_judging_a_stored_comparison_gives_the_same_findings(name: str, example: Example, tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path / "run")
    comparison = compared(name, example)
    run.write_comparison(plan(), name, comparison)
    back = run.read_comparison(name)
    assert back == Comparison.model_validate(comparison.to_json())
    assert isinstance(back, Comparison)
    assert CHECKS[name].judge(back, example.settings) == CHECKS[name].judge(comparison, example.settings)


def test_comparing_twice_gives_the_same_bytes(name: str, example: Example) -> None:
    assert dump(compared(name, example).to_json()) == dump(compared(name, example).to_json())


def test_noise_has_the_shape_of_the_comparison(name: str, example: Example) -> None:
    comparison = compared(name, example)
    if comparison.noise is None:
        assert comparison.noise_reason
        return
    sides = [side for side in (comparison.noise.baseline, comparison.noise.candidate) if side is not None]
    assert sides
    # noise may say in addition which rounds it compared
    assert all(side.keys() - {"rounds"} <= comparison.candidate.keys() for side in sides)


def blocks_of(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        yield block
        if isinstance(block, Fold):
            yield from blocks_of(block.blocks)


def test_a_section_counts_rounds_from_1_and_says_no_finding_again(name: str, example: Example) -> None:
    planted = finding(name, "planted", Severity.REVIEW, "planted by the contract test")
    section = CHECKS[name].present(compared(name, example), evidence(example), example.settings, (planted,))
    assert "round 0" not in repr(section)
    for block in blocks_of(section.blocks):
        assert not (isinstance(block, Text) and planted.message in block.text), "the report's Findings say it"
        for place, column in enumerate(block.columns if isinstance(block, Table) else ()):
            if column.title in ("Round", "Rounds"):
                assert isinstance(block, Table)
                assert not [row for row in block.rows if str(row[place]).startswith("0")], block.title
    assert any(isinstance(block, Text) and "planted" in block.text for block in section.blocks)


@pytest.mark.parametrize("severity", list(Severity))
def test_there_is_a_section_for_every_outcome(name: str, example: Example, severity: Severity) -> None:
    findings = (finding(name, "planted", severity, "planted by the contract test"),)
    section = CHECKS[name].present(compared(name, example), evidence(example), example.settings, findings)
    assert isinstance(section, Section)
    assert section.check == name
    assert section.outcome is outcome_of(findings)
    assert section.summary
    assert len(section.summary) <= 300
    assert section.noise
    assert section.n
    assert section.question.endswith("?")
    assert Section.model_validate(section.to_json()) == section


def test_tables_are_rectangular_and_names_are_unique(name: str, example: Example) -> None:
    section = CHECKS[name].present(compared(name, example), evidence(example), example.settings, ())
    blocks = [*section.blocks, *(inner for block in section.blocks if isinstance(block, Fold) for inner in block.blocks)]
    tables = [block for block in blocks if block.kind == "table"]
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)
    names = [block.name for block in blocks if block.kind in ("table", "figure")]
    assert len(set(names)) == len(names)
    assert all(one.replace("-", "").isalnum() and one == one.lower() for one in names)


def test_a_check_without_findings_would_pass() -> None:
    assert outcome_of(()) is Outcome.PASS
