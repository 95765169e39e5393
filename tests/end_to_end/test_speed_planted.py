"""Two faults planted in a load test on the real vLLM of the CPU: both are named, and neither becomes a claim about speed.

`benchmarks/planted_speed.py` plants five; these two are the ones that a fake engine could not show.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.planted_speed import Lab, failing, judged, served, warm_cache

from servegate.checks.throughput.record import ThroughputMeasurement
from tests.conftest import missing

pytestmark = [pytest.mark.end_to_end, pytest.mark.timeout(900)]

MODEL = Path(__file__).resolve().parents[2] / ".demo/smollm2-135m-instruct"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, ThroughputMeasurement]]:
    """An engine, and what a healthy load of it brought."""
    engine = os.environ.get("SERVEGATE_TEST_ENGINE") or missing("SERVEGATE_TEST_ENGINE (a vllm executable)")
    if not MODEL.exists():
        missing("the demo's model (`make engine`)")
    with served(engine, str(MODEL.resolve()), tmp_path_factory.mktemp("planted")) as lab:
        yield lab, lab.load("healthy")


def test_a_healthy_load_is_whole(loaded: tuple[Lab, ThroughputMeasurement]) -> None:
    _lab, healthy = loaded
    assert [(point.completed, point.failed, point.wrong_lengths) for point in healthy.points] == [(8, 0, 0)] * 2
    assert all(point.prefix_cache_hit_rate == 0 and point.foreign_requests == 0 for point in healthy.points)
    assert all(point.telemetry is not None and point.telemetry.foreign_cpu_cores is not None for point in healthy.points)


def test_a_warm_prefix_cache_is_invalid(loaded: tuple[Lab, ThroughputMeasurement]) -> None:
    lab, healthy = loaded
    found, claim = judged(lab, healthy, warm_cache(lab))
    assert ("warm-cache" in found, claim) == (True, "INVALID")


def test_a_stream_that_breaks_is_a_failed_request(loaded: tuple[Lab, ThroughputMeasurement]) -> None:
    lab, healthy = loaded
    found, claim = judged(lab, healthy, failing(lab))
    assert ("failed-requests" in found, claim) == (True, "INVALID")
