"""Which protected tokens changed between two texts: what one has and the other has not, or has in another order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from servegate.text.facts import MAX_CHARACTERS, WORD, FactKind, Facts
from servegate.text.quantities import Quantity
from servegate.text.rulings import one_line

COMMON_LETTERS = "etaoinsr"
_ORDERED = (FactKind.NUMBER, FactKind.DATE, FactKind.OPTION)


@dataclass(frozen=True)
class Change:
    """One changed fact: what the left text has and what the right one has instead; empty where a side has nothing."""

    kind: FactKind
    left: str
    right: str

    def to_json(self) -> dict[str, str]:
        """Return plain JSON values."""
        return {"kind": self.kind.value, "left": self.left, "right": self.right}

    def __str__(self) -> str:
        """Say it in a few words, on one line."""
        if not self.left and not self.right:
            return self.kind.value
        return one_line(f"{self.kind.value} {self.left or '(none)'} -> {self.right or '(none)'}")


def changes(left: Facts, right: Facts) -> tuple[Change, ...]:
    """Return the changed facts between two texts, in a fixed order; none when only the wording differs.

    Swapping the texts swaps the sides of every change and nothing else.
    """
    if left.text == right.text:
        return ()
    if max(len(left.text), len(right.text)) > MAX_CHARACTERS:
        return (Change(FactKind.SIZE, f"{len(left.text)} characters", f"{len(right.text)} characters"),)
    found = [change for kind in (FactKind.DAMAGE, FactKind.INVISIBLE, FactKind.TAG) for change in _sets(kind, left, right)]
    if left.json is not None and right.json is not None:
        found += _json(left.json, right.json)
    found += _quantities(left, right)
    for kind in (FactKind.NUMBER, FactKind.DATE):
        found += _sets(kind, left, right)
    if left.negations != right.negations:
        found.append(Change(FactKind.NEGATION, _times(left.negations), _times(right.negations)))
    for kind in (FactKind.NEGATION, FactKind.OPTION, FactKind.IDENTIFIER, FactKind.OPERATOR, FactKind.ANSWER):
        found += _sets(kind, left, right)
    found += _code(left.code, right.code)
    return tuple(found) or _order(left, right)


def _sets(kind: FactKind, left: Facts, right: Facts) -> list[Change]:
    """Return the tokens that one side has alone, paired in their order for reading."""
    mine, theirs = left.found.get(kind, {}), right.found.get(kind, {})
    if kind is FactKind.ANSWER and not (mine and theirs):
        return []
    gone = [written for key, written in mine.items() if key not in theirs]
    new = [written for key, written in theirs.items() if key not in mine]
    return _paired(kind, gone, new)


def _paired(kind: FactKind, gone: list[str], new: list[str]) -> list[Change]:
    length = max(len(gone), len(new))
    padded = zip(gone + [""] * (length - len(gone)), new + [""] * (length - len(new)), strict=True)
    return [Change(kind, mine, theirs) for mine, theirs in padded]


def _quantities(left: Facts, right: Facts) -> list[Change]:
    """Compare numbers: equal in all; then equal in value where one side leaves the currency out; the rest has changed."""
    gone = {one: text for one, text in left.quantities.items() if one not in right.quantities}
    new = {one: text for one, text in right.quantities.items() if one not in left.quantities}
    _settle(gone, right.quantities, one=right.one)
    _settle(new, left.quantities, one=left.one)
    found = []
    for mine, text in list(gone.items()):
        for theirs in list(new):
            if mine.value == theirs.value and mine.ambiguous == theirs.ambiguous:
                kind = FactKind.CURRENCY if mine.currency != theirs.currency else FactKind.UNIT
                found.append(Change(kind, text, new.pop(theirs)))
                del gone[mine]
                break
    return found + _paired(FactKind.NUMBER, list(gone.values()), list(new.values()))


def _settle(alone: dict[Quantity, str], others: Mapping[Quantity, str], *, one: bool) -> None:
    """Drop what the other side has too, only written without its currency (`$1,250.00`, `1250`), or as the word `one`."""
    known = {(other.value, other.unit, other.currency, other.ambiguous) for other in others}
    for mine in list(alone):
        bare = (mine.value, mine.unit, "", mine.ambiguous)
        named = any(key[:2] == (mine.value, mine.unit) and not mine.currency and not mine.ambiguous for key in known)
        if (mine.currency and bare in known) or named or (one and mine == Quantity("1")):
            del alone[mine]


def _times(count: int) -> str:
    return f"{count} negation{'' if count == 1 else 's'}" if count else ""


def _json(left: Mapping[str, str], right: Mapping[str, str]) -> list[Change]:
    found = []
    for path in sorted({*left, *right}):
        mine, theirs = left.get(path), right.get(path)
        if mine != theirs:
            name = "" if path == "$" else f"{path}: "
            found.append(Change(FactKind.VALUE, name + (mine or "(absent)"), name + (theirs or "(absent)")))
    return found


def _code(left: tuple[str, ...], right: tuple[str, ...]) -> list[Change]:
    if left == right:
        return []
    first = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    return [Change(FactKind.CODE, " ".join(left[first : first + 4]), " ".join(right[first : first + 4]))]


def _order(left: Facts, right: Facts) -> tuple[Change, ...]:
    """Compare the order of what both have: facts that changed places, and the same words in another order."""
    sequences = [(list(left.found.get(kind, {})), list(right.found.get(kind, {}))) for kind in _ORDERED]
    sequences.append(([one.value for one in left.quantities], [one.value for one in right.quantities]))
    for mine, theirs in sequences:
        if mine != theirs and sorted(mine) == sorted(theirs):
            return (Change(FactKind.ORDER, _listed(mine), _listed(theirs)),)
    if left.json is not None and right.json is not None:
        return ()
    if _other_letters(left.text, right.text):
        return ()
    words = [list(map(str.casefold, WORD.findall(side.text))) for side in (left, right)]
    if words[0] != words[1] and sorted(words[0]) == sorted(words[1]):
        first = next(i for i, (a, b) in enumerate(zip(*words, strict=True)) if a != b)
        return (Change(FactKind.ORDER, " ".join(words[0][first : first + 4]), " ".join(words[1][first : first + 4])),)
    return ()


def _other_letters(left: str, right: str) -> bool:
    """Whether two texts can not hold the same words, told by counting letters; False says nothing."""
    if not (left.isascii() and right.isascii()):
        return False
    left, right = left.lower(), right.lower()
    return any(left.count(letter) != right.count(letter) for letter in COMMON_LETTERS)


def _listed(keys: Iterable[str]) -> str:
    return ", ".join(list(keys)[:6])
