"""One small measured arm of every check, for the contract test; a new check adds its own here.

`identical` arms must give no finding, so an example has enough samples to earn a PASS under its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.contract import Inputs
from servegate.checks.logprobs.settings import LogprobsSettings
from servegate.checks.prompts.settings import PromptsSettings
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.domain.evidence import EngineFacts, Measurement
from servegate.domain.records import Settings
from tests.unit.checks import accuracy_samples, logprobs_samples, prompts_evidence, throughput_samples
from tests.unit.samples import engine_facts


@dataclass(frozen=True)
class Example:
    """Settings, one arm's measurement, and the facts and inputs that go with it."""

    settings: Settings
    measurement: Measurement
    facts: Callable[[str], EngineFacts] = engine_facts
    inputs: Inputs | None = None


def accuracy() -> Example:
    scores = accuracy_samples.pattern(500)
    return Example(AccuracySettings(), accuracy_samples.arm(scores, scores))


def logprobs() -> Example:
    return Example(LogprobsSettings(), logprobs_samples.many(), inputs=logprobs_samples.inputs())


def prompts() -> Example:
    same = prompts_evidence.evidence({"a": ["An answer.", "An answer."]}, {})
    measurement = same.baseline.measurement
    assert isinstance(measurement, Measurement)
    return Example(PromptsSettings(), measurement, inputs=same.inputs)


def throughput() -> Example:
    speeds = {1: [100.0, 101.0], 8: [700.0, 702.0], 32: [1000.0, 1004.0], 64: [1500.0, 1490.0]}
    return Example(ThroughputSettings(), throughput_samples.arm(speeds), throughput_samples.on_gpu)


EXAMPLES: Mapping[str, Callable[[], Any]] = {
    "accuracy": accuracy,
    "logprobs": logprobs,
    "prompts": prompts,
    "throughput": throughput,
}
