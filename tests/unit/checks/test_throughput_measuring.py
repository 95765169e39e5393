"""What load is asked for, and that both arms and every round get comparable work."""

from __future__ import annotations

from typing import cast

import pytest
from pydantic import ValidationError

from servegate.checks.contract import MeasureContext
from servegate.checks.throughput import CHECK
from servegate.checks.throughput.measuring import items, measure
from servegate.checks.throughput.record import ThroughputMeasurement
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.domain.workload import LoadResult, LoadSpec
from servegate.ports import Completions, Evaluator, Probes
from tests.unit.samples import engine_facts


class FakeLoad:
    """Reports a plausible result for each point; remembers what it was asked."""

    def __init__(self) -> None:
        self.specs: list[LoadSpec] = []

    def load(self, spec: LoadSpec) -> LoadResult:
        self.specs.append(spec)
        return LoadResult(
            requests=spec.requests, completed=spec.requests, failed=0, input_tokens=spec.requests * spec.input_tokens,
            output_tokens=spec.requests * spec.output_tokens, duration_s=1.0, output_tokens_per_second=100.0,
            ttft_ms={"p50": 1.0}, tpot_ms={"p50": 1.0}, itl_ms={"p50": 1.0}, e2e_latency_s={"p50": 1.0},
            prefix_cache_hit_rate=0.0, command=("vllm", "bench"),
        )  # fmt: skip


def run(settings: ThroughputSettings, step: int, arm: str = "baseline") -> tuple[ThroughputMeasurement, FakeLoad, list[int]]:
    load, advanced = FakeLoad(), cast(list[int], [])
    probes = Probes(cast(Completions, None), load, cast(Evaluator, None))
    context: MeasureContext[ThroughputMeasurement] = MeasureContext(arm, step, engine_facts(), None, None, advanced.append)
    return measure(probes, settings, context), load, advanced


def test_a_step_is_one_window_at_every_concurrency() -> None:
    settings = ThroughputSettings(concurrency=(32, 1, 8))
    measurement, load, advanced = run(settings, 2)
    assert [spec.concurrency for spec in load.specs] == [1, 8, 32]
    assert [spec.requests for spec in load.specs] == [12, 32, 128]
    assert [spec.warm_up_requests for spec in load.specs] == [1, 8, 32]
    assert [(point.block, point.position) for point in measurement.points] == [(2, 0), (2, 1), (2, 2)]
    assert sum(advanced) == items(settings, None) == 172
    assert settings.steps == 5
    assert len({spec.label for spec in load.specs}) == 3


def test_windows_draw_new_prompts_and_arms_the_same() -> None:
    settings = ThroughputSettings()
    windows = [run(settings, step)[0] for step in range(5)]
    seeds = [point.seed for window in windows for point in window.points]
    assert len(set(seeds)) == len(seeds) == 20
    assert len({point.workload_sha256 for window in windows for point in window.points}) == 20
    assert run(settings, 3, "candidate")[0] == windows[3]
    joined = windows[0].joined(windows[1])
    assert [point.block for point in joined.points] == [0] * 4 + [1] * 4


def test_what_was_not_observed_has_a_reason() -> None:
    point = run(ThroughputSettings(), 0)[0].points[0]
    assert point.foreign_processes is None
    assert point.foreign_processes_reason
    assert point.energy_joules is None
    assert point.energy_joules_reason


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"concurrency": (1, 8)}, r"judged_at \(32\) must be one of concurrency \[1, 8\]"),
        ({"concurrency": (32, 32)}, "different numbers"),
        ({"concurrency": (0, 32)}, "at least 1"),
        ({"concurrency": ()}, "at least 1 item"),
        ({"requests_per_window": 8}, "many would never be in flight"),
        ({"windows": 0}, "greater than or equal to 1"),
        ({"slo_ms": {}}, "Extra inputs"),
        ({"input_tokens": "512"}, "valid integer"),
    ],
)
def test_wrong_settings_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        ThroughputSettings.model_validate(values)


def test_speed_is_never_required_for_a_pass() -> None:
    assert CHECK.required is False
    assert ThroughputSettings().limits.fail_ratio == 0.95
