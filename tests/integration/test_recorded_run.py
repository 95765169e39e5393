"""The recorded run that ships with the project: a real gate of FP8 weights on a CPU. It must judge today as it did then."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from servegate import pipeline
from servegate.artifacts import RunDirectory
from servegate.checks.throughput.record import ThroughputMeasurement
from servegate.domain.judgement import Comparison, Outcome

RECORDED = Path(__file__).resolve().parents[2] / "examples/recorded-run"
ON_A_CARD = RECORDED.with_name("recorded-h200")
"""The shape of an 8B model, BF16 -> FP8, speed and capacity alone."""


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """The evidence alone: products are deleted, which loses nothing."""
    shutil.copytree(RECORDED, tmp_path / "run", ignore=shutil.ignore_patterns("report", "comparisons", "verdict.json"))
    return RunDirectory.open(tmp_path / "run")


def test_it_fails_for_broken_contracts_and_is_otherwise_for_review(run: RunDirectory) -> None:
    verdict = pipeline.compare(run)
    assert verdict.outcome is Outcome.FAIL
    by_severity: dict[str, set[str]] = {}
    for finding in verdict.findings:
        by_severity.setdefault(finding.severity.value, set()).add(finding.code)
    assert by_severity["fail"] == {"prompts/contract-broken"}
    assert "accuracy/smoke-test" in by_severity["review"]


def test_its_evidence_gives_the_same_bytes_twice(run: RunDirectory) -> None:
    def products() -> dict[str, bytes]:
        pipeline.compare(run)
        pipeline.report(run)
        paths = [run.root / "verdict.json", *run.root.glob("comparisons/*"), *run.root.glob("report/**/*")]
        return {str(path.relative_to(run.root)): path.read_bytes() for path in paths if path.is_file()}

    first = products()
    assert {"verdict.json", "report/report.html", "report/comment.md", "report/environment.json"} <= set(first)
    assert products() == first


def test_what_decides_is_read_first_and_its_evidence_is_one_click_away(run: RunDirectory) -> None:
    pipeline.compare(run)
    page = pipeline.report(run)["report.html"].decode()
    places = [page.index(f'<section class="check {outcome}"') for outcome in ("fail", "review")]
    assert places == sorted(places)
    for broken in ("extract-order", "extract-letter", "structured-weather"):
        found = re.search(rf'<a href="#(s\d+-pair-\d+)"><code>{broken} ', page)
        assert found is not None
        assert f'id="{found[1]}"' in page


@pytest.mark.parametrize("recorded", [RECORDED, ON_A_CARD], ids=lambda path: path.name)
def test_it_names_no_machine(recorded: Path) -> None:
    for path in recorded.rglob("*"):
        if path.is_file() and path.suffix != ".npz":
            text = path.read_text(errors="replace")
            assert "/root" not in text, path


def test_what_the_engines_were_asked_for_and_did_is_on_record(run: RunDirectory) -> None:
    facts = run.read_engine("candidate")
    assert facts is not None
    assert facts.quantization.requested == "fp8_per_channel"
    assert facts.quantized_layers == 120
    assert json.loads((run.root / "run.json").read_text())["status"] == "complete"


def test_speed_and_energy_of_a_real_card_are_read_as_they_were(tmp_path: Path) -> None:
    shutil.copytree(ON_A_CARD, tmp_path / "run", ignore=shutil.ignore_patterns("report", "comparisons", "verdict.json"))
    run = RunDirectory.open(tmp_path / "run")
    verdict = pipeline.compare(run)
    assert verdict.outcome is Outcome.REVIEW, "no answer was asked for: the weights are noise"
    assert verdict.checks["throughput"].outcome is Outcome.PASS
    comparison = run.read_comparison("throughput")
    assert isinstance(comparison, Comparison)
    assert comparison.estimates["judged_ratio"].value == pytest.approx(1.232, abs=5e-4)
    used = {}
    for arm in ("baseline", "candidate"):
        measured = run.read_measurement(arm, "throughput", ThroughputMeasurement)
        assert isinstance(measured, ThroughputMeasurement)
        points = [point for point in measured.points if point.concurrency == 32]
        used[arm] = 1000 * sum(point.energy_joules or 0 for point in points) / sum(point.output_tokens for point in points)
    assert used == pytest.approx({"baseline": 173.9, "candidate": 121.8}, abs=0.05), "joules per 1,000 tokens"
