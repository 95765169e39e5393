"""Whether what a check asks fits into the context of both arms, as far as their configs say it before anything starts.

A load that cannot fit would be sent, refused by the engine request by request, and found void minutes later. So a length
that the gate config states and that cannot fit is refused, and one that nobody stated (a default, or a policy's) is
shortened, or remarked where it may fit. What only a tokenizer can count stays for the baseline's engine, which counts it
before anything is measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn

from servegate.checks.laxness import HasLimits
from servegate.domain.arms import Arm
from servegate.domain.plan import ModelSource, Plan
from servegate.domain.records import Json
from servegate.errors import UsageError

LENGTH_KNOB = "max-model-len"
LENGTH = re.compile(r"([0-9]{1,12})([kKmM]?)")
UNIT = {"": 1, "k": 1_000, "m": 1_000_000, "K": 1 << 10, "M": 1 << 20}
"""vLLM reads `16k` as 16,000 and `16K` as 16,384 (`human_readable_int` of its argument parser)."""
CHARACTERS_A_TOKEN = 4
"""English text in the vocabularies of 2023 and later has 4 to 5 characters a token; for an estimate that is called one."""
SPARE_TOKENS = 8
"""Left free where a load is shortened: a tokenizer may add a token or two around a prompt."""
FEWEST_TOKENS = 16
"""A shorter prompt or answer is no load that anybody serves, so nothing is shortened below it."""
SOURCE = "the shorter context"


@dataclass(frozen=True)
class Longest:
    """The shorter context of both arms, in tokens, who says so, and where the gate config states a setting of this check.

    `tokens` is an upper bound: an engine may take less than a model's `max_position_embeddings`, never more.
    """

    tokens: int
    said: str
    place: Callable[[str], str | None]
    """Dotted setting -> the file and line that state it; None for a default and for a policy's value."""

    def refuse(self, key: str, what: str, advice: str) -> NoReturn:
        """Raise the one error for a length that cannot fit. `key`: the setting; `what`: the lengths, as a subject."""
        place = self.place(key)
        raise UsageError(
            f"{f'{place}: ' if place else ''}{key!r}: {what} cannot fit into a context of {self.tokens:,} tokens",
            why=f"{self.said}. An engine refuses every such request.",
            advice=advice,
        )


def longest_of(
    arms: Mapping[str, Arm], models: Mapping[str, ModelSource], place: Callable[[str], str | None]
) -> Longest | None:
    """Return the shorter context of the arms, or None where no config says one."""
    said = [longest for name, arm in arms.items() if (longest := _longest(name, arm, models[name].config)) is not None]
    return Longest(*min(said), place) if said else None


def _longest(name: str, arm: Arm, config: Json) -> tuple[int, str] | None:
    """Return an arm's context in tokens and who says so; None where no config does."""
    option = arm.config.options.get(LENGTH_KNOB)
    tokens = length_of(option)
    if tokens is not None:
        return tokens, f"{arm.config.path}: `{LENGTH_KNOB}: {option}`"
    if arm.config.options.get("hf-overrides") or not isinstance(config, dict):
        return None
    inner = config.get("text_config")
    part = inner if isinstance(inner, dict) else config
    if any(_stretches(part.get(name)) for name in ("rope_scaling", "rope_parameters")):
        return None
    positions = part.get("max_position_embeddings")
    if not isinstance(positions, int) or isinstance(positions, bool) or positions < 1:
        return None
    return positions, f"The {name}: `max_position_embeddings: {positions}` in its model's config.json"


def _stretches(rope: Json) -> bool:
    """Whether a rope setting may stretch a model beyond its positions; one of an unknown form may."""
    if not isinstance(rope, dict):
        return bool(rope)
    kind = rope.get("rope_type", rope.get("type"))
    return kind != "default" and bool(rope)


def length_of(stated: Json) -> int | None:
    """Return a length in tokens; None where the engine chooses it (nothing, -1, `auto`) or where it is not understood."""
    found = LENGTH.fullmatch(str(stated).strip())
    return int(found[1]) * UNIT[found[2]] or None if found else None


def shortened(asked: tuple[int, int], named: tuple[bool, bool], room: int) -> tuple[int, int] | None:
    """Return (prompt tokens, answer tokens) that fit into `room`: those nobody named give way, both in proportion.

    None where they cannot: both are named, or what is left is less than `FEWEST_TOKENS`.
    """
    if sum(asked) <= room:
        return asked
    left = room - SPARE_TOKENS
    if named == (False, False):
        answer = max(FEWEST_TOKENS, left * asked[1] // sum(asked))
        fitting = (left - answer, answer)
    elif named == (True, True):
        return None
    else:
        fitting = (asked[0], min(asked[1], left - asked[0])) if named[0] else (min(asked[0], left - asked[1]), asked[1])
    return fitting if all(tokens >= min(FEWEST_TOKENS, was) for tokens, was in zip(fitting, asked, strict=True)) else None


def gave_way(plan: Plan, checks: Mapping[str, HasLimits]) -> tuple[str, ...]:
    """Return `check.setting: tokens (usual)` of every length that was shortened: what is asked less of proves less."""
    found = []
    for name, check in checks.items():
        defaults = check.settings().to_json()
        for key, setting in plan.settings.items():
            if setting.source != SOURCE or not key.startswith(f"checks.{name}."):
                continue
            own: Json = defaults
            for part in key.removeprefix(f"checks.{name}.").split("."):
                own = own.get(part) if isinstance(own, dict) else None
            if type(own) is int and type(setting.value) is int and setting.value < own:
                found.append(f"{key.removeprefix('checks.')}: {setting.value:,} ({own:,})")
    return tuple(found)


def estimated(text: str) -> int:
    """Return about how many tokens a text has; only ever for a remark, since the tokenizer decides."""
    return len(text) // CHARACTERS_A_TOKEN
