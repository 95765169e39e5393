"""What a verdict says where no task with right answers was asked."""

from __future__ import annotations

from servegate.checks.contract import finding
from servegate.checks.served_models import ARMS
from servegate.domain.judgement import Finding, Severity
from servegate.domain.plan import Plan


def absent(plan: Plan) -> tuple[Finding, ...]:
    """Only `quick` gives a PASS to answers that were compared and never marked."""
    if plan.policy == "quick":
        return ()
    message = f"accuracy was not checked, and policy {plan.policy} gives no PASS without it (`policy: quick` does)"
    return (finding(ARMS, "no-accuracy", Severity.REVIEW, message),)
