"""The three policies: how much evidence a gate wants and how much loss it accepts. The one place for these numbers.

A policy gives values to settings that the gate config leaves out; a value in the config always wins. `standard` is also what
the settings themselves default to, and a test holds the two together. docs/policies.md says what each is for and how
often it is wrong; `benchmarks/policy_curve.py` computes that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from servegate.domain.records import Json

PolicyName = Literal["quick", "standard", "release"]

ROUNDS: Mapping[PolicyName, int] = {"quick": 2, "standard": 2, "release": 4}
"""Passes of every check over an arm."""

POLICIES: Mapping[PolicyName, Mapping[str, Mapping[str, Json]]] = {
    "quick": {
        "prompts": {
            "contract_rounds": 2,
            "samples": 0,
            "sequential": "never",
            "limits.confirm_rounds": 2,
            "limits.unseen_increase_points": 15.0,
            "limits.fewest_prompts": 20,
            "limits.degenerate_increase_points": 2.0,
            "limits.cap_hit_increase_points": 2.0,
            "limits.fact_changes": "inform",
            "limits.length_ratio_low": 0.85,
            "limits.length_ratio_high": 1.15,
        },
        "accuracy": {"limits.pass_drop_points": 4.0, "limits.fail_drop_points": 1.0, "limits.smallest_n": 500},
        "logprobs": {"limits.ppl_ratio_pass": 1.02, "limits.ppl_ratio_fail": 1.05},
        "throughput": {"limits.fail_ratio": 0.9},
    },
    "standard": {
        "prompts": {
            "contract_rounds": 4,
            "samples": 4,
            "sequential": "auto",
            "limits.confirm_rounds": 2,
            "limits.unseen_increase_points": 1.0,
            "limits.fewest_prompts": 20,
            "limits.degenerate_increase_points": 1.0,
            "limits.cap_hit_increase_points": 1.0,
            "limits.fact_changes": "inform",
            "limits.length_ratio_low": 0.9,
            "limits.length_ratio_high": 1.1,
        },
        "accuracy": {"limits.pass_drop_points": 2.5, "limits.fail_drop_points": 0.5, "limits.smallest_n": 500},
        "logprobs": {"limits.ppl_ratio_pass": 1.02, "limits.ppl_ratio_fail": 1.05},
        "throughput": {"limits.fail_ratio": 0.95},
    },
    "release": {
        "prompts": {
            "contract_rounds": 4,
            "samples": 4,
            "sequential": "auto",
            "limits.confirm_rounds": 4,
            "limits.unseen_increase_points": 1.0,
            "limits.fewest_prompts": 299,
            "limits.degenerate_increase_points": 1.0,
            "limits.cap_hit_increase_points": 1.0,
            "limits.fact_changes": "review",
            "limits.length_ratio_low": 0.9,
            "limits.length_ratio_high": 1.1,
        },
        "accuracy": {"limits.pass_drop_points": 1.5, "limits.fail_drop_points": 0.5, "limits.smallest_n": 2_600},
        "logprobs": {"limits.ppl_ratio_pass": 1.02, "limits.ppl_ratio_fail": 1.05},
        "throughput": {"limits.fail_ratio": 0.95},
    },
}
"""Policy -> check -> dotted setting of that check -> value. A check that is not named has one set of limits."""


def with_policy(policy: PolicyName, check: str, values: Mapping[str, Json]) -> tuple[dict[str, Json], tuple[str, ...]]:
    """Return a check's settings with the policy's values where none was given, and the dotted names of those."""
    filled: dict[str, Json] = {key: dict(value) if isinstance(value, dict) else value for key, value in values.items()}
    added = []
    for dotted, value in POLICIES[policy].get(check, {}).items():
        place, name = filled, dotted
        if "." in dotted:
            group, name = dotted.split(".")
            place = filled.setdefault(group, {})
        if isinstance(place, dict) and name not in place:  # `limits: 3` is an error of the config, found when it is validated
            place[name] = value
            added.append(dotted)
    return filled, tuple(added)
