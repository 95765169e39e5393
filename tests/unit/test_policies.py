"""Policies: one place for their numbers, which exist, override nothing, and say where they came from."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from servegate.checks import discovered
from servegate.config import GateConfig, Overrides, load, resolve
from servegate.domain.plan import Plan
from servegate.domain.policies import POLICIES, ROUNDS, PolicyName, with_policy
from servegate.errors import UsageError

CONFIG = """
version: 1
gate: g
policy: {policy}
arms:
  baseline: {{config: a.yaml}}
  candidate: {{config: b.yaml}}
checks:
  prompts: {{file: prompts.jsonl{more}}}
"""


def plan(tmp_path: Path, policy: str, more: str = "") -> Plan:
    (tmp_path / "a.yaml").write_text("model: m\n")
    (tmp_path / "b.yaml").write_text("model: m\nquantization: fp8\n")
    prompts = '{"id": "a", "prompt": "x", "expect": {"json": true}}\n{"id": "b", "prompt": "y"}\n'
    (tmp_path / "prompts.jsonl").write_text(prompts)
    (tmp_path / "servegate.yaml").write_text(CONFIG.format(policy=policy, more=more))
    return resolve(load(tmp_path / "servegate.yaml", Overrides())).plan


def test_every_policy_names_settings_that_exist_and_standard_is_the_default() -> None:
    assert set(POLICIES) == set(ROUNDS) == set(get_args(PolicyName))
    for policy, checks in POLICIES.items():
        for name in checks:
            filled, added = with_policy(policy, name, {})
            made = discovered()[name].settings.model_validate(filled)
            assert set(added) == set(POLICIES["standard"][name]), "each policy decides the same settings"
            if policy == "standard":
                assert made == discovered()[name].settings()
    assert ROUNDS["standard"] == GateConfig.model_fields["rounds"].default


def test_each_policy_is_at_least_as_strict_as_the_one_before() -> None:
    drops = [POLICIES[name]["accuracy"]["limits.pass_drop_points"] for name in ("quick", "standard", "release")]
    assert drops == sorted(drops, reverse=True)
    assert all(POLICIES[name]["accuracy"]["limits.smallest_n"] >= 500 for name in POLICIES), "fewer are a smoke test"


def test_the_policy_decides_what_the_config_leaves_out_and_the_plan_says_so(tmp_path: Path) -> None:
    made = plan(tmp_path, "release", ", limits: {fewest_prompts: 30}")
    limits = made.checks["prompts"]["limits"]
    assert (limits["fewest_prompts"], limits["fact_changes"], made.rounds) == (30, "review", 4)
    assert made.settings["checks.prompts.limits.fewest_prompts"].source.endswith("servegate.yaml:9")
    assert made.settings["checks.prompts.limits.fact_changes"].source == "policy"
    assert made.settings["rounds"].source == "policy"
    assert made.settings["checks.prompts.limits.baseline_sound_share"].source == "default"


def test_another_policy_is_another_policy_fingerprint(tmp_path: Path) -> None:
    standard, release = plan(tmp_path, "standard").fingerprints, plan(tmp_path, "release").fingerprints
    assert standard.policy != release.policy


@pytest.mark.parametrize(
    ("policy", "asked"), [("quick", [0, 1]), ("standard", [0, 1, 2, 3, 4, 5]), ("release", [0, 1, 2, 3, 4, 5])]
)
def test_the_schedule_has_the_rounds_of_the_contracts(tmp_path: Path, policy: str, asked: list[int]) -> None:
    """Four rounds of the contracts, then a pass that samples them and one that asks one prompt at a time."""
    made = plan(tmp_path, policy)
    for arm in ("baseline", "candidate"):
        assert [step.step for step in made.schedule if step.arm == arm] == asked


def test_a_policy_that_does_not_exist_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"'policy' is 'strict': allowed: 'quick', 'standard' or 'release'$"):
        plan(tmp_path, "strict")
    with pytest.raises(UsageError, match=r"'release', did you mean 'standard'\?$"):
        plan(tmp_path, "standart")
    with pytest.raises(UsageError, match="limits"):
        plan(tmp_path, "standard", ", limits: 3")
