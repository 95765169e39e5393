"""What so many prompts can show at best: whether PASS is in their reach."""

from __future__ import annotations

from servegate.checks.contract import Inputs
from servegate.checks.points import points
from servegate.checks.prompts.records import PromptsInputs
from servegate.checks.prompts.settings import PromptsSettings
from servegate.checks.reach import Amount, Best, Short
from servegate.domain.plan import Plan
from servegate.stats.intervals import questions_needed


def best(settings: PromptsSettings, inputs: Inputs | None, _plan: Plan) -> Best:
    """Say when the prompts are too few, or leave an increase of broken answers possible that nobody would see."""
    if not isinstance(inputs, PromptsInputs):
        return Best()
    limits, distinct = settings.limits, len({prompt.prompt_sha256 for prompt in inputs.prompts})
    short = []
    if distinct < limits.fewest_prompts:
        short.append(Short("few-prompts", f"{distinct} different prompts, and PASS needs {limits.fewest_prompts}"))
    unseen = points("unseen", [0.0] * distinct).get("unseen")
    possible = 100.0 if unseen is None or unseen.high is None else unseen.high
    if possible >= limits.unseen_increase_points:
        needed = questions_needed(limits.unseen_increase_points / 100, 0.0, 0.05)
        short.append(
            Short(
                "increase-not-ruled-out",
                f"{distinct} prompts leave {possible:.1f} points of broken answers possible, and PASS needs less than "
                f"{limits.unseen_increase_points:g}: {needed} prompts, or as many questions of `accuracy`, would do",
            )
        )
    return Best(tuple(short), needs_points=limits.unseen_increase_points)


def amount(settings: PromptsSettings, inputs: Inputs | None, _step: int) -> Amount:
    """Return how much is asked: every prompt of the step, each sample of a sampled one."""
    if not isinstance(inputs, PromptsInputs):
        return Amount()
    times = settings.samples if inputs.asked == "sampled" else 1
    return Amount(times * len(inputs.prompts), written=times * sum(prompt.max_tokens for prompt in inputs.prompts))
