"""What a load of this shape can show at best. Too small a load withholds no PASS: it says what it will not judge."""

from __future__ import annotations

from servegate.checks.contract import Inputs
from servegate.checks.reach import Amount, Best
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.domain.plan import Plan
from servegate.sizing.serving import KV_SPACE


def best(settings: ThroughputSettings, _inputs: Inputs | None, plan: Plan) -> Best:
    """Say when windows are too few for an interval, or the arms are to be served on a CPU as far as the plan tells."""
    remarks = []
    if settings.windows < 2:
        remarks.append("one window has no spread, so speed will not be judged; two are the least, five the default")
    if any(KV_SPACE in arm.environment for arm in plan.arms.values()):
        remarks.append(f"{KV_SPACE} is set, so this is a CPU's engine, and speed is not judged on a CPU")
    return Best(remarks=tuple(remarks))


def amount(settings: ThroughputSettings, _inputs: Inputs | None, step: int) -> Amount:
    """Return how much a step sends, warm-up left out: one load, or one window of every load."""
    shapes = settings.shapes() if settings.interleave else settings.shapes()[step : step + 1]
    sent = [(shape.windows * shape.requests, shape) for shape in shapes]
    return Amount(
        sum(requests for requests, _ in sent),
        read=sum(requests * shape.input_tokens for requests, shape in sent),
        written=sum(requests * shape.output_tokens for requests, shape in sent),
    )
