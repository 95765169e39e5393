"""What load is asked for, and that both arms and every round get comparable work."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from pydantic import ValidationError

from servegate.checks.contract import MeasureContext
from servegate.checks.throughput import CHECK
from servegate.checks.throughput.measuring import items, measure
from servegate.checks.throughput.record import ThroughputMeasurement
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.domain.load import Load, LoadResult, LoadSpec
from servegate.errors import MeasurementError
from servegate.ports import Completions, Evaluator, Probes
from tests.unit.samples import engine_facts


class FakeLoad:
    """Reports a plausible result for each window; remembers what it was asked."""

    def __init__(self) -> None:
        self.specs: list[LoadSpec] = []

    def load(self, spec: LoadSpec) -> Load:
        self.specs.append(spec)
        windows = tuple(
            LoadResult(
                requests=spec.requests, completed=spec.requests, failed=0, input_tokens=spec.requests * spec.input_tokens,
                output_tokens=spec.requests * spec.output_tokens, duration_s=1.0, output_tokens_per_second=100.0,
                ttft_ms={"p50": 1.0}, tpot_ms={"p50": 1.0}, itl_ms={"p50": 1.0}, e2e_latency_s={"p50": 1.0},
                prefix_cache_hit_rate=0.0, command=("vllm", "bench"), first_row=index * spec.requests, rows=spec.requests,
            )
            for index in range(spec.windows)
        )  # fmt: skip
        return Load(windows, {"ttft_ms": np.full(spec.windows * spec.requests, spec.concurrency, dtype="<f4")})


def run(settings: ThroughputSettings, step: int, arm: str = "baseline") -> tuple[ThroughputMeasurement, FakeLoad, list[int]]:
    load, advanced = FakeLoad(), cast(list[int], [])
    probes = Probes(cast(Completions, None), load, cast(Evaluator, None))
    context: MeasureContext[ThroughputMeasurement] = MeasureContext(arm, step, engine_facts(), None, None, advanced.append)
    return measure(probes, settings, context), load, advanced


def whole(settings: ThroughputSettings, arm: str = "baseline") -> tuple[ThroughputMeasurement, list[LoadSpec]]:
    """Run every step of an arm."""
    steps = [run(settings, step, arm) for step in range(settings.steps)]
    found = steps[0][0]
    for later, _, _ in steps[1:]:
        found = found.joined(later)
    return found, [spec for _, load, _ in steps for spec in load.specs]


def test_the_defaults_are_the_serving_load_and_one_request_alone() -> None:
    settings = ThroughputSettings()
    measurement, specs = whole(settings)
    assert [(spec.input_tokens, spec.output_tokens, spec.concurrency, spec.windows) for spec in specs] == [
        (1000, 256, 1, 5),
        (512, 128, 32, 5),
    ]
    assert [(spec.requests, spec.lead_in, spec.total) for spec in specs] == [(6, 1, 31), (128, 32, 672)]
    assert {(point.load, point.concurrency) for point in measurement.points} == {("single", 1), ("serving", 32)}
    assert [point.id for point in measurement.points][4:6] == ["single/4", "32/0"]
    assert (sum(run(settings, 1)[2]), items(settings, None), settings.steps) == (640, None, 2)


def test_a_load_is_one_run_of_the_tool_and_its_rows_stay_with_its_windows() -> None:
    measurement, specs = whole(ThroughputSettings(concurrency=(32, 1, 8), windows=2, single=None))
    assert [spec.concurrency for spec in specs] == [1, 8, 32]
    assert [spec.requests for spec in specs] == [12, 32, 128]
    assert len({spec.label for spec in specs}) == 3
    for point in measurement.points:
        assert point.first_row is not None
        assert point.rows is not None
        rows = measurement.columns["ttft_ms"][point.first_row : point.first_row + point.rows]
        assert set(rows) == {point.concurrency}


def test_a_block_in_turn_is_one_window_of_every_load() -> None:
    settings = ThroughputSettings(concurrency=(32,), windows=4, interleave=True)
    assert settings.steps == 4
    assert items(settings, None) == 6 + 128
    measurement, specs = whole(settings)
    assert [(spec.concurrency, spec.windows) for spec in specs] == [(1, 1), (32, 1)] * 4
    assert [(point.load, point.block) for point in measurement.points] == [
        (load, block) for block in range(4) for load in ("single", "serving")
    ]
    assert len({spec.seed for spec in specs}) == 8


def test_a_window_holds_whole_rounds_and_a_lead_in_is_one() -> None:
    settings = ThroughputSettings(concurrency=(32,), requests_per_window=50, warm_up_requests=8, single=None)
    (shape,) = settings.shapes()
    assert (shape.requests, shape.warm_up, shape.lead_in) == (64, 8, 0)


def test_loads_draw_other_prompts_and_arms_the_same() -> None:
    settings = ThroughputSettings(concurrency=(8, 32))
    measurement, specs = whole(settings)
    assert len({spec.seed for spec in specs}) == 3
    assert len({point.workload_sha256 for point in measurement.points}) == 15
    assert whole(settings, "candidate")[0].points == measurement.points
    assert whole(ThroughputSettings(concurrency=(8, 32), seed=7))[0].points[0].workload_sha256 not in {
        point.workload_sha256 for point in measurement.points
    }


@pytest.mark.parametrize(
    "settings",
    [
        ThroughputSettings(),
        ThroughputSettings(windows=1),
        ThroughputSettings(concurrency=(1, 8, 32), windows=2),
        ThroughputSettings(windows=4, interleave=True),
        ThroughputSettings(windows=1, interleave=True),
    ],
)
def test_a_window_that_was_planned_and_is_gone_is_told(settings: ThroughputSettings) -> None:
    """Removed from both arms it pairs perfectly, so only the plan's steps can tell."""
    measured, _ = whole(settings)
    steps = tuple(range(settings.steps))
    assert measured.gaps(steps, 2, None) == ()
    for left_out in measured.points:
        rest = measured.model_copy(update={"points": tuple(point for point in measured.points if point != left_out)})
        assert rest.gaps(steps, 2, None), left_out.id


