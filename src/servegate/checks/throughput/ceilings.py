"""The roofline beside latency with one request in flight: what the card's bandwidth allows at most."""

from __future__ import annotations

from servegate.checks.capacity.comparing import room_of
from servegate.checks.contract import ArmEvidence, Evidence
from servegate.checks.throughput.record import ThroughputMeasurement
from servegate.checks.throughput.settings import SINGLE, ThroughputSettings
from servegate.checks.throughput.shape import SpeedPair
from servegate.domain.plan import Plan
from servegate.sizing import Prediction, predicted


def with_ceilings(point: SpeedPair, evidence: Evidence[ThroughputMeasurement], settings: ThroughputSettings) -> SpeedPair:
    """Add both arms' ceilings to the load with one request in flight; or why there are none."""
    if point.concurrency != 1:
        return point
    if evidence.plan is None:
        return point.model_copy(update={"ceilings_reason": "the plan is not known"})
    one = settings.single if point.load == SINGLE and settings.single is not None else settings
    context = one.input_tokens + one.output_tokens // 2
    found = [
        _ceiling(evidence.plan, name, side, context)
        for name, side in (("baseline", evidence.baseline), ("candidate", evidence.candidate))
    ]
    values = tuple(each if isinstance(each, float) else None for each in found)
    reason = next((each for each in found if isinstance(each, str)), None)
    return point.model_copy(update={"ceilings": values, "ceilings_reason": reason})


def _ceiling(plan: Plan, name: str, side: ArmEvidence[ThroughputMeasurement], context: int) -> float | str:
    arm = plan.arms[name]
    room = room_of(arm, side.engine, side.manifest)
    environment = {**arm.environment, **(side.manifest.environment if side.manifest else {})}
    found = predicted(plan.model_of(name).config, arm.config.options, environment, room, context)
    if not isinstance(found, Prediction):
        return found
    return found.decode_one if found.decode_one is not None else found.decode_reason or "not predicted"
