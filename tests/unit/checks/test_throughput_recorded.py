"""Load tests recorded on an H200, from the tool's own result files to what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from servegate.checks.contract import MeasureContext
from servegate.checks.throughput import comparing
from servegate.checks.throughput.ceilings import Allowance
from servegate.checks.throughput.comparing import compare
from servegate.checks.throughput.measuring import measure
from servegate.checks.throughput.presenting import present
from servegate.checks.throughput.record import ThroughputMeasurement
from servegate.checks.throughput.settings import Limits, ThroughputSettings
from servegate.checks.throughput.shape import SpeedContrast, SpeedPair
from servegate.domain.blocks import Section, Text
from servegate.domain.judgement import Comparison
from servegate.domain.load import Load, LoadSpec
from servegate.ports import Completions, Evaluator, Probes
from servegate.probes.bench_result import read_bench
from tests.unit.checks.throughput_samples import evidence, on_gpu

BENCH = Path(__file__).parents[2] / "recorded" / "bench"
IN_TURN, KV = "h200-0.25.1-aa-interleaved.json", "h200-0.25.1-qwen3-8b-fp8-kv.json"
CEILINGS = {IN_TURN: (221_420.3, 221_420.3), KV: (14_072.95, 16_074.34)}
"""Roofline of both arms at 32 in flight, output tokens per second, as those gates computed it from the models' configs."""


class Recorded:
    """Answers one load after the other with a result file of the tool."""

    def __init__(self, results: list[dict[str, Any]]) -> None:
        self.results = iter(results)

    def load(self, spec: LoadSpec) -> Load:
        return read_bench(json.dumps(next(self.results)).encode(), spec, ("vllm", "bench", "serve"))[0]


def settings_of(name: str, **limits: float) -> ThroughputSettings:
    if name == IN_TURN:
        return ThroughputSettings(windows=4, requests_per_window=64, single=None, interleave=True, limits=Limits(**limits))
    return ThroughputSettings(windows=3, single=None, limits=Limits(**limits))


def read_arm(name: str, arm: str, settings: ThroughputSettings) -> ThroughputMeasurement:
    probes = Probes(
        cast(Completions, None), Recorded(json.loads((BENCH / name).read_text())["arms"][arm]), cast(Evaluator, None)
    )
    found: ThroughputMeasurement | None = None
    for step in range(settings.steps):
        later = measure(probes, settings, MeasureContext(arm, step, on_gpu(arm), None, None, lambda _: None))
        found = found.joined(later) if found else later
    assert found is not None
    return found


def judged(monkeypatch: pytest.MonkeyPatch, name: str, **limits: float) -> tuple[SpeedPair, Section]:
    monkeypatch.setattr(comparing, "allowance", lambda *_: Allowance(CEILINGS[name], None))
    settings = settings_of(name, **limits)
    seen = evidence(*(read_arm(name, arm, settings) for arm in ("baseline", "candidate")))
    comparison = compare(seen, settings)
    assert isinstance(comparison, Comparison)
    point = SpeedContrast.model_validate(comparison.candidate).at(32)
    assert point is not None
    return point, present(comparison, seen, settings, ())


def test_the_files_become_the_windows_that_the_gates_saw() -> None:
    seen = {(name, arm): read_arm(name, arm, settings_of(name)) for name in (IN_TURN, KV) for arm in ("baseline", "candidate")}
    speeds = {key: [point.output_tokens_per_second for point in arm.points] for key, arm in seen.items()}
    assert speeds[IN_TURN, "baseline"] == pytest.approx([1604.75, 1632.62, 1844.97, 1674.85], rel=1e-4)
    assert speeds[IN_TURN, "candidate"] == pytest.approx([2264.02, 2234.69, 2323.06, 2319.87], rel=1e-4)
    assert speeds[KV, "baseline"] == pytest.approx([4184.30, 4167.08, 4269.47], rel=1e-4)
    assert speeds[KV, "candidate"] == pytest.approx([4330.76, 4248.37, 4277.93], rel=1e-4)
    assert {point.wrong_lengths for arm in seen.values() for point in arm.points} == {0}


def test_two_starts_of_one_config_measured_in_turn_are_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    point, section = judged(monkeypatch, IN_TURN)
    assert (point.claim, point.host_bound) == ("n.s.", True)
    assert (point.ratio, point.low, point.high) == pytest.approx((1.3547, 0.7765, 2.3635), abs=2e-3)
    assert "20.0% between starts, since the host sets the pace" in section.noise
    said = [block.text for block in section.blocks if isinstance(block, Text)]
    assert any(text.startswith("32 in flight: No difference beyond what two starts") for text in said)
    assert not any("Same speed, but smaller" in text for text in said)


def test_without_the_rule_of_the_host_the_same_files_claim_a_third(monkeypatch: pytest.MonkeyPatch) -> None:
    """This is what the gate said on the day. Blocks in turn and small spread do not see the luck of a start."""
    point, section = judged(monkeypatch, IN_TURN, host_share=0.0)
    assert (point.claim, point.host_bound) == ("faster", False)
    assert (point.low, point.high) == pytest.approx((1.2589, 1.4578), abs=2e-3)
    assert "1.0% between starts is assumed" in section.noise


def test_a_kv_cache_of_half_the_bytes_is_no_faster_at_short_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    point, _section = judged(monkeypatch, KV)
    assert (point.claim, point.host_bound) == ("n.s.", False)
    assert (point.ratio, point.low, point.high) == pytest.approx((1.0187, 0.9844, 1.0543), abs=1e-3)


@pytest.mark.parametrize(
    ("own", "said"), [(0.05, "20.0% between starts, since the host"), (0.3, "30.0% between starts as the config")]
)
def test_the_spread_that_is_named_is_the_one_in_the_interval(monkeypatch: pytest.MonkeyPatch, own: float, said: str) -> None:
    _point, section = judged(monkeypatch, IN_TURN, restart_sd=own)
    assert said in section.noise
