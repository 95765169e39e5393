"""Protected tokens: the parts of an answer in which a change is a changed fact, whatever the wording around it.

`The transfer was approved` and `The transfer was not approved` are 93 % alike. So two answers count as a change of
wording only when these are the same in both: numbers with their units, currencies and signs; dates and times; negations
and yes/no; identifiers, code, paths, addresses, versions; comparison and arithmetic signs; the options and names that the
prompt itself gives; stray tags, damaged and invisible characters; and, in a JSON answer, every value with its type.

`fact_changes` compares them. What is compared are sets and not lists, since a rewording repeats itself (`... = 42. So it is
42.`); but shared numbers, dates or options that come in another order, and the same words in another order, are a change:
`A 5, B 3` against `A 3, B 5`.
Nothing here says which side is right. Words outside these kinds (`open`, `closed`) are not protected.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache

from servegate.text.dates import DATE, date_text, may_hold_date
from servegate.text.fences import fenced_blocks, without_blocks
from servegate.text.json_facts import leaves
from servegate.text.quantities import CURRENCIES, NUMBER, UNITS, WORD_NUMBER, WORDS, Quantity, numbers, quantity, word_quantity

MAX_CHARACTERS = 64 * 1024
"""Longer texts are not taken apart; that they differ at all is then a changed fact."""
FEW_WORDS = 3
"""An answer of so few words is nothing but its fact, so every word of it is protected."""


class FactKind(StrEnum):
    """What kind of token changed."""

    NUMBER = "number"
    UNIT = "unit"
    CURRENCY = "currency"
    DATE = "date"
    NEGATION = "negation"
    IDENTIFIER = "identifier"
    CODE = "code"
    OPERATOR = "operator"
    OPTION = "option"
    ANSWER = "answer"
    VALUE = "JSON value"
    ORDER = "order"
    TAG = "stray tag"
    DAMAGE = "encoding damage"
    INVISIBLE = "invisible character"
    INDENTATION = "indentation"
    SIZE = "size"


@dataclass(frozen=True)
class Context:
    """What the prompt makes protected: its options and names, and whether the whole answer is code."""

    options: tuple[str, ...] = ()
    code: bool = False

    @cached_property
    def pattern(self) -> re.Pattern[str] | None:
        """Finds the options as whole words."""
        if not self.options:
            return None
        ordered = sorted(map(re.escape, self.options), key=lambda option: (-len(option), option))
        letters = [option for option in ordered if len(option) == 1]  # `(A)` is an option where `a` is an article
        words = [option for option in ordered if len(option) > 1]
        either = [f"(?i:{'|'.join(words)})"] if words else []
        return re.compile(rf"(?<!\w)(?:{'|'.join([*either, *letters])})(?!\w)")


PLAIN = Context()
"""A prompt that protects nothing of its own."""
_INLINE_CODE = re.compile(r"(?<!`)`([^`\n]{1,200})`(?!`)")
_IDENTIFIER = re.compile(
    r"https?://[^\s<>\"')\]]+|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # addresses
    r"|(?<![\w/])(?:~|\.{1,2})?(?:/[\w.@%+-]+){2,}/?|\b[A-Za-z]:\\[\w\\.-]+"  # paths
    r"|(?<![\w-])--?[A-Za-z][\w-]*(?:=\S+)?(?=\s|$|[,.;:)])|[$@#][A-Za-z_]\w+|#[0-9]+"  # options, variables, references
    r"|\bv?[0-9]+(?:\.[0-9]+){2,}[\w.+-]*|\bv[0-9]+(?:\.[0-9]+)*\b|\b0x[0-9A-Fa-f]+\b"  # versions, hexadecimal
    r"|\b[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\b"  # UUIDs
    r"|\b\w+_\w+\b|\b_+\w+\b"  # snake_case, and 1_000
    r"|\b[A-Za-z]\w*(?:\.[A-Za-z_]\w*)+\(?|\b[A-Za-z_]\w*\(\)"  # dotted names, calls
    r"|\b(?=\w*[0-9])(?=\w*[A-Za-z])[A-Za-z]\w*(?:-\w*[0-9]\w*)*\b|\b[0-9]+[A-Za-z]+[0-9]\w*\b"  # letters with digits
    r"|\b[a-z]+[A-Z]\w*\b|\b[A-Z][a-z]+(?:[A-Z][a-z]*)+\w*\b|\b[A-Z]{2,6}s?\b"  # camelCase, capitals
)
_SUSPECT = re.compile(r"[0-9_/@$#\\(]|\.\w|[a-z][A-Z]|[A-Z]{2}|^\W?-")
"""Only words with one of these can hold an identifier; looking first makes the search ten times as fast."""
_NEGATION_WORDS = """
    not never no none nor neither nothing nobody nowhere cannot without
    nicht kein keine keinem keinen keiner keines nie niemals ohne pas jamais sans nunca ningún ninguna ne
