"""Tool calls of two answers side by side: another function, another argument or another number of calls is a changed fact.

The calls also stand at the end of an answer's text, one line each, so that every other comparison sees them; but text can
look like a call without being one, and a city in an argument is more than wording.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from servegate.checks.prompts.records import Answer
from servegate.domain.records import Json
from servegate.text import strict_json
from servegate.text.fact_changes import Change
from servegate.text.facts import FactKind

LONGEST = 120
"""Characters of a call in a message."""


def calls_of(answer: Answer) -> tuple[Mapping[str, Json], ...]:
    """Return the calls of an answer."""
    return tuple(call for call in answer.tool_calls if isinstance(call, dict))


def changed_calls(left: Answer, right: Answer) -> tuple[Change, ...]:
    """Return the first call that differs and how many more; order of keys and white space are form."""
    mine, theirs = ([_meaning(call) for call in calls_of(answer)] for answer in (left, right))
    if mine == theirs:
        return ()
    place = next(
        (n for n, (one, other) in enumerate(zip(mine, theirs, strict=False)) if one != other), min(len(mine), len(theirs))
    )
    return (Change(FactKind.VALUE, _shown(mine[place : place + 1]), _shown(theirs[place : place + 1])),)


def _meaning(call: Mapping[str, Json]) -> tuple[str, str]:
    arguments = call.get("arguments")
    text = arguments if isinstance(arguments, str) else ""
    try:
        return str(call.get("name")), json.dumps(strict_json.parse(text), sort_keys=True, ensure_ascii=False)
    except (strict_json.NotJsonError, ValueError):
        return str(call.get("name")), text


def _shown(calls: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{name}({arguments})"[:LONGEST] for name, arguments in calls)
