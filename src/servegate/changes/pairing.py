"""From changed files to pairs: each changed serving config before and after. Pure; every file ends up in one of two lists.

What is watched and changed but can not be compared (a new file, a deleted one, a link) is never left out: it is listed
as not measured with its reason, and not measured is never a pass.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from servegate.text.globs import matches

REGULAR = "100644"
_LONGEST = 40
_PARTS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class Change:
    """One file that differs: git's status letter, its path before and after, and the mode and object that head gives it."""

    status: str
    before: str
    after: str
    mode: str
    oid: str


@dataclass(frozen=True)
class Watched:
    """Serving configs by glob; with `arguments`, a path inside of Helm values, a manifest or a Compose file."""

    files: str
    arguments: str | None = None
    environment: str | None = None
    document: str | None = None


@dataclass(frozen=True)
class Pair:
    """One serving config before (at the merge base) and after (at the head)."""

    gate: str
    before: str
    after: str
    watched: Watched


@dataclass(frozen=True)
class NotMeasured:
    """A watched file that changed and is not compared. `weight` is the outcome that it has: never a pass.

    `refused`: it may not be measured, which is the change's own fault; `failed`: it could not be, which is not.
    """

    path: str
    code: str
    reason: str
    weight: Literal["review", "refused", "failed"] = "review"


def pairs_of(
    changes: Sequence[Change], watched: Sequence[Watched], gate: str, new_against: str | None = None
) -> tuple[tuple[Pair, ...], tuple[NotMeasured, ...]]:
    """Return the pairs to measure and the watched files that changed and can not be compared.

    `gate` starts each pair's name; `new_against` is the path of the config that a new one is compared with.
    """
    pairs: list[Pair] = []
    others: list[NotMeasured] = []
    for change in sorted(changes, key=lambda each: (each.after, each.before)):
        where = _watching(change.after, watched)
        was = _watching(change.before, watched)
        if change.status == "D" or where is None:
            if was is not None:
                gone = "was deleted" if change.status == "D" else f"was moved to {change.after}, which no glob watches"
                others.append(NotMeasured(change.before, "deleted", f"{gone}: there is no candidate to measure"))
        elif change.mode != REGULAR:
            kind = {"120000": "a link", "100755": "an executable", "160000": "a submodule"}.get(change.mode, "no plain file")
            reason = f"is {kind} (mode {change.mode}) in the pull request; a serving config is a plain file ({REGULAR})"
            others.append(NotMeasured(change.after, "mode", reason, "refused"))
        elif change.status == "A" or was is None:
            if new_against is None:
                reason = "is new: there is nothing to compare it with (name its baseline: `changes.new_against`)"
                others.append(NotMeasured(change.after, "added", reason))
            else:
                pairs.append(Pair(_name(gate, change.after), new_against, change.after, where))
        else:
            pairs.append(Pair(_name(gate, change.after), change.before, change.after, where))
    return tuple(pairs), tuple(others)


def _watching(path: str, watched: Iterable[Watched]) -> Watched | None:
    return next((each for each in watched if matches(path, each.files)), None)


def _name(gate: str, path: str) -> str:
    """Return the pair's gate id: the same for the same file in every run, since the comment is found by it."""
    slug = _PARTS.sub("-", path.rpartition(".")[0].lower() or path.lower()).strip("-")
    digest = hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:6]
    room = _LONGEST - len(digest) - 1
    return f"{f'{gate}-{slug}'[:room].strip('-')}-{digest}"
