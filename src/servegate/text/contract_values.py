"""Contracts about the value of an answer: a pattern, one of several words, a length, a number.

Each rule takes the value from the prompt file, the answer, and whether the answer was cut at its token limit.
"""

from __future__ import annotations

import math
import re
import unicodedata
from decimal import Decimal
from functools import lru_cache
from typing import Any

import regex  # type: ignore[import-untyped]

from servegate.domain.records import Json
from servegate.text.rulings import KEPT, Ruling, broken, one_line, undecided

PATTERN_SECONDS = 0.5
"""Longest time of one match; only a catastrophic pattern on a hostile answer comes near it."""
MAX_PATTERN = 4_096
AROUND_A_CHOICE = " \t\r\n.,;:!?\"'*`()[]“”‘’"
MINUS_SIGNS = str.maketrans(dict.fromkeys("−‐‑‒–—―﹣－", "-"))
"""Signs that a reader takes for a minus (U+2212, U+2010 to U+2015, U+FE63, U+FF0D); NFKC does not map U+2212."""
NUMBER = re.compile(
    r"(?<![\w.])(?P<number>[-+]?(?:[0-9]{1,3}(?:[,\u00a0\u2009\u202f][0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?)"
    r"(?P<percent>\s?%)?(?![\w]|[.,][0-9])"
)
MAX_NUMBER = 60


def problem_with_pattern(value: Json) -> str | None:
    """A pattern that compiles; an empty one holds for every answer and would promise what it does not check."""
    if not isinstance(value, str) or not value:
        return f"must be a pattern (a non-empty text), not {one_line(repr(value))}"
    if len(value) > MAX_PATTERN:
        return f"the pattern has {len(value)} characters, allowed are {MAX_PATTERN}"
    try:
        _pattern(value)
    except regex.error as error:
        return f"not a pattern: {error}"
    return None


def problem_with_choices(value: Json) -> str | None:
    """At least one choice, all different once trimmed."""
    if not isinstance(value, list) or not value or not all(isinstance(item, str) for item in value):
        return f"must be a list of texts, not {one_line(repr(value))}"
    folded = [_choice(item) for item in value]
    if "" in folded:
        return "a choice is empty, or nothing but punctuation"
    return None if len(set(folded)) == len(folded) else "two choices are equal, less case and punctuation"


def problem_with_count(value: Json) -> str | None:
    """A positive whole number."""
    return None if type(value) is int and value >= 1 else f"must be a whole number of at least 1, not {one_line(repr(value))}"


def problem_with_number(value: Json) -> str | None:
    """A finite number; `true` is none."""
    good = type(value) is int or (type(value) is float and math.isfinite(value))
    return None if good else f"must be a number, not {one_line(repr(value))}"


def regex_rule(pattern: Json, text: str, cut: bool) -> Ruling:
    """The pattern is found somewhere. A cut answer is broken only when nothing that may follow could still match."""
    try:
        found = _pattern(pattern).search(text, timeout=PATTERN_SECONDS, partial=cut)
    except TimeoutError:
        return undecided(f"the pattern ran for {PATTERN_SECONDS:g} s without an end")
    if found is None:
        return broken("the pattern is not found")
    return undecided("cut before its end") if cut else KEPT


def one_of_rule(choices: Json, text: str, cut: bool) -> Ruling:
    """The whole answer is one of the choices, less case and the punctuation around it."""
    answer, folded = _choice(text), [_choice(choice) for choice in choices]
    if cut and any(choice.startswith(answer) for choice in folded):
        return undecided("cut before its end")
    return KEPT if answer in folded else broken(f"{answer[:60]!r} is none of the {len(folded)} choices")


def max_words_rule(most: Json, text: str, cut: bool) -> Ruling:
    """Words are what white space separates."""
    words = len(text.split())
    if words > most:
        return broken(f"{words} words, at most {most} are allowed")
    if cut:
        return undecided("cut before its end")
    return KEPT if words else broken("no words")


def number_rule(expected: Json, text: str, cut: bool) -> Ruling:
    """The last number equals the expected one as decimals; a number after `####` (GSM8K's mark) goes before.

    Thousands may be grouped by comma or thin space where every group has three digits; `5%` is not 5, `1.250` is not 1250.
    """
    _, mark, marked = text.rpartition("####")
    found = list(NUMBER.finditer((marked if mark else text).translate(MINUS_SIGNS)))
    if cut and not (mark and found):
        return undecided("cut before its end")
    if not found:
        return broken("no number")
    last = found[0] if mark else found[-1]
    if len(last["number"]) > MAX_NUMBER:
        return broken(f"a number of {len(last['number'])} characters")
    value = Decimal(re.sub("[,\u00a0\u2009\u202f]", "", last["number"]))
    if last["percent"] or value != Decimal(repr(expected)):
        return broken(f"the number is {last[0]}, expected {expected}")
    return KEPT


def _choice(text: str) -> str:
    return unicodedata.normalize("NFC", text[:4_096].strip(AROUND_A_CHOICE)).casefold()


@lru_cache(maxsize=512)
def _pattern(pattern: str) -> Any:
    return regex.compile(pattern)
