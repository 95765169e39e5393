"""Whether PASS is in reach of a plan at all: every check's own word on faultless evidence, and what the plan itself says.

The rules are those that judge: a check computes with the functions and limits of its `judge`, the plan's findings are those of
`arms`, and what one check settles for another is settled here as well (`settling`).
"""

from __future__ import annotations

from collections.abc import Mapping

from servegate.checks import discovered
from servegate.checks.arms import foreseen
from servegate.checks.contract import Inputs
from servegate.checks.reach import Best
from servegate.checks.settling import OPEN
from servegate.domain.judgement import Severity
from servegate.domain.plan import Plan
from servegate.domain.records import Settings


def out_of_reach(
    plan: Plan, settings: Mapping[str, Settings], inputs: Mapping[str, Inputs]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return why PASS is out of reach (nothing where it may be reached), and remarks of what will not be judged."""
    known = {name: check for name, check in discovered().items() if name in settings}
    bests = {name: check.best(settings[name], inputs.get(name), plan) for name, check in known.items()}
    reasons = [item.message for item in foreseen(plan, known) if item.severity is not Severity.INFO]
    for name, best in bests.items():
        if not known[name].required:
            continue
        reasons += [
            f"{name}: {short.message}" for short in best.short if not _settled(f"{name}/{short.code}", name, best, bests)
        ]
    remarks = [f"{name}: {said}" for name, best in bests.items() for said in best.remarks]
    return tuple(reasons), tuple(remarks)


def _settled(code: str, own: str, best: Best, bests: Mapping[str, Best]) -> bool:
    """Whether another check's answers can rule out what these few leave open."""
    others = [each.leaves_points for name, each in bests.items() if name != own and each.leaves_points is not None]
    return code == OPEN and best.needs_points is not None and any(points < best.needs_points for points in others)
