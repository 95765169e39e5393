"""The options that a prompt names: what its answer chooses among, so that another choice is a changed fact.

`Answer yes or no`, `(A) red (B) blue`, quoted words, the values of `one_of`, and the names that the prompt speaks of
(`Ana is taller than Ben`). Only words that an answer may repeat are of use, so each is short.
"""

from __future__ import annotations

import re

from servegate.domain.records import Json

MOST_OPTIONS = 40
MOST_CHARACTERS = 16_384
"""Of the question's end; a long document that stands before it names no options."""
LONGEST_OPTION = 40

_QUOTED = re.compile(r"[\"“'‘]([^\"“”'‘’\n]{1,40})[\"”'’](?!\w)")
_EITHER = re.compile(r"(?<!\w)((?:[\w-]{1,20}, )*)([\w-]{1,20}),? or ([\w-]{1,20})(?!\w)")
_LETTERED = re.compile(r"(?:^|[\s(])([A-H])[).:]\s", re.MULTILINE)
_NAME = re.compile(r"(?<![.!?:]\s)(?<=\s)(?!I\b)[A-Z][a-z]{1,20}(?!\w)")
_STARTING_NAME = re.compile(r"(?:^|[.!?]\s)([A-Z][a-z]{1,20}) (?:is|was|has|had|does|did|can)(?!\w)")
_COMMON_WORDS = """
    a an and any are as at be but by can do does either for from give has have he her his how if in is it its less more most
    my not of on one only or other our out please she so some than that the their them then there they this to two under up
    was we what when where which who why will with would write you your nothing
"""
_NOT_OPTIONS = frozenset(_COMMON_WORDS.split())


def named_options(question: str, expect: dict[str, Json] | None) -> tuple[str, ...]:
    """Return the options of a prompt, in the order in which they stand there; at most MOST_OPTIONS."""
    text = question[-MOST_CHARACTERS:]
    found: dict[str, None] = {}
    choices = (expect or {}).get("one_of")
    for choice in choices if isinstance(choices, list | tuple) else ():
        found[str(choice)] = None
    for match in _EITHER.finditer(text):
        for word in (*match[1].split(", "), match[2], match[3]):
            if word and word.casefold() not in _NOT_OPTIONS:
                found[word] = None
    for pattern in (_QUOTED, _LETTERED, _STARTING_NAME):
        for match in pattern.finditer(text):
            found[match[1].strip()] = None
    for match in _NAME.finditer(text):
        found[match[0]] = None
    kept: dict[str, None] = {}
    for option in found:
        folded = option.casefold() if len(option) > 1 else option
        if option.strip() and len(option) <= LONGEST_OPTION and folded not in _NOT_OPTIONS:
            kept[folded] = None
    return tuple(list(kept)[:MOST_OPTIONS])