"""
_NEGATIONS = frozenset(_NEGATION_WORDS.split())
_POLARITIES = frozenset(("yes", "true", "false", "nan", "infinity"))
_CONTRACTED = ("n't", "n\u2019t")
_NEGATING_CHARACTERS = re.compile("[不没沒未]")
_OPERATOR = re.compile(
    r"(?<=[ \w)])(<=|>=|==|!=|<|>|≤|≥|≠)(?=[ \w(-])|(?<=[0-9)])(?: ?([+*/×÷^]) ?| ([-\u2212\u2013x]) )(?=[0-9(-])"
)
_SAME_SIGN = {"≤": "<=", "≥": ">=", "≠": "!=", "×": "*", "x": "*", "÷": "/", "\u2212": "-", "\u2013": "-"}
_TAG = re.compile(
    r"</?(?:think|thinking|tool_call|tool_response|s|unk|pad|bos|eos|start_of_turn|end_of_turn)>|<\|[^|<>\n]{1,40}\|>"
)
_DAMAGE = re.compile("[\ufffd\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_INVISIBLE = re.compile("[\u200b\u200e\u200f\u2060\u202a-\u202e\u2066-\u2069\u00ad\u115f\u3164]|(?<=.)\ufeff")
_OTHER_DIGIT = re.compile(r"(?:(?![0-9])\d)+|(?:(?!\d)[\u00b2\u00b3\u00b9\u2070-\u2079\u2080-\u2089\u00bc-\u00be])+")
_LIST_MARK = re.compile(r"^[ \t]*(?:\*\*)?([0-9]{1,3})[.)](?=[ \t]+\S)", re.MULTILINE)
_CODE_TOKEN = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|\w+|[^\w\s]+")
_SPACE = re.compile(r"(\s+)")
_SIGN = re.compile("[<>=!≤≥≠+*/×÷^x\u2212\u2013-]")
"""Every operator holds one of these."""
WORD = re.compile(r"\w+(?:['\u2019]\w+)?")


def _suspect(word: str) -> bool:
    """Whether a word may hold an identifier; answers use the same short words again and again."""
    return _known_suspect(word) if len(word) <= 24 else _SUSPECT.search(word) is not None


@lru_cache(maxsize=16_384)
def _known_suspect(word: str) -> bool:
    return _SUSPECT.search(word) is not None


@dataclass
class Facts:
    """The protected tokens of one text; read it once, compare it often. Keys are canonical, values how they were written."""

    text: str
    found: dict[FactKind, dict[str, str]] = field(default_factory=dict)
    quantities: dict[Quantity, str] = field(default_factory=dict)
    code: tuple[str, ...] = ()
    negations: int = 0
    json: Mapping[str, str] | None = None
    one: bool = False

    def add(self, kind: FactKind, key: str, written: str | None = None) -> None:
        """Enter a token; the first spelling is kept."""
        self.found.setdefault(kind, {}).setdefault(key, key if written is None else written)


def facts_of(text: str, context: Context = PLAIN) -> Facts:
    """Return the protected tokens of a text."""
    facts = Facts(text)
    if len(text) > MAX_CHARACTERS:
        return facts
    structure = leaves(text)
    marks = ((_TAG, FactKind.TAG), (_DAMAGE, FactKind.DAMAGE), (_INVISIBLE, FactKind.INVISIBLE))
    for pattern, kind in marks[:2] if text.isascii() else marks:
        for match in pattern.finditer(text):
            facts.add(kind, match[0] if kind is FactKind.TAG else f"U+{ord(match[0]):04X}")
    if structure is not None:
        facts.json = structure.values
        _read_prose(facts, "\n".join(structure.prose))
        return facts
    if context.pattern is not None:
        for match in context.pattern.finditer(text):
            facts.add(FactKind.OPTION, match[0].casefold(), match[0])
    if context.code and not fenced_blocks(text):
        facts.code = tuple(_CODE_TOKEN.findall(text))
        return facts
    _read_prose(facts, _without_code(facts, text))
    return facts


def _without_code(facts: Facts, text: str) -> str:
    """Take fenced and inline code out of a text: its tokens are compared one by one, in their order."""
    if "`" in text or "~~~" in text:
        facts.code = tuple(token for block in fenced_blocks(text) for token in _CODE_TOKEN.findall(block.body))
        text = without_blocks(text)
        for match in _INLINE_CODE.finditer(text):
            facts.add(FactKind.IDENTIFIER, match[1].strip())
        text = _INLINE_CODE.sub(" ", text)
    return text


def _read_prose(facts: Facts, text: str) -> None:
    ascii_only = text.isascii()
    words = WORD.findall(text.lower()) if ascii_only else [word.casefold() for word in WORD.findall(text)]
    known = set(words)
    if len(words) <= FEW_WORDS:
        for word in words:
            if not word[0].isdigit():
                facts.add(FactKind.ANSWER, word)
    facts.one = "one" in known
    negating = {word for word in known if word in _NEGATIONS or word.endswith(_CONTRACTED)}
    facts.negations = sum(map(negating.__contains__, words)) if negating else 0
    if not ascii_only:
        facts.negations += len(_NEGATING_CHARACTERS.findall(text))
        for match in _OTHER_DIGIT.finditer(text):
            facts.add(FactKind.NUMBER, match[0])
    for word in words if not known.isdisjoint(_POLARITIES) else ():
        if word in _POLARITIES:
            facts.add(FactKind.NEGATION, word)
    text = _without_list_marks(text)
    if may_hold_date(text):
        for match in DATE.finditer(text):
            facts.add(FactKind.DATE, date_text(match), match[0])
        text = DATE.sub(" ; ", text)
    text = _without_all_identifiers(facts, text)
    for match in numbers(text):
        facts.quantities.setdefault(quantity(match), match[0].strip())
    for match in WORD_NUMBER.finditer(text) if not known.isdisjoint(WORDS) else ():
        facts.quantities.setdefault(word_quantity(match), match[0])
    for match in _OPERATOR.finditer(text) if _SIGN.search(text) else ():
        sign = match[1] or match[2] or match[3]
        facts.add(FactKind.OPERATOR, _SAME_SIGN.get(sign, sign))


def _without_all_identifiers(facts: Facts, text: str) -> str:
    """Take identifiers out; each different word is looked at once, in the order of the text, since answers repeat words."""
    words = text.split(" ")
    changed: dict[str, str] = {}
    for word in dict.fromkeys(words):
        parts = _SPACE.split(word) if word.split() != [word] else [word]  # a line break may stand inside
        if any(map(_suspect, parts)):
            changed[word] = "".join(_without_identifiers(facts, part) if _suspect(part) else part for part in parts)
    return " ".join([changed.get(word, word) for word in words]) if changed else text


def _without_identifiers(facts: Facts, token: str) -> str:
    return _IDENTIFIER.sub(lambda match: _identifier(facts, match[0]), token)


def _identifier(facts: Facts, token: str) -> str:
    """Enter an identifier and return what stands in its place; numbers, units and currencies are left where they are."""
    if token in UNITS or token.casefold() in CURRENCIES or token.casefold() in _NEGATIONS or NUMBER.fullmatch(token):
        return token
    facts.add(FactKind.IDENTIFIER, token.rstrip(".,;:"))
    return " ; "


def _without_list_marks(text: str) -> str:
    """Drop the numbers of a numbered list (1. 2. 3.): they count lines, not things. A lone `4.` stays a number."""
    numbers = [int(match[1]) for match in _LIST_MARK.finditer(text)]
    counting = len(numbers) > 1 and numbers[0] <= 1
    counting = counting and all(after in (before + 1, 1) for before, after in itertools.pairwise(numbers))
    return _LIST_MARK.sub(" ", text) if counting else text
