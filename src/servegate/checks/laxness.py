"""Which limits of a gate are laxer than those of the policy whose name its verdict bears.

A value in the gate config wins over its policy, so a gate may call itself `standard` and accept any loss. That is its owner's
to decide, and a reader's to know: a PASS names what it tolerated beyond the policy. Which way a limit is loosened stands
beside it, in the settings of its check (`LAXER`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

from servegate.domain.plan import Plan
from servegate.domain.policies import POLICIES, ROUNDS, PolicyName
from servegate.domain.records import Json, Settings

MORE, LESS = 1, -1
Direction = int | tuple[Json, ...]
"""Whether a larger or a smaller number tolerates more; of a setting that is no number its values, the strictest first."""


class HasLimits(Protocol):
    """What of a check is asked here."""

    @property
    def settings(self) -> type[Settings]:
        """Its settings, whose defaults are those of a policy that does not name the check."""

    @property
    def laxer(self) -> Mapping[str, Direction]:
        """Dotted setting -> direction."""


def laxer(plan: Plan, checks: Mapping[str, HasLimits]) -> tuple[str, ...]:
    """Return `check.limit: value (policy's)` of every setting that tolerates more than the plan's policy does."""
    if plan.policy not in POLICIES:
        return ()
    policy = cast(PolicyName, plan.policy)
    found = [f"rounds: {plan.rounds} ({ROUNDS[policy]})"] if plan.rounds < ROUNDS[policy] else []
    for name, check in checks.items():
        if not check.laxer:
            continue
        stated, own, defaults = plan.checks.get(name), POLICIES[policy].get(name, {}), check.settings().to_json()
        for dotted, direction in check.laxer.items():
            value, usual = _at(stated, dotted), own.get(dotted, _at(defaults, dotted))
            if _tolerates_more(value, usual, direction):
                found.append(f"{name}.{dotted.removeprefix('limits.')}: {_shown(value)} ({_shown(usual)})")
    return tuple(found)


def _tolerates_more(value: Json, usual: Json, direction: Direction) -> bool:
    if isinstance(direction, tuple):
        return value in direction and usual in direction and direction.index(value) > direction.index(usual)
    return _number(value) and _number(usual) and direction * (value - usual) > 0


def _at(values: Json, dotted: str) -> Any:
    for part in dotted.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values


def _shown(value: Json) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _number(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
