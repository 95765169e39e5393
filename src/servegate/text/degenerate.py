"""Answers that are broken whatever was asked: nothing at all, a loop, or a soup of special tokens and damaged characters.

Only plain defects count, since both arms are asked the same: a healthy model rarely shows them, and a broken kernel, a
wrong scale or a wrong end-of-text list shows them at once. Word salad in fluent-looking words is not detected.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

WINDOW = 4_096
"""Characters at the end of an answer that are searched for a loop."""
LOOP_REPEATS = 4
LOOP_CHARACTERS = 60
SHORT_UNIT, SHORT_REPEATS, SHORT_CHARACTERS = 3, 8, 24
"""A unit of at most three characters is a loop sooner, since `!!!!!!!!` is the usual face of a broken FP8 kernel."""
RULE = frozenset("-=_*.~#|+:· \t\n─═—")
"""Characters of drawn lines and table rules, which healthy answers repeat."""
RULE_CHARACTERS = 400
FIELD_REPEATS, FIELD_CHARACTERS = 6, 100
"""A loop that was closed again: within a quoted string or an element of markup, which goes on after it. Guided decoding ends
every loop so. More is asked of it than of a loop at the end, as a field may quote a chorus."""
FIELD_SHORT_CHARACTERS = 200
"""The same for a unit of at most three characters or without a letter: hashes, masks and keys are fields."""
REPEATED_LINES, REPEATED_LINE_LENGTH = 6, 8

SPECIAL_TOKEN = re.compile(
    r"<\|[^|<>\n]{1,40}\|>|</?s>|<(?:unk|pad|bos|eos|mask)>|\[(?:PAD|UNK|CLS|SEP|MASK)\]|<(?:start|end)_of_turn>|<0x[0-9A-F]{2}>"
)
DAMAGED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffd\ud800-\udfff\ue000-\uf8ff]")
_FIELD = re.compile(r'"(?P<quoted>(?:[^"\\\n]|\\.)*+)|>(?P<element>[^<>]++)(?=<)')
"""What stands between quotes (to the end of the line, where one was not closed) or between two tags. Never read twice."""
SOUP_TOKENS, SOUP_TOKEN_SHARE = 4, 0.3
SOUP_DAMAGED, SOUP_DAMAGED_SHARE = 8, 0.2


class Kind(StrEnum):
    """What is wrong with a degenerate answer."""

    EMPTY = "empty"
    LOOP = "loop"
    SOUP = "soup"


@dataclass(frozen=True)
class Degeneration:
    """A defect and what shows it, in one line of our own words and at most 40 quoted characters."""

    kind: Kind
    evidence: str


def degeneration(text: str) -> Degeneration | None:
    """Return what makes an answer degenerate, or None."""
    if not text.strip():
        return Degeneration(Kind.EMPTY, "no text" if not text else "white space only")
    end = text[-4 * WINDOW :]
    return _soup(text) or _tail_loop(text[-WINDOW:].rstrip()) or _repeated_line(end) or _loop_in_a_field(end)


def _soup(text: str) -> Degeneration | None:
    tokens = SPECIAL_TOKEN.findall(text) if "<" in text or "[" in text else []
    if len(tokens) >= SOUP_TOKENS and sum(map(len, tokens)) >= SOUP_TOKEN_SHARE * len(text):
        return Degeneration(Kind.SOUP, f"{len(tokens)} special tokens such as {tokens[0]!r}")
    damaged = DAMAGED.findall(text)
    if len(damaged) >= SOUP_DAMAGED and len(damaged) >= SOUP_DAMAGED_SHARE * len(text):
        return Degeneration(Kind.SOUP, f"{len(damaged)} damaged characters such as U+{ord(damaged[0]):04X}")
    return None


def _loop_in_a_field(text: str) -> Degeneration | None:
    for field in _FIELD.finditer(text) if len(text) >= FIELD_CHARACTERS else ():
        inner = (field["quoted"] or field["element"] or "")[-WINDOW:].rstrip()
        if len(inner) < FIELD_CHARACTERS or not _repeats_at_its_end(inner):
            continue
        length, unit, repeats = _repeated_end(inner)
        short = len(unit) <= SHORT_UNIT or not any(map(str.isalpha, unit))
        if (
            repeats >= FIELD_REPEATS
            and length >= (FIELD_SHORT_CHARACTERS if short else FIELD_CHARACTERS)
            and not RULE.issuperset(unit)
        ):
            return Degeneration(Kind.LOOP, f"a field ends in {repeats} repeats of {_cut(unit)!r}")
    return None


def _tail_loop(text: str) -> Degeneration | None:
    """Look for the longest end of the text that repeats one unit."""
    if len(text) < SHORT_CHARACTERS or not _repeats_at_its_end(text):  # most texts leave at once
        return None
    length, unit, repeats = _repeated_end(text)
    if RULE.issuperset(unit):
        looping = length >= RULE_CHARACTERS
    elif len(unit) <= SHORT_UNIT:
        looping = repeats >= SHORT_REPEATS and length >= SHORT_CHARACTERS
    else:
        looping = repeats >= LOOP_REPEATS and length >= LOOP_CHARACTERS
    if not looping:
        return None
    return Degeneration(Kind.LOOP, f"ends in {repeats} repeats of {_cut(unit)!r}")


def _repeated_end(text: str) -> tuple[int, str, int]:
    """Return the length of the longest end that repeats one unit at least four times, the unit, and how often."""
    length, period = _longest_periodic_end(text)
    return length, text[len(text) - period :], length // period if period else 0


def _cut(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


def _repeats_at_its_end(text: str) -> bool:
    """Whether some unit stands at least four times at the end: then its last letters stand one unit earlier, too."""
    tail = text[-12:]
    place = text.rfind(tail, 0, len(text) - 1)
    while place >= 0:
        period = len(text) - len(tail) - place
        if LOOP_REPEATS * period > len(text):
            return False
        if text.endswith(text[-period:] * LOOP_REPEATS):
            return True
        place = text.rfind(tail, 0, place + len(tail) - 1)
    return False


def _longest_periodic_end(text: str) -> tuple[int, int]:
    """Return (length, period) of the longest suffix that holds its smallest period at least four times, or (0, 0).

    The prefix function of Knuth, Morris and Pratt (SIAM J. Comput. 6, 1977) on the reversed text: a prefix of length L
    with border b has the period L - b. Linear time.
    """
    reversed_text = text[::-1]
    border = [0] * len(reversed_text)
    found = (0, 0)
    for index in range(1, len(reversed_text)):
        matched = border[index - 1]
        while matched and reversed_text[index] != reversed_text[matched]:
            matched = border[matched - 1]
        if reversed_text[index] == reversed_text[matched]:
            matched += 1
        border[index] = matched
        length, period = index + 1, index + 1 - matched
        if length >= LOOP_REPEATS * period:
            found = (length, period)
    return found


def _repeated_line(text: str) -> Degeneration | None:
    lines = [line.strip() for line in text.split("\n")]
    lines = [line for line in lines if line]
    if len(lines) < REPEATED_LINES:
        return None
    line, count = Counter(lines).most_common(1)[0]
    if count < REPEATED_LINES or 2 * count < len(lines) or len(line) < REPEATED_LINE_LENGTH or RULE.issuperset(line):
        return None
    return Degeneration(Kind.LOOP, f"the line {_cut(line)!r} stands there {count} times")
