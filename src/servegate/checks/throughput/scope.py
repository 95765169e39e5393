"""What was asked, in a few words: the load that the judged ratio belongs to."""

from __future__ import annotations

from servegate.checks.contract import Evidence
from servegate.checks.throughput.record import ThroughputMeasurement
from servegate.checks.throughput.settings import ThroughputSettings


def scope(evidence: Evidence[ThroughputMeasurement], settings: ThroughputSettings) -> str:  # noqa: ARG001 - the settings say it
    """Return e.g. `512 tokens in, 128 out, judged at 32 in flight`."""
    return f"{settings.input_tokens:,} tokens in, {settings.output_tokens:,} out, judged at {settings.judged_at} in flight"
