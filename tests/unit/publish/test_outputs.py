"""Figures for the steps that follow: exact where they were measured, a word that is no number where they were not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servegate.artifacts import RunDirectory
from servegate.domain.evidence import NotMeasured, Reason
from servegate.domain.judgement import CheckOutcome, Comparison, Finding, Outcome, Severity, Verdict
from servegate.publish.outputs import FIGURES, MOST_CODES, UNKNOWN, codes, figures, nothing
from tests.unit.publish.test_publish import verdict

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def read(name: str) -> tuple[Verdict, dict[str, Comparison | NotMeasured], dict[str, Any]]:
    run = RunDirectory.open(EXAMPLES / name)
    plan = run.read_plan()
    arms = {arm: run.read_engine(arm) for arm in plan.arms}
    return run.read_verdict(), {check: run.read_comparison(check) for check in plan.checks}, arms


def with_findings(*found: tuple[str, str, Severity]) -> Verdict:
    items = tuple(Finding(code=code, check=check, severity=severity, message="m") for code, check, severity in found)
    return verdict(Outcome.PASS).model_copy(update={"findings": items})


def test_the_figures_of_a_recorded_run_are_those_of_its_comparisons() -> None:
    judged, comparisons, arms = read("recorded-run")
    found = figures(judged, comparisons, arms)
    drop = comparisons["accuracy"].estimates["drop"]  # type: ignore[union-attr]
    assert [float(found[f"accuracy-drop-points{end}"]) for end in ("", "-low", "-high")] == [drop.value, drop.low, drop.high]
    assert (found["changed-answers"], found["compared-answers"]) == ("21", "24")
    assert float(found["kv-cache-ratio"]) == arms["candidate"].kv_cache_tokens / arms["baseline"].kv_cache_tokens
    # It was measured on a CPU, whose speed is not judged: nothing may be branched on.
    assert comparisons["throughput"].estimates["judged_ratio"].value > 0  # type: ignore[union-attr]
    assert {found[name] for name in FIGURES if name.startswith("speed")} == {UNKNOWN}


def test_a_speed_that_was_judged_has_its_interval_and_checks_that_are_off_have_no_figure() -> None:
    found = figures(*read("recorded-h200"))
    low, value, high = (float(found[f"speed-ratio{end}"]) for end in ("-low", "", "-high"))
    assert 1.2 < low < value < high < 1.3
    assert found["accuracy-drop-points"] == found["changed-answers"] == UNKNOWN


@pytest.mark.parametrize(("check", "left"), [("arms", set()), ("throughput", {"kv-cache-ratio"})])
def test_what_is_not_comparable_has_no_figure(check: str, left: set[str]) -> None:
    _, comparisons, arms = read("recorded-h200")
    void = with_findings((f"{check}/x", check, Severity.NOT_COMPARABLE))
    found = figures(void, comparisons, arms)
    assert {name for name, value in found.items() if value != UNKNOWN} == left


SPEEDS = {name for name in FIGURES if name.startswith("speed")}


@pytest.mark.parametrize(
    ("code", "check", "severity", "left"),
    [
        ("throughput/failed-requests", "throughput", Severity.ERROR, {"kv-cache-ratio"}),
        ("throughput/above-ceiling", "throughput", Severity.REVIEW, {"kv-cache-ratio"}),
        ("throughput/partial", "throughput", Severity.INFO, {"kv-cache-ratio"}),
        ("throughput/planned-missing", "throughput", Severity.REVIEW, {"kv-cache-ratio"}),
        ("prompts/degenerate-increase", "prompts", Severity.FAIL, {"kv-cache-ratio"}),
        ("arms/candidate-engine-failed", "arms", Severity.ERROR, set()),
        ("arms/runner-fault", "arms", Severity.ERROR, set()),
        ("throughput/slower", "throughput", Severity.FAIL, {"kv-cache-ratio", *SPEEDS}),
        ("throughput/unobserved", "throughput", Severity.REVIEW, {"kv-cache-ratio", *SPEEDS}),
    ],
)
def test_a_figure_that_the_gate_does_not_believe_is_none(code: str, check: str, severity: Severity, left: set[str]) -> None:
    """What a workflow rolls out by must be what the gate would stand by."""
    _, comparisons, arms = read("recorded-h200")
    found = figures(with_findings((code, check, severity)), comparisons, arms)
    assert {name for name, value in found.items() if value != UNKNOWN} == left


@pytest.mark.parametrize("outcome", [Outcome.ERROR, Outcome.NOT_COMPARABLE])
@pytest.mark.parametrize(("check", "gone"), [("accuracy", "accuracy-drop-points"), ("prompts", "changed-answers")])
def test_a_check_in_error_has_no_figure_whatever_its_findings_say(check: str, gone: str, outcome: Outcome) -> None:
    judged, comparisons, arms = read("recorded-run")
    assert figures(judged, comparisons, arms)[gone] != UNKNOWN
    checks = {**judged.checks, check: CheckOutcome(outcome=outcome, required=True)}
    found = figures(judged.model_copy(update={"checks": checks}), comparisons, arms)
    assert {value for name, value in found.items() if name.startswith(gone)} == {UNKNOWN}


def test_nothing_measured_is_no_number_and_never_empty() -> None:
    """An empty text would count as 0 in a workflow's expression, and `not-measured` as NaN."""
    missing = NotMeasured(reason=Reason(code="x", message="m"))
    empty = Comparison(candidate={"differing": True, "answered": None}, noise=None, noise_reason="one round", n=0)
    found = figures(verdict(), {"accuracy": missing, "prompts": empty}, {"baseline": None})
    assert found == nothing() == dict.fromkeys(FIGURES, UNKNOWN)
    with pytest.raises(ValueError, match="could not convert"):
        float(UNKNOWN)


@pytest.mark.parametrize("damage", ["1\nverdict=pass", "${{ github.token }}", [1], {"a": 1}, 1e999])
def test_a_record_that_holds_something_else_than_a_number_gives_none(damage: Any) -> None:
    empty = Comparison(candidate={"differing": damage, "answered": 24}, noise=None, noise_reason="r", n=0)
    found = figures(verdict(), {"prompts": empty}, {})
    assert (found["changed-answers"], found["compared-answers"]) == (UNKNOWN, "24")


def test_codes_are_ours_each_once_and_few() -> None:
    many = [(f"accuracy/x{n}", "accuracy", Severity.FAIL) for n in range(40)]
    hostile = [("a/b\nverdict=pass", "a", Severity.FAIL), ("${{x}}/y", "a", Severity.FAIL), ("::x", "a", Severity.FAIL)]
    found = codes(with_findings(*hostile, ("prompts/note", "prompts", Severity.INFO), *many), with_findings(*many))
    assert found.split(",") == [f"accuracy/x{n}" for n in range(MOST_CODES)]


def test_every_finding_of_the_recorded_runs_has_a_code_that_an_output_takes() -> None:
    for name in ("recorded-run", "recorded-h200"):
        data = json.loads((EXAMPLES / name / "verdict.json").read_text())["data"]
        expected = list(dict.fromkeys(item["code"] for item in data["findings"] if item["severity"] != "info"))
        assert codes(read(name)[0]).split(",") == (expected or [""])
