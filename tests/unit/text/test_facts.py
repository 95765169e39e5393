"""Protected tokens: which changes are a changed fact, and which are wording, form, or encoding."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servegate.text.fact_changes import _other_letters, changes
from servegate.text.facts import MAX_CHARACTERS, Context, facts_of
from servegate.text.options import named_options
from servegate.text.quantities import CURRENCIES, NUMBER, decimal_text, numbers

NAMES = Context(options=("ana", "ben", "yes", "no"))


def kinds(left: str, right: str, context: Context = Context()) -> list[str]:  # noqa: B008 - it is immutable
    return [change.kind.value for change in changes(facts_of(left, context), facts_of(right, context))]


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        # G2: what a similarity of 0.93 hides
        ("The transfer was approved.", "The transfer was not approved.", "negation"),
        ("Take 0.5 mg every 12 hours.", "Take 5.0 mg every 12 hours.", "number"),
        ("It isn't safe to drink it.", "It is safe to drink it.", "negation"),
        ("Das ist kein Fehler der Anlage.", "Das ist ein Fehler der Anlage.", "negation"),
        # G5: signs
        ("-7", "7", "number"),
        ("a drop of \u221217 today in all", "a drop of 17 today in all", "number"),
        # G6: currency, percent, and what has two readings
        ("It costs $5 a month now", "It costs €5 a month now", "currency"),
        ("5% of it is lost there", "5 of it is lost there", "unit"),
        ("1.250", "1250", "number"),
        ("1.250", "1.25", "number"),
        # G7: what Python takes for a number
        ("1000", "1_000", "number"),
        ("18", "\u0661\u0668", "number"),
        ("the result is 0 in this case", "the result is NaN in this case", "number"),
        ("x\u00b2 is the area of it", "x2 is the area of it", "number"),
        # G8, G17: JSON by value and type, numbers by their digits
        ('{"ok":true}', '{"ok":1}', "JSON value"),
        ('{"v":1}', '{"v":1.0}', "JSON value"),
        ('{"v":12345678901234567890.0}', '{"v":12345678901234567891.0}', "JSON value"),
        ('{"v":"a"}', '{"w":"a"}', "JSON value"),
        ('{"text":"the sum of it all comes to 41"}', '{"text":"the sum of it all comes to 42"}', "number"),
        ("12345678901234567890.0", "12345678901234567891.0", "number"),
        # G13, G15, G18: damage, invisible characters, stray tags
        ("\U0001f600", "\ufffd\ufffd", "encoding damage"),
        ("ok \ud83d", "ok \ud83e", "encoding damage"),
        ("see the payload of this", "see the pay\u200bload of this", "invisible character"),
        ("x = 1 # fine here", "x = 1 # \u202efine here", "invisible character"),
        ("</think>\n42", "42", "stray tag"),
        ("so it is<|im_end|>", "so it is", "stray tag"),
        # units, dates, identifiers, code, signs, options
        ("5 mg daily for one week", "5 g daily for one week", "unit"),
        ("home to 5 million people", "home to 5 billion people", "unit"),
        ("you need three socks to be sure", "you need two socks to be sure", "number"),
        ("due on 29 November 2026 at last", "due on 28 November 2026 at last", "date"),
        ("due on 2026-11-29 at the latest", "due on 2026-11-28 at the latest", "date"),
        ("we meet on Monday in the town", "we meet on Tuesday in the town", "date"),
        ("we meet at 3 pm in the town", "we meet at 3 am in the town", "date"),
        ("write to a@b.com about this", "write to a@c.com about this", "identifier"),
        ("see /etc/passwd for all of it", "see /etc/shadow for all of it", "identifier"),
        ("use v0.32.0 of it from now", "use v0.33.0 of it from now", "identifier"),
        ("set max_tokens to the limit", "set min_tokens to the limit", "identifier"),
        ("an H200 is the card that we use", "an H100 is the card that we use", "identifier"),
        ("call `run()` to start all of it", "call `stop()` to start all of it", "identifier"),
        ("so\n```python\nx = 1\n```", "so\n```python\nx = 2\n```", "code"),
        ("we know that x < 4 holds here", "we know that x > 4 holds here", "operator"),
        ("7 * 6 = 42 as we know well", "7 + 6 = 42 as we know well", "operator"),
        ("Paris", "London", "answer"),
        # the same tokens in another order
        ("A takes 5 and B takes 3", "A takes 3 and B takes 5", "order"),
        ("Eve is not safe but Dan is safe", "Eve is safe but Dan is not safe", "order"),
    ],
)
def test_a_changed_fact_is_found_in_either_direction(left: str, right: str, kind: str) -> None:
    assert kind in kinds(left, right)
    assert kind in kinds(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("-7", "\u22127"),  # G5
        ("$1,250.00", "1250"),  # G6
        ("1,250", "1\u00a0250"),
        ("1.250,00", "1,250.00"),
        ("It costs $5 a month now", "It costs 5 dollars a month now"),
        ("5 % of it is lost", "5 percent of it is lost"),
        ("0.1", "0.10"),  # G17
        ("1e3", "1000"),
        ('{"v":0.1}', '{"v":0.10}'),
        ('{"a":1,"b":2}', '{ "b": 2, "a": 1 }'),
        ('{"a":1}', '```json\n{"a":1}\n```'),  # G9: the payload is equal; the form is a contract's business
        ("1000 km away from here", "1,000 kilometers away from here"),
        ("you need three socks in all", "in all you need 3 socks"),
        ("due on 29 November 2026 at last", "due on 2026-11-29 at last"),
        ("we meet at 3 pm in the town", "we meet at 15:00 in the town"),
        ("so 20 + 22 = 42, and 42 it is", "so 20+22=42"),
        ("1. Wash it\n2. Dry it well", "- Wash it\n- Dry it well"),
        ("from 10-20 items in the box", "from 10\u201320 items in the box"),
        ("It is not open at all today", "It isn't open at all today"),
        ("It is a fine, sunny day outside.", "Outside, the day is sunny and nice."),
        ("yes", "Yes."),
        ("The total is 42. " * 18, "So: " + "The total is 42. " * 18),  # G1
    ],
)
def test_another_form_of_the_same_fact_is_no_change(left: str, right: str) -> None:
    assert kinds(left, right) == []
    assert kinds(right, left) == []


def test_the_options_of_the_prompt_are_protected() -> None:
    assert kinds("The shortest of them must be Ana.", "The shortest of them must be Ben.", NAMES) == ["option"]
    assert kinds("First comes Ana and then Ben too", "First comes Ben and then Ana too", NAMES) == ["order"]
    assert kinds("The shortest of them must be ana.", "Ana is the shortest one of them.", NAMES) == []


@pytest.mark.parametrize(
    ("question", "expect", "options"),
    [
        ("Is it open? Answer yes or no.", None, {"yes", "no"}),
        ("Which class: billing, login, or delivery?", None, {"billing", "login", "delivery"}),
        ("Pick one: (A) red (B) blue", None, {"A", "B"}),
        ("Ana is taller than Ben. Who is shorter?", None, {"ana", "ben"}),
        ('Say "positive" when you like it.', None, {"positive"}),
        ("Choose.", {"one_of": ["left", "right"]}, {"left", "right"}),
        ("What is 20 + 22?", None, set()),
        ("He said it is his or her own.", None, set()),
    ],
)
def test_options_named_by_a_prompt(question: str, expect: dict[str, object] | None, options: set[str]) -> None:
    assert set(named_options(question, expect)) == options


@pytest.mark.parametrize(
    ("digits", "value"),
    [("1,250.50", "1250.5"), ("007", "7"), ("0.000", "0"), ("1.250", None), ("1.250,5", "1250.5"), ("3,14", "3.14"),
     ("1,2,3", None), ("12.345.678,9", "12345678.9"), ("0.125", "0.125"), (".5", "0.5"), ("1" * 5000, "1" * 5000)],
)  # fmt: skip
def test_one_spelling_for_every_value(digits: str, value: str | None) -> None:
    assert decimal_text(digits) == value


def test_exponents_are_read_and_absurd_ones_are_not_computed() -> None:
    assert decimal_text("1", "e400") == "1e400"
    assert decimal_text("15", "e-1") == "1.5"
    assert decimal_text("1", "e99999999999") is None


def test_a_whole_answer_of_code_is_compared_token_by_token() -> None:
    code = Context(code=True)
    assert kinds("x = f(1)  # one", "x = f(1) # one", code) == []
    assert kinds("x = f(1)", "x = f(2)", code) == ["code"]
    first, second = ("Idea:\n```python\nx=\n```\nFinal:\n```python\nx=1\n```".replace("1", digit) for digit in "12")
    assert kinds(first, second) == ["code"], "every block counts, not only the first"  # G10


def test_texts_too_long_to_take_apart_are_never_called_wording() -> None:
    long = "word " * (MAX_CHARACTERS // 5 + 1)
    assert kinds(long, long + "x") == ["size"]
    assert kinds(long, long) == []


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "unit", ["a", "1,", "a.", "/a", "_", "-a=", "1", "A", "`", "a@", "< ", "1 2 ", "$", "2026-", "{", "[1,", "us$-"]
)
def test_hostile_text_of_the_greatest_length_comes_to_an_end(unit: str) -> None:
    """Quadratic work on so many characters takes minutes, linear work about a second."""
    text = (unit * MAX_CHARACTERS)[:MAX_CHARACTERS]
    assert kinds(text, text + " ") in ([], ["size"])


@settings(deadline=None, max_examples=150)
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_two_texts_compare_symmetrically_and_print_as_strict_json(left: str, right: str) -> None:
    there, back = changes(facts_of(left), facts_of(right)), changes(facts_of(right), facts_of(left))
    assert {(one.kind, one.left, one.right) for one in there} == {(one.kind, one.right, one.left) for one in back}
    assert changes(facts_of(left), facts_of(left)) == ()
    assert all("\n" not in str(one) and len(str(one)) <= 160 for one in there)
    json.dumps([one.to_json() for one in there], allow_nan=False, ensure_ascii=True)


SIGNS = (
    "1",
    "42",
    "1,250.00",
    ".5",
    "-",
    "+",
    "\u2212",
    "$",
    " ",
    "\n",
    "\u00a0",
    "kg",
    "US$",
    "eur",
    "x",
    "a1",
    "1e3",
    "_",
    ".",
)
PIECES = st.sampled_from((*CURRENCIES, *SIGNS))


@settings(max_examples=400)
@given(st.lists(PIECES | st.text(max_size=14), max_size=12).map("".join))
def test_numbers_found_near_digits_are_all_numbers(text: str) -> None:
    assert [match.span() for match in numbers(text)] == [match.span() for match in NUMBER.finditer(text)]


def test_the_longest_start_of_a_number_is_within_reach() -> None:
    longest = max(CURRENCIES, key=len)
    for text in (f"a{' ' * 40}-{longest} -.5 and", f"{'b ' * 40}+US$+7", f"{'c ' * 40}$ 5{' d' * 40} -{longest}\t\u2212.25"):
        assert [match.span() for match in numbers(text)] == [match.span() for match in NUMBER.finditer(text)] != []


@given(st.lists(st.sampled_from(("open", "Closed", "it", "is", "not", "Straße", "'tis", "e")), max_size=6), st.randoms())
def test_letters_never_rule_out_the_same_words_in_another_order(words: list[str], random: Random) -> None:
    shuffled = random.sample(words, len(words))
    assert not _other_letters(" ".join(words), ", ".join(shuffled).upper())
