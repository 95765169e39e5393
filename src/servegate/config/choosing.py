"""Checks that decide from the change itself whether they are on and what fits; the plan says what they decided, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from servegate.checks import discovered
from servegate.checks.contract import Change, Inputs
from servegate.checks.lengths import longest_of
from servegate.config.faults import validated
from servegate.config.loading import Loaded
from servegate.config.schema import POLICY_SOURCE
from servegate.domain.policies import with_policy
from servegate.errors import UsageError


def chosen(loaded: Loaded, change: Change) -> tuple[Loaded, tuple[str, ...]]:
    """Return the config with those checks on or off, and what the plan says about them.

    Raises:
        UsageError: no check is left, so nothing would be measured.
    """
    checks, sources, notes = dict(loaded.checks), dict(loaded.sources), []
    for name, check in discovered().items():
        if check.choose is None:
            continue
        settings, named = checks.get(name), name in checks
        if settings is None:
            filled, _added = with_policy(loaded.config.policy, name, {})
            settings = validated(check.settings, filled, "policy", sources, ("checks", name))
        choice = check.choose(settings, named, change)
        if choice.note:
            notes.append(choice.note)
        if choice.settings is None:
            checks.pop(name, None)
            continue
        checks[name] = choice.settings
        sources.update({f"checks.{name}.{key}": source for key, source in choice.sources.items()})
    if not checks:
        raise UsageError(
            "every check that the gate config names is off for this change, so nothing would be measured",
            why="\n".join(notes),
            advice="Name a check under `checks` that is on for every change, such as `prompts`.",
        )
    return replace(loaded, checks=checks, sources=sources), tuple(notes)


def fitted(loaded: Loaded, change: Change, inputs: Mapping[str, Inputs]) -> tuple[Loaded, tuple[str, ...]]:
    """Return the config with every check asking what fits into the shorter context of the arms, and remarks for the plan.

    Raises:
        UsageError: what the gate config asks for cannot fit, so the run would fail after minutes.
    """
    sources, checks, notes = dict(loaded.sources), dict(loaded.checks), []

    def place(key: str) -> str | None:
        found = loaded.sources.get(key)
        return None if found == POLICY_SOURCE else found

    longest = longest_of(change.arms, change.models, place)
    if longest is None:
        return loaded, ()
    for name, settings in loaded.checks.items():
        fit = discovered()[name].fit
        if fit is None:
            continue
        choice = fit(settings, inputs.get(name), longest)
        assert choice.settings is not None, "a check that is on stays on, or is refused"
        checks[name] = choice.settings
        sources.update(choice.sources)
        if choice.note:
            notes.append(choice.note)
    return replace(loaded, checks=checks, sources=sources), tuple(notes)