def test_what_was_not_observed_has_a_reason() -> None:
    point = run(ThroughputSettings(), 0)[0].points[0]
    assert point.foreign_processes is None
    assert point.foreign_processes_reason
    assert point.energy_joules is None
    assert point.energy_joules_reason


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"concurrency": (1, 8)}, r"judged_at is 32, which is none of `concurrency` \(allowed: 1, 8\), did you mean 8\?"),
        ({"concurrency": (32, 32)}, "concurrency holds 32 twice"),
        ({"concurrency": (0, 32)}, "concurrency holds 0: allowed are whole numbers from 1"),
        ({"concurrency": ()}, "at least 1 item"),
        ({"requests_per_window": 8}, "requests_per_window is 8, so the 32 of `concurrency` would never be in flight"),
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


@pytest.mark.parametrize(("longest", "refused"), [(639, True), (640, False), (None, False)])
def test_an_engine_that_serves_less_than_its_config_says_is_not_loaded_in_vain(longest: int | None, refused: bool) -> None:
    """A declared fallback may have lowered the context; without this the load was INVALID after minutes."""
    load = FakeLoad()
    probes = Probes(cast(Completions, None), load, cast(Evaluator, None))
    facts = engine_facts().model_copy(update={"max_model_len": longest})
    context = MeasureContext[ThroughputMeasurement](
        arm="baseline", step=0, engine=facts, inputs=None, baseline=None, advance=lambda _n: None
    )
    settings = ThroughputSettings(single=None, input_tokens=512, output_tokens=128)
    if refused:
        with pytest.raises(MeasurementError, match="512 tokens of prompt and 128 of answer do not fit into the 639"):
            measure(probes, settings, context)
    else:
        measure(probes, settings, context)
    assert bool(load.specs) is not refused
