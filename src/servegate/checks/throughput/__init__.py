"""Is the candidate slower?

`vllm bench serve` loads both arms with the same prompts, several windows at each concurrency. Speeds are compared as a
ratio with an interval that includes what differs between two starts of an unchanged server. Where the numbers prove
nothing (a CPU's stand-in kernels, failed requests, a warm cache) the section says so instead of judging.
"""

from __future__ import annotations

from servegate.checks.contract import Check
from servegate.checks.throughput.best import amount, best
from servegate.checks.throughput.comparing import compare
from servegate.checks.throughput.figures import figures
from servegate.checks.throughput.fitting import fit
from servegate.checks.throughput.judging import CHECK_NAME, judge
from servegate.checks.throughput.measuring import items, measure
from servegate.checks.throughput.presenting import present
from servegate.checks.throughput.record import ThroughputMeasurement
from servegate.checks.throughput.scope import scope
from servegate.checks.throughput.settings import LAXER, ThroughputSettings

CHECK = Check(
    name=CHECK_NAME,
    settings=ThroughputSettings,
    laxer=LAXER,
    best=best,
    amount=amount,
    measurement=ThroughputMeasurement,
    measure=measure,
    fit=fit,
    compare=compare,
    judge=judge,
    present=present,
    figures=figures,
    scope=scope,
    required=False,
    steps=lambda settings, _inputs, _rounds: settings.steps,
    items=items,
    interleaved=lambda settings: settings.interleave,
)
