"""`release.yaml`: what a run must show before something is released, and whether one does."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field

from servegate.config.faults import validated
from servegate.config.files import read_text
from servegate.domain.evidence import REHEARSAL
from servegate.domain.judgement import Outcome, Verdict
from servegate.domain.manifest import Manifest
from servegate.domain.plan import Plan
from servegate.domain.policies import PolicyName
from servegate.domain.records import Json, Settings, VersionOne
from servegate.text import strict_yaml

CLOCK_SKEW = timedelta(minutes=10)
"""How far ahead the clock of the machine that measured may be."""


class ReleasePolicy(Settings):
    """What is asked of a run directory. Every field narrows; nothing here can make a run better than it is."""

    version: VersionOne
    cards: tuple[str, ...] = Field(min_length=1)
    """Names of the cards that serve, exactly as the driver gives them (`NVIDIA H200`); `cpu` for a run without a card."""
    max_age_days: float = Field(default=7, gt=0, le=36_500)
    """Oldest measurement that still counts."""
    policies: tuple[PolicyName, ...] = Field(default=("release",), min_length=1)
    """Policies of the gate config that are strict enough."""
    gates: tuple[str, ...] = ()
    """Gates by exact name; empty: any."""
    rules: Literal["base", "protected_head"] = "base"
    """Whose rules must have judged: the base's, unchanged; or also those of a head that was merged (`--trust-head`)."""


def read_release_policy(path: Path) -> ReleasePolicy:
    """Read the file. Raises UsageError with file, line, key, value and what is allowed."""
    document = strict_yaml.load(read_text(path), str(path))
    sources = {".".join(map(str, key)): f"{path}:{line}" for key, line in document.lines.items()}
    policy: ReleasePolicy = validated(ReleasePolicy, document.data, str(path), sources, ())
    return policy


def shortcomings(
    policy: ReleasePolicy,
    commit: str,
    now: datetime,
    plan: Plan,
    run: Mapping[str, Json],
    manifests: Mapping[str, Manifest | None],
    verdict: Verdict,
) -> tuple[str, ...]:
    """Return every reason for which a run does not allow the release of a commit; none means that it does.

    `run` is the data of run.json; `verdict` was made anew from the evidence.
    """
    found = []
    if verdict.outcome is not Outcome.PASS:
        found.append(f"the verdict is {verdict.outcome.value}: {verdict.headline}")
    if any(item.code.endswith(f"/{REHEARSAL}") for item in verdict.findings):
        found.append("it is a rehearsal by servegate's fake engine: no model was served")
    head = plan.origin.head if plan.origin else None
    if head != commit:
        found.append(f"it is about the commit {head or 'of nobody knows where'}, not about {commit}")
    if plan.policy not in policy.policies:
        found.append(f"it was judged under policy {plan.policy!r}, asked is one of {', '.join(policy.policies)}")
    if policy.gates and plan.gate not in policy.gates:
        found.append(f"it is of the gate {plan.gate!r}, asked is one of {', '.join(policy.gates)}")
    if plan.origin is None or plan.origin.changed or plan.origin.judged_by not in ("base", policy.rules):
        found.append("the rules that judged it are not, or not provably, those that were reviewed")
    for arm in plan.arms:
        found += _card(arm, manifests.get(arm), policy.cards)
    return (*found, *_age(run, now, policy.max_age_days))


def _card(arm: str, manifest: Manifest | None, cards: tuple[str, ...]) -> list[str]:
    if manifest is None:
        return [f"nothing is recorded of the machine of the {arm}"]
    names = {gpu.name for gpu in manifest.gpus} or {"cpu"}
    return [f"the {arm} ran on {name}, asked is one of {', '.join(cards)}" for name in sorted(names - set(cards))]


def _age(run: Mapping[str, Json], now: datetime, most_days: float) -> list[str]:
    try:
        starts = [datetime.fromisoformat(str(stage["started_at"])) for stage in run.get("stages", ())]
        oldest, newest = min(starts), max(starts)
        if oldest.tzinfo is None or newest.tzinfo is None:
            raise ValueError("no time zone")
    except (KeyError, TypeError, ValueError):
        return ["it does not say when it was measured"]
    if newest > now + CLOCK_SKEW:
        return [f"it says it was measured in the future ({newest.astimezone(UTC):%Y-%m-%d %H:%M} UTC)"]
    age = now - oldest
    if age > timedelta(days=most_days):
        return [f"it was measured {age / timedelta(days=1):.1f} days ago, asked are at most {most_days:g}"]
    return []
