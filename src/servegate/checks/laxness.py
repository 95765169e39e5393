"""Which limits of a gate are laxer than those of the policy whose name its verdict bears.

A value in the gate config wins over its policy, so a gate may call itself `standard` and accept any loss. That is its owner's
to decide, and a reader's to know: a PASS names what it tolerated beyond the policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from servegate.checks.contract import AnyCheck
from servegate.domain.plan import Plan
from servegate.domain.policies import POLICIES, ROUNDS, PolicyName
from servegate.domain.records import Json

MORE, LESS = 1, -1
LAXER: Mapping[str, Mapping[str, int]] = {
    "accuracy": {
        "limits.pass_drop_points": MORE, "limits.fail_drop_points": MORE, "limits.smallest_n": LESS,
        "limits.no_answer_share": MORE, "limits.margin_share": MORE, "limits.ceiling_points": MORE,
    },
    "engagement": {"limits.kv_cache_tokens_share": MORE, "limits.weights_share": MORE},
    "logprobs": {
        "limits.ppl_ratio_pass": MORE, "limits.ppl_ratio_fail": MORE, "limits.smallest_tokens": LESS,
        "limits.smallest_clusters": LESS, "limits.smallest_parameters": LESS, "limits.noise_ppl_ratio": MORE,
        "limits.noise_rms_delta_p": MORE,
    },
    "prompts": {
        "contract_rounds": LESS, "samples": LESS, "limits.contract_breaks": MORE, "limits.confirm_rounds": MORE,
        "limits.degenerate_increase_points": MORE, "limits.cap_hit_increase_points": MORE,
        "limits.unseen_increase_points": MORE, "limits.fewest_prompts": LESS, "limits.length_ratio_low": LESS,
        "limits.length_ratio_high": MORE, "limits.sampled_drop_points": MORE, "limits.baseline_sound_share": LESS,
    },
    "retrieval": {
        "limits.baseline_share": LESS, "limits.fewest_prompts": LESS, "limits.confirm_rounds": MORE,
        "limits.lost_keys": MORE, "limits.drop_points": MORE,
    },
    "throughput": {
        "limits.fail_ratio": LESS, "limits.restart_sd": MORE, "limits.output_tokens_share": MORE,
        "limits.prefix_cache_hit_rate": MORE, "limits.clock_share": MORE, "limits.throttled_share": MORE,
        "limits.foreign_cpu_share": MORE, "limits.prefix_cache_difference": MORE, "limits.window_cv": MORE,
    },
}  # fmt: skip
"""Check -> dotted setting -> whether a larger or a smaller number tolerates more."""
RANKS: Mapping[Json, int] = {"review": 0, "inform": 1}
"""`limits.fact_changes`, the one limit that is no number: what asks a person tolerates less."""


def laxer(plan: Plan, checks: Mapping[str, AnyCheck]) -> tuple[str, ...]:
    """Return `check.limit: value (policy's)` of every setting that tolerates more than the plan's policy does."""
    if plan.policy not in POLICIES:
        return ()
    policy = cast(PolicyName, plan.policy)
    found = [f"rounds: {plan.rounds} ({ROUNDS[policy]})"] if plan.rounds < ROUNDS[policy] else []
    for name, check in checks.items():
        stated, own = plan.checks.get(name), POLICIES[policy].get(name, {})
        defaults = check.settings().to_json() if name in LAXER else {}
        for dotted, direction in _directions(name):
            value, usual = _at(stated, dotted), own.get(dotted, _at(defaults, dotted))
            if dotted == "limits.fact_changes":
                value, usual = RANKS.get(value), RANKS.get(usual)
            if _number(value) and _number(usual) and direction * (value - usual) > 0:
                said = (_at(stated, dotted), own.get(dotted, _at(defaults, dotted)))
                found.append(f"{name}.{dotted.removeprefix('limits.')}: {_shown(said[0])} ({_shown(said[1])})")
    return tuple(found)


def _directions(check: str) -> Iterator[tuple[str, int]]:
    yield from LAXER.get(check, {}).items()
    if check == "prompts":
        yield "limits.fact_changes", MORE


def _at(values: Json, dotted: str) -> Any:
    for part in dotted.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values


def _shown(value: Json) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
