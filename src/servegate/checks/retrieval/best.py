"""What so many long prompts can show at best: whether PASS is in their reach."""

from __future__ import annotations

from servegate.checks.contract import Inputs
from servegate.checks.lengths import longest_of
from servegate.checks.reach import Amount, Best, Short
from servegate.checks.retrieval.judging import LEAST_OF_THE_CONTEXT
from servegate.checks.retrieval.preparing import prompts_at, rooms
from servegate.checks.retrieval.settings import RetrievalSettings
from servegate.domain.plan import Plan


def best(settings: RetrievalSettings, _inputs: Inputs | None, plan: Plan) -> Best:
    """Say when a depth gets too few prompts, or the deepest fills too little of the context that is served."""
    served = longest_of(plan.arms, {name: plan.model_of(name) for name in plan.arms}, lambda _key: None)
    known = [tokens for tokens in (settings.context_tokens, served.tokens if served else None) if tokens is not None]
    limits, short = settings.limits, list[Short]()
    count = prompts_at(settings, min(known)) if known else settings.prompts_per_depth
    if count < limits.fewest_prompts:
        short.append(Short("few-prompts", f"{count} prompts at each depth, and PASS needs {limits.fewest_prompts}"))
    deepest = max(settings.depths_percent)
    room = max(rooms(settings, min(known)).values()) if served else None
    if (served and room is not None and room < LEAST_OF_THE_CONTEXT * served.tokens) or deepest <= 100 * LEAST_OF_THE_CONTEXT:
        filled = f"prompts of at most {room:,} tokens" if room is not None else f"prompts that fill less than {deepest} %"
        context = f"{served.tokens:,} tokens" if served else "the context that is served"
        short.append(
            Short(
                "context-not-filled",
                f"{filled}, and PASS needs {LEAST_OF_THE_CONTEXT:.0%} of {context} to be filled: raise depths_percent, or "
                "serve with a shorter max-model-len",
            )
        )
    return Best(tuple(short))


def amount(settings: RetrievalSettings, _inputs: Inputs | None, _step: int) -> Amount:
    """Return how much a round asks, where it is known how long the context is."""
    if settings.context_tokens is None:
        return Amount()
    room, count = rooms(settings, settings.context_tokens), prompts_at(settings, settings.context_tokens)
    return Amount(
        count * len(room),
        read=count * sum(max(0, each) for each in room.values()),
        written=count * len(room) * settings.max_tokens,
    )
