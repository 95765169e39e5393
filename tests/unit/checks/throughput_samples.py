"""Small throughput measurements to start from, and the recorded 8B load tests."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servegate.checks.contract import ArmEvidence, Evidence
from servegate.checks.throughput.record import LoadPoint, ThroughputMeasurement
from servegate.domain.evidence import EngineFacts, NotMeasured
from tests.unit.samples import engine_facts, manifest

RECORDED = Path(__file__).parents[2] / "recorded" / "throughput" / "h200-qwen3-8b.json"
CARD = {
    "uuid": "GPU-00000000", "samples": 20, "sm_clock_mhz": 1980.0, "memory_clock_mhz": 3201.0, "temperature_c": 50.0,
    "power_w": 500.0, "energy_j": 500.0, "throttled": {},
}  # fmt: skip
TELEMETRY = {"cards": [CARD], "foreign_processes": [], "foreign_cpu_cores": 0.1, "cpu_cores": 16}
"""A machine that is in order."""
LATENCIES = {"mean": 10.0, "p50": 9.0, "p90": 11.0, "p95": 12.0, "p99": 14.0}


def point(concurrency: int, block: int, speed: float, **changes: object) -> LoadPoint:
    tokens = int(str(changes.get("output_tokens", 4 * concurrency * 128)))
    values: dict[str, object] = {
        "concurrency": concurrency,
        "block": block,
        "position": 0,
        "seed": block,
        "workload_sha256": f"{concurrency}-{block}",
        "requests": 4 * concurrency,
        "completed": 4 * concurrency,
        "failed": 0,
        "input_tokens": int(str(changes.get("completed", 4 * concurrency))) * 512,
        "output_tokens": 4 * concurrency * 128,
        "duration_s": tokens / speed,
        "output_tokens_per_second": speed,
        "prefix_cache_hit_rate": 0.0,
        "foreign_requests": 0,
        "foreign_processes": [],
        "telemetry": TELEMETRY,
        **dict.fromkeys(("ttft_ms", "tpot_ms", "itl_ms", "e2e_latency_s"), LATENCIES),
    }
    return LoadPoint.model_validate({**values, **changes})


def arm(speeds: Mapping[int, Sequence[float]], **changes: object) -> ThroughputMeasurement:
    """Speeds of the windows at each concurrency; `changes` hold for every window."""
    return ThroughputMeasurement(
        points=tuple(
            point(concurrency, block, speed, **changes)
            for concurrency, windows in speeds.items()
            for block, speed in enumerate(windows)
        )
    )


def on_gpu(role: str) -> EngineFacts:
    return engine_facts(role, device="cuda")


def evidence(
    baseline: ThroughputMeasurement | NotMeasured,
    candidate: ThroughputMeasurement | NotMeasured,
    facts: tuple[EngineFacts, EngineFacts] | None = None,
) -> Evidence[ThroughputMeasurement]:
    first, second = facts or (on_gpu("baseline"), on_gpu("candidate"))
    return Evidence(ArmEvidence(first, manifest(), baseline), ArmEvidence(second, manifest(), candidate))


def recorded(name: str) -> ThroughputMeasurement:
    """One recorded window at 1, 8, 32 and 64 in flight: `bf16` or `fp8_per_channel`."""
    results: list[dict[str, Any]] = json.loads(RECORDED.read_text())["arms"][name]
    return ThroughputMeasurement(
        points=tuple(
            point(
                result["max_concurrency"],
                0,
                result["output_throughput"],
                requests=result["num_prompts"],
                completed=result["completed"],
                failed=result["failed"],
                input_tokens=result["total_input_tokens"],
                output_tokens=result["total_output_tokens"],
                duration_s=result["duration"],
                prefix_cache_hit_rate=None,
                prefix_cache_hit_rate_reason="not recorded",
                foreign_processes=None,
                foreign_processes_reason="not recorded",
                telemetry=None,
                telemetry_reason="not recorded",
                ttft_ms={name: result[f"{name}_ttft_ms"] for name in LATENCIES},
                tpot_ms={name: result[f"{name}_tpot_ms"] for name in LATENCIES},
            )
            for result in results
        )
    )
