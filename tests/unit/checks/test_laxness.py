"""A verdict bears a policy's name; what its gate tolerated beyond that policy stands beside it."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from servegate.checks import discovered
from servegate.checks.laxness import LESS, laxer
from servegate.domain.judgement import Outcome
from servegate.domain.policies import POLICIES, PolicyName, with_policy
from servegate.domain.records import Json
from tests.unit.checks.test_verdict import a_check, result, verdict
from tests.unit.samples import plan

CHECKS = discovered()
LAXER = {name: check.laxer for name, check in CHECKS.items() if check.laxer}


def settings(policy: PolicyName, check: str, **limits: Json) -> dict[str, Json]:
    filled, _ = with_policy(policy, check, {"limits": limits})
    return CHECKS[check].settings.model_validate(filled).to_json()


def told(policy: PolicyName, check: str, **limits: Json) -> tuple[str, ...]:
    rounds = {"quick": 2, "standard": 2, "release": 4}[policy]
    return laxer(plan(policy=policy, rounds=rounds, checks={check: settings(policy, check, **limits)}), {check: CHECKS[check]})


def test_every_limit_that_is_a_number_has_a_direction() -> None:
    """A limit that is added later, and is forgotten here, could be loosened without a word."""
    for name, check in CHECKS.items():
        limits: dict[str, Any] = check.settings().to_json().get("limits") or {}
        numbers = {f"limits.{key}" for key, value in limits.items() if isinstance(value, int | float)}
        assert numbers == {key for key, way in check.laxer.items() if key.startswith("limits.") and isinstance(way, int)}, name


@pytest.mark.parametrize("policy", get_args(PolicyName))
def test_a_policy_is_not_laxer_than_itself(policy: PolicyName) -> None:
    for name in CHECKS:
        assert told(policy, name) == () if "limits" in CHECKS[name].settings.model_fields else True


@pytest.mark.parametrize(
    ("check", "dotted"),
    [(check, key) for check, keys in LAXER.items() for key in keys if "." in key and isinstance(keys[key], int)],
)
def test_every_limit_that_is_loosened_is_told_and_none_that_is_tightened(check: str, dotted: str) -> None:
    standard = settings("standard", check)["limits"]
    name = dotted.removeprefix("limits.")
    usual, step = standard[name], 1 if isinstance(standard[name], int) else 0.0001
    more, less = usual + step, usual - step
    changed = (less, more) if LAXER[check][dotted] is LESS else (more, less)
    for value, expected in zip(changed, (1, 0), strict=True):
        stated = {check: {"limits": {**standard, name: value}}}
        assert len(laxer(plan(policy="standard", checks=stated), {check: CHECKS[check]})) == expected, value


def test_a_pass_under_limits_that_nothing_could_fail_says_so_in_its_headline() -> None:
    loose = settings("release", "accuracy", pass_drop_points=100, fail_drop_points=99, smallest_n=1)
    made = verdict(result(check=CHECKS["accuracy"]), the_plan=plan(policy="release", checks={"accuracy": loose}))
    assert made.outcome is Outcome.PASS
    assert "limits laxer than policy release's: rounds: 2 (4), accuracy.pass_drop_points: 100 (1.5)" in made.headline
    assert "accuracy.smallest_n: 1 (2600)" in made.headline


def test_fact_changes_that_only_inform_are_laxer_where_the_policy_asks_a_person() -> None:
    assert told("release", "prompts", fact_changes="inform") == ("prompts.fact_changes: inform (review)",)
    assert told("standard", "prompts", fact_changes="review") == ()


def test_a_quick_pass_names_its_policy_and_an_old_plan_is_judged_by_what_it_holds() -> None:
    assert verdict(result()).headline == "no damage found under policy quick"
    accuracy = result(check=a_check("accuracy"))
    assert verdict(accuracy, the_plan=plan(policy="standard")).headline == "no damage found"
    assert laxer(plan(policy="of-another-version"), CHECKS) == ()
    assert laxer(plan(policy="standard", checks={"prompts": {"limits": None}, "accuracy": None}), CHECKS) == ()
    assert set(LAXER) >= {check for policy in POLICIES.values() for check in policy}
