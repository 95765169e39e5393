"""Strict JSON: what Python's reader lets pass is refused, whatever the size."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servegate.text.strict_json import MAX_CHARACTERS, NotJsonError, parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)  # the machine may be busy
@given(VALUES)
def test_reads_every_json_value(value: object) -> None:
    assert parse(json.dumps(value)) == value


@settings(deadline=None)  # the machine may be busy
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        value = parse(text)
    except NotJsonError:
        return
    assert json.loads(text) == value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' is repeated"),
        ('{"x": {"a": 1, "a": 1}}', "the key 'a' is repeated"),
        ('{"v": NaN}', "NaN is not JSON"),
        ("[Infinity]", "Infinity is not JSON"),
        ("[-Infinity]", "-Infinity is not JSON"),
        ("[1e400]", "the number 1e400 is out of range"),
        ("[" * 200_000, "nested too deeply"),
        ("1" * (sys.get_int_max_str_digits() + 1), "a number of too many digits"),
        ('"' + "x" * MAX_CHARACTERS + '"', f"longer than {MAX_CHARACTERS} characters"),
        ("", "Expecting value at line 1 column 1"),
        ("{'a': 1}", "Expecting property name enclosed in double quotes"),
        ("[1,]", ""),
        ("\ufeff{}", ""),
        ("{} {}", "Extra data at line 1 column 4"),
        ('"a\nb"', "Invalid control character at"),
        ("01", "Extra data"),
        ("\u0661", "Expecting value"),
    ],
)
def test_refuses(text: str, why: str) -> None:
    with pytest.raises(NotJsonError) as caught:
        parse(text)
    assert str(caught.value).startswith(why)


def test_keeps_lone_surrogates() -> None:
    assert parse('"\\ud83d"') == "\ud83d"
    assert parse('"\ud83d"') == "\ud83d"


@pytest.mark.parametrize("text", ['{"a": [1, {"b": "some text", "c": true, "d": -1.5e3, "e": "\\u00e9"}]}'])
def test_every_cut_of_a_document_is_unfinished_and_prose_is_not(text: str) -> None:
    for end in range(len(text)):
        with pytest.raises(NotJsonError) as caught:
            parse(text[:end])
        assert caught.value.unfinished, text[:end]
    for wrong in ("Sure, here is the JSON:", text + " done", '{"a": 1} {"b"', "{a: 1, and more text follows"):
        with pytest.raises(NotJsonError) as caught:
            parse(wrong)
        assert not caught.value.unfinished, wrong
