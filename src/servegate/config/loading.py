"""From a file and the command line to a valid gate config that knows where each value came from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from servegate.checks import discovered
from servegate.config.faults import did_you_mean, place_of, validated
from servegate.config.files import read_text
from servegate.config.schema import BUNDLED, POLICY_SOURCE, GateConfig
from servegate.domain.arms import Role
from servegate.domain.policies import ROUNDS, with_policy
from servegate.domain.records import Settings
from servegate.errors import UsageError
from servegate.text import strict_yaml


@dataclass(frozen=True)
class Overrides:
    """What the command line says over the config file; each remembers the option it came from."""

    baseline: str | None = None
    candidate: str | None = None
    gate: str | None = None
    engine: str | None = None
    output: str | None = None
    rounds: int | None = None
    images: tuple[str, str] | None = None
    """Container images of baseline and candidate."""


@dataclass(frozen=True)
class Loaded:
    """A valid gate config, the directory its paths start from, and where each value came from."""

    config: GateConfig
    directory: Path
    sources: Mapping[str, str]
    checks: Mapping[str, Settings]


def load(path: Path | None, overrides: Overrides, shown: str | None = None) -> Loaded:
    """Read a gate config, or make one from two serving configs alone.

    `shown` is the config's path in messages and in the record, where it was taken out of git.

    Raises:
        UsageError: no config was given and none is here; or it is not valid (file, line, key, value, what is allowed).
    """
    if path is None and not (overrides.baseline and overrides.candidate) and os.path.exists("servegate.yaml"):  # noqa: PTH110
        # os.path answers "no" for a directory that may not be looked into, where pathlib raises.
        path = Path("servegate.yaml")
    if path is None:
        data, lines, name, directory = _without_file(overrides), {}, "the command line", Path()
    else:
        name, directory = shown or str(path), path.parent
        document = strict_yaml.load(read_text(path), name)
        data, lines = document.data, document.lines
    sources = {".".join(map(str, key)): f"{name}:{line}" for key, line in lines.items()}
    data = _overridden(data, overrides, sources, directory)
    config = validated(GateConfig, data, name, sources, ())
    if isinstance(data, dict) and "rounds" not in data:
        config = config.model_copy(update={"rounds": ROUNDS[config.policy]})
        sources["rounds"] = POLICY_SOURCE
    known = discovered()
    checks: dict[str, Settings] = {}
    for check, values in config.checks.items():
        if check not in known:
            raise UsageError(
                f"{place_of(name, sources, ('checks', check))}: no check is called {check!r}{did_you_mean(check, known)}",
                advice=f"Checks: {', '.join(known)}.",
            )
        filled, added = with_policy(config.policy, check, values)
        sources.update({f"checks.{check}.{dotted}": POLICY_SOURCE for dotted in added})
        checks[check] = validated(known[check].settings, filled, name, sources, ("checks", check))
    if not checks:
        raise UsageError(
            f"{name}: `checks` names no check, so nothing would be measured", advice=f"Checks: {', '.join(known)}."
        )
    return Loaded(config=config, directory=directory, sources=sources, checks=checks)


def against_itself(loaded: Loaded) -> Loaded:
    """Return the gate with its baseline as both arms: an A/A run, on whose findings `calibrate` counts false alarms."""
    config = loaded.config
    arms = config.arms.model_copy(update={"candidate": config.arms.baseline})
    sources = {key: value for key, value in loaded.sources.items() if not key.startswith("arms.candidate")}
    return replace(loaded, config=config.model_copy(update={"arms": arms, "calibration": None}), sources=sources)


def _without_file(overrides: Overrides) -> dict[str, Any]:
    if not (overrides.baseline and overrides.candidate):
        absent = [f"--{role.value}" for role in Role if not getattr(overrides, role.value)]
        raise UsageError(
            f"there is no servegate.yaml here, and without one {' and '.join(absent)} must be given",
            advice="Run `servegate run --baseline old.yaml --candidate new.yaml`, or give --config.",
        )
    gate = re.sub(r"[^a-z0-9]+", "-", Path(overrides.candidate).stem.lower()).strip("-")[:40].strip("-")
    return {
        "version": 1,
        "gate": gate or "gate",
        "arms": {"baseline": {"config": overrides.baseline}, "candidate": {"config": overrides.candidate}},
        "checks": {"engagement": {}, "prompts": {"file": f"{BUNDLED}prompts.jsonl"}, "accuracy": {}, "throughput": {}},
    }


def _overridden(data: Any, overrides: Overrides, sources: dict[str, str], directory: Path) -> Any:
    """Lay the command line's values over the file's; a serving config given there starts from the working directory."""
    if not isinstance(data, dict):
        return data
    merged: dict[str, Any] = _copied(data)
    if overrides.engine is not None:
        # What an arm overrides of the engine gives way; before the images are laid down, which stand in the same place.
        for role in Role:
            if isinstance(merged.get("arms"), dict) and isinstance(merged["arms"].get(role.value), dict):
                merged["arms"][role.value].pop("engine", None)
    images = overrides.images or (None, None)
    values: tuple[tuple[tuple[str, ...], Any, str], ...] = (
        (("arms", "baseline", "config"), _from_here(overrides.baseline, directory), "--baseline"),
        (("arms", "candidate", "config"), _from_here(overrides.candidate, directory), "--candidate"),
        (("gate",), overrides.gate, "--gate"),
        (("engine", "executable"), overrides.engine, "--engine"),
        (("output", "directory"), overrides.output, "--output"),
        (("rounds",), overrides.rounds, "--rounds"),
        (("arms", "baseline", "engine", "image"), images[0], "--images"),
        (("arms", "candidate", "engine", "image"), images[1], "--images"),
    )
    for key, value, option in values:
        if value is None:
            continue
        place = merged
        for part in key[:-1]:
            if not isinstance(place.get(part), dict):
                place[part] = {}
            place = place[part]
        place[key[-1]] = value
        sources[".".join(key)] = option
    return merged


def _from_here(path: str | None, directory: Path) -> str | None:
    return None if path is None else os.path.relpath(path, directory)


def _copied(value: Any) -> Any:
    return {key: _copied(item) for key, item in value.items()} if isinstance(value, dict) else value
