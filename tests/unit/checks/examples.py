"""One small measured arm of every check, for the contract test; a new check adds its own here.

`identical` arms must give no finding, so an example has enough samples to earn a PASS under its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.capacity.settings import CapacitySettings
from servegate.checks.contract import Inputs
from servegate.checks.engagement.settings import EngagementSettings
from servegate.checks.logprobs.settings import LogprobsSettings
from servegate.checks.prompts.settings import PromptsSettings
from servegate.checks.retrieval.settings import RetrievalSettings
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.domain.evidence import EngineFacts, Measurement, Quantization, Requested
from servegate.domain.plan import Plan
from servegate.domain.records import Settings
from tests.unit.checks import (
    accuracy_samples,
    capacity_samples,
    logprobs_samples,
    prompts_evidence,
    retrieval_samples,
    throughput_samples,
)
from tests.unit.samples import arm, engine_facts, plan


@dataclass(frozen=True)
class Example:
    """Settings, one arm's measurement (None: the check has none), and the facts, inputs and plan that go with it."""

    settings: Settings
    measurement: Measurement | None
    facts: Callable[[str], EngineFacts] = engine_facts
    inputs: Inputs | None = None
    plan: Plan = field(default_factory=plan)


def accuracy() -> Example:
    scores = accuracy_samples.pattern(500)
    return Example(AccuracySettings(), accuracy_samples.arm(scores, scores))


def logprobs() -> Example:
    def facts(role: str) -> EngineFacts:
        return engine_facts(role, weights_gib=15.3)  # large enough to be judged

    return Example(LogprobsSettings(), logprobs_samples.many(), facts, inputs=logprobs_samples.inputs(40))


def prompts() -> Example:
    same = prompts_evidence.evidence({"a": ["An answer.", "An answer."]}, {}, filler=298)  # as many as rule out one point
    measurement = same.baseline.measurement
    assert isinstance(measurement, Measurement)
    return Example(PromptsSettings(), measurement, inputs=same.inputs)


def retrieval() -> Example:
    def facts(role: str) -> EngineFacts:
        return engine_facts(role, max_model_len=100)  # the context that the example's prompts fill

    return Example(RetrievalSettings(), retrieval_samples.measurement(), facts, inputs=retrieval_samples.inputs())


def throughput() -> Example:
    speeds = {1: [100.0, 101.0], 8: [700.0, 702.0], 32: [1000.0, 1004.0], 64: [1500.0, 1490.0]}
    measured = throughput_samples.arm(speeds)
    loads = list(speeds)
    placed = tuple(point.model_copy(update={"position": loads.index(point.concurrency)}) for point in measured.points)
    whole = measured.model_copy(update={"points": placed, "planned": tuple(len(windows) for windows in speeds.values())})
    return Example(ThroughputSettings(), whole, throughput_samples.on_gpu)


def engagement() -> Example:
    def facts(role: str) -> EngineFacts:
        resolved = Quantization(resolved="none", effective_precision="BF16")
        return engine_facts(role, quantization=resolved, kv_cache_dtype=Requested(resolved="auto"), kv_cache_tokens=1000)

    same = plan(arms={"baseline": arm("baseline"), "candidate": arm("candidate")}, knobs=())
    return Example(EngagementSettings(), None, facts, plan=same)


def capacity() -> Example:
    return Example(CapacitySettings(), None, capacity_samples.on_cpu, plan=capacity_samples.smollm2_plan())


EXAMPLES: Mapping[str, Callable[[], Any]] = {
    "accuracy": accuracy,
    "engagement": engagement,
    "capacity": capacity,
    "logprobs": logprobs,
    "prompts": prompts,
    "retrieval": retrieval,
    "throughput": throughput,
}
