"""Contracts: kept, broken or open, one kind at a time, on ordinary and on hostile answers."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servegate.text.contracts import KINDS, State, judge, problem_with

SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}, "additionalProperties": False}
EVERY_KIND: dict[str, Any] = {
    "json": True,
    "json_schema": SCHEMA,
    "xml": True,
    "yaml": True,
    "code": "python",
    "regex": "^a+$",
    "one_of": ["yes", "no"],
    "max_words": 3,
    "number": 42,
    "tool_call": True,
}


def state(expect: dict[str, Any], text: str, *, cut: bool = False) -> str:
    assert problem_with(expect) is None
    return judge(expect, text, cut=cut).state.value


FENCED = '```json\n{"a": 1}\n```'


@pytest.mark.parametrize(
    ("expect", "text", "expected"),
    [
        ({"json": True}, ' {"a": [1, null]} \n', "kept"),
        ({"json": True}, FENCED, "broken"),
        ({"json": "fenced"}, FENCED, "kept"),
        ({"json": "fenced"}, f"Here it is:\n{FENCED}\nEnjoy!", "kept"),
        ({"json": "fenced"}, f"{FENCED}\nor\n{FENCED}", "broken"),
        ({"json": "fenced"}, '{"s": "```"}', "kept"),
        ({"json": True}, '{"a": 1} Hope this helps', "broken"),
        ({"json": True}, '{"a": NaN}', "broken"),
        ({"json": True}, '{"a": 1, "a": 1}', "broken"),
        ({"json": True}, "42", "broken"),
        ({"json": True}, '"text"', "broken"),
        ({"json": True}, "1" * 5_000, "broken"),
        ({"json_schema": SCHEMA}, '{"a": 1}', "kept"),
        ({"json_schema": SCHEMA}, '{"a": true}', "broken"),
        ({"json_schema": SCHEMA}, '{"a": "1"}', "broken"),
        ({"json_schema": SCHEMA}, '{"a": 1, "b": 2}', "broken"),
        ({"json_schema": SCHEMA}, "prose", "broken"),
        ({"json_schema": {"type": "string"}}, '"\\ud83d"', "broken"),
        ({"json_schema": {"type": "string"}}, '"x"', "kept"),
        ({"xml": True}, "<a><b/>x &amp; y</a>\n", "kept"),
        ({"xml": True}, "<a>", "broken"),
        ({"xml": True}, "no markup", "broken"),
        ({"xml": True}, '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "broken"),
        ({"xml": True}, "<!DOCTYPE a><a/>", "broken"),
        ({"xml": "fenced"}, "```xml\n<a/>\n```", "kept"),
        ({"xml": True}, "<a>\ud83d</a>", "broken"),
        ({"yaml": True}, "a: 1\nb:\n  - 2031-04-09\n", "kept"),
        ({"yaml": True}, "- x\n- y", "kept"),
        ({"yaml": True}, "just words", "broken"),
        ({"yaml": True}, "a: 1\na: 2", "broken"),
        ({"yaml": True}, "a:\n  b: 1\n  b: 2", "broken"),
        ({"yaml": True}, "a: [1, 2", "broken"),
        ({"yaml": True}, "a: 1\n---\nb: 2", "broken"),
        ({"yaml": "fenced"}, "```yaml\na: 1\n```", "kept"),
        ({"regex": r"^\s*\d{4}-\d\d-\d\d\s*$"}, " 2031-04-09\n", "kept"),
        ({"regex": r"^\s*\d{4}-\d\d-\d\d\s*$"}, "On 2031-04-09", "broken"),
        ({"one_of": ["Ana", "Ben"]}, " **ben**.\n", "kept"),
        ({"one_of": ["Ana", "Ben"]}, "Ben and Ana", "broken"),
        ({"one_of": ["caf\u00e9"]}, "Cafe\u0301", "kept"),
        ({"one_of": ["yes"]}, "", "broken"),
        ({"max_words": 3}, "one two three", "kept"),
        ({"max_words": 3}, "one two three four", "broken"),
        ({"max_words": 3}, " ", "broken"),
        ({"number": 42}, "The answer is 42.", "kept"),
        ({"number": 42}, "6 times 7 is 42", "kept"),
        ({"number": 42}, "42, not 43", "broken"),
        ({"number": 42}, "#### 42\nor is it 43?", "kept"),
        ({"number": 42}, "42.0", "kept"),
        ({"number": 42}, "4.2e1", "kept"),
        ({"number": 42}, "42%", "broken"),
        ({"number": 42}, "4_2", "broken"),
        ({"number": 42}, "\u0664\u0662", "broken"),
        ({"number": 42}, "forty-two", "broken"),
        ({"number": -7}, "\u22127", "kept"),
        ({"number": 7}, "\u22127", "broken"),
        ({"number": 9}, "6-9", "kept"),
        ({"number": 1250}, "$1,250.00", "kept"),
        ({"number": 1250}, "1\u202f250", "kept"),
        ({"number": 1250}, "1.250", "broken"),
        ({"number": 0.1}, "0.10", "kept"),
        ({"number": 12345678901234567890}, "12345678901234567891", "broken"),
        ({"number": 42}, "9" * 100_000, "broken"),
        ({"code": "python"}, "def f():\n    return 1\n", "kept"),
        ({"code": "python"}, "```python\nx = 1\n```", "kept"),
        ({"code": "python"}, "Idea:\n```python\nx=\n```\nFinal:\n```python\nx=1\n```", "broken"),
        ({"code": "python"}, "Run `pip`:\n```bash\npip install x\n```\n```python\nx=1\n```", "kept"),
        ({"code": "python"}, "```bash\nls\n```", "broken"),
        ({"code": "python"}, "Sure", "broken"),
        ({"code": "python"}, "Here is the code you want.", "broken"),
        ({"code": "python"}, "", "broken"),
        ({"code": "python"}, "x = '\ud83d'", "broken"),
        ({"code": "python"}, "-" * 100_000 + "1", "broken"),
        ({"code": "python"}, "if x:\n\ty\n        z", "broken"),
        ({"json": True, "max_words": 2}, '{"a": 1}', "kept"),
        ({"json": True, "max_words": 1}, '{"a": 1}', "broken"),
    ],
)
def test_whole_answers(expect: dict[str, Any], text: str, expected: str) -> None:
    assert state(expect, text) == expected


@pytest.mark.parametrize(
    ("expect", "text", "expected"),
    [
        ({"json": True}, '{"a": "some te', "open"),
        ({"json": True}, '{"a": 1}', "kept"),
        ({"json": True}, "Of course! Here is your JSON", "broken"),
        ({"json": True}, '{"a": 1} and then', "broken"),
        ({"json": "fenced"}, 'Here:\n```json\n{"a": ', "open"),
        ({"json_schema": SCHEMA}, '{"a": 1, "b', "open"),
        ({"xml": True}, "<a><b>", "open"),
        ({"xml": True}, "Sure: <a>", "broken"),
        ({"yaml": True}, "a: 1", "open"),
        ({"regex": r"^\d{4}-\d\d-\d\d$"}, "2031-0", "open"),
        ({"regex": r"^\d{4}-\d\d-\d\d$"}, "The date", "broken"),
        ({"one_of": ["positive"]}, "posi", "open"),
        ({"one_of": ["positive"]}, "The review", "broken"),
        ({"max_words": 2}, "one two", "open"),
        ({"max_words": 2}, "one two three", "broken"),
        ({"number": 42}, "First we add 4", "open"),
        ({"number": 42}, "#### 42\nBesides", "kept"),
        ({"code": "python"}, "```python\nx = (", "open"),
        ({"code": "python"}, "```python\nx = (\n```\nThis", "broken"),
        ({"code": "python"}, "x = (", "open"),
        ({"json": True, "max_words": 9}, "{", "open"),
        ({"json": True, "max_words": 1}, '{"a": [', "broken"),
    ],
)
def test_cut_answers_are_open_unless_no_end_could_mend_them(expect: dict[str, Any], text: str, expected: str) -> None:
    assert state(expect, text, cut=True) == expected


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        (None, "must be an object"),
        ({}, "must be an object"),
        ({"jsn": True}, "did you mean 'json'?"),
        ({"json": 1}, 'must be true or "fenced"'),
        ({"json": False}, 'must be true or "fenced"'),
        ({"json_schema": []}, "must be a JSON Schema"),
        ({"json_schema": {"type": "objekt"}}, "json_schema: "),
        ({"json_schema": {"$ref": "http://example.org/a.json"}}, "external references are not followed"),
        ({"json_schema": {"$ref": "file:///etc/hostname"}}, "external references are not followed"),
        ({"regex": ""}, "must be a pattern"),
        ({"regex": "(a"}, "not a pattern"),
        ({"regex": "a" * 5_000}, "allowed are"),
        ({"one_of": "yes"}, "must be a list"),
        ({"one_of": []}, "must be a list"),
        ({"one_of": ["a", "A."]}, "two choices are equal"),
        ({"one_of": ["a", "?!"]}, "a choice is empty"),
        ({"max_words": 0}, "at least 1"),
        ({"max_words": True}, "at least 1"),
        ({"number": "42"}, "must be a number"),
        ({"number": True}, "must be a number"),
        ({"code": "cobol"}, "'cobol' is not supported yet"),
        ({"json": True, "cod": "python"}, "did you mean 'code'?"),
    ],
)
def test_an_expectation_that_cannot_be_judged_is_refused(expect: Any, said: str) -> None:
    problem = problem_with(expect)
    assert problem is not None
    assert said in problem
    assert "\n" not in problem


@settings(deadline=None)  # the machine may be busy
@given(st.text(max_size=80), st.booleans())
def test_every_kind_answers_on_any_text_with_a_printable_reason(text: str, cut: bool) -> None:
    for name, value in EVERY_KIND.items():
        ruling = judge({name: value}, text, cut=cut)
        assert (ruling.why == "") == (ruling.state is State.KEPT)
        assert ruling.why.isprintable()
        assert len(ruling.why) < 200


def test_every_kind_is_tried_above() -> None:
    assert EVERY_KIND.keys() == KINDS.keys()


def test_an_expectation_of_a_newer_servegate_is_open_and_never_kept() -> None:
    assert judge({"haiku": True}, "x", cut=False).state is State.OPEN


HOSTILE = [
    "[" * 200_000, '{"a":' * 100_000, "<a>" * 80_000, "a: " * 80_000, "-" * 200_000, "(" * 200_000, "`" * 200_000,
    "1," * 100_000, "\ud83d" * 100_000, "\x00" * 200_000, "a" * 200_000, "&x;" * 80_000, "- " * 100_000, "9" * 250_000,
    "x" * 3_000_000,
]  # fmt: skip


@pytest.mark.parametrize("name", sorted(EVERY_KIND))
def test_hostile_answers_take_no_long_time(name: str) -> None:
    for text in HOSTILE:
        begin = time.perf_counter()
        judge({name: EVERY_KIND[name]}, text, cut=False)
        judge({name: EVERY_KIND[name]}, text, cut=True)
        assert time.perf_counter() - begin < 20, text[:5]


def test_a_catastrophic_pattern_stops_and_decides_nothing() -> None:
    begin = time.perf_counter()
    assert state({"regex": "^(a|aa)+$"}, "a" * 100 + "!") == "open"
    assert time.perf_counter() - begin < 20


def test_a_catastrophic_pattern_in_a_schema_stops() -> None:
    begin = time.perf_counter()
    assert state({"json_schema": {"pattern": r"^(a|aa)+\1$"}}, '"' + "a" * 60 + '!"') == "broken"
    assert time.perf_counter() - begin < 20
