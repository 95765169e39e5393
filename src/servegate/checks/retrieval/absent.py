"""What a verdict says where no long prompt was asked."""

from __future__ import annotations

from servegate.checks.contract import finding
from servegate.checks.retrieval.choosing import causes_of
from servegate.checks.served_models import ARMS
from servegate.domain.judgement import Finding, Severity
from servegate.domain.plan import Plan


def absent(plan: Plan) -> tuple[Finding, ...]:
    """Only long prompts show what a KV cache loses, so a change of it that was not looked at there has not earned a PASS."""
    causes = causes_of(plan.knobs, (plan.model_of(name) for name in plan.arms))
    if not causes:
        return ()
    message = f"{' and '.join(causes)} changed and no long prompt was asked (check `retrieval`): lost context would not be seen"
    severity = Severity.INFO if plan.policy == "quick" else Severity.REVIEW
    return (finding(ARMS, "no-long-prompts", severity, message),)
