"""The ladder of equality: what is folded on each step, and what never is."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servegate.text.equality import Sameness, sameness

TEXT = st.text(st.characters(), max_size=40)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("", "", "bytes"),
        ("caf\u00e9", "cafe\u0301", "encoding"),
        ("\ufeffa", "a", "encoding"),
        ("\u1100\u1161", "\uac00", "encoding"),
        ("a\r\nb", "a\nb", "whitespace"),
        ("a\u00a0b", "a b", "whitespace"),
        ("\ufeffa  b", "a b\n", "whitespace"),
        ("foo bar", "foobar", "none"),
        ("x\u00b2", "x2", "none"),
        ("\ufb01ve", "five", "none"),
        ("\u22127", "-7", "none"),
        ("pay\u200bload", "payload", "none"),
        ("a\ufeffb", "ab", "none"),
        ("\ud83d", "\ude00", "none"),
        ("No", "no", "none"),
    ],
)
def test_step(left: str, right: str, expected: str) -> None:
    assert sameness(left, right) is Sameness(expected)
    assert sameness(right, left) is Sameness(expected)


def test_indentation_is_kept_where_it_matters() -> None:
    assert sameness("\tx", "    x") is Sameness.WHITESPACE
    assert sameness("\tx", "    x", indentation=True) is Sameness.NONE
    assert sameness("x  \r\ny\n\n", "x\ny", indentation=True) is Sameness.WHITESPACE
    assert sameness("x\n\ny", "x\ny", indentation=True) is Sameness.NONE


@settings(deadline=None)  # the machine may be busy
@given(TEXT)
def test_the_folds_are_recognised_in_any_text(text: str) -> None:
    assert sameness(text, text) is Sameness.BYTES
    decomposed = unicodedata.normalize("NFD", text)
    if unicodedata.normalize("NFC", text) == unicodedata.normalize("NFC", decomposed):
        assert sameness(text, decomposed) in (Sameness.BYTES, Sameness.ENCODING)
    assert sameness(text, f" {text}\r\n") is not Sameness.NONE or text.startswith("\ufeff")


@settings(deadline=None)  # the machine may be busy
@given(TEXT, TEXT)
def test_symmetric_and_never_blind_to_a_letter(left: str, right: str) -> None:
    found = sameness(left, right)
    assert found is sameness(right, left)
    assert (found is Sameness.BYTES) == (left == right)
    assert sameness(f"{left}x{right}", f"{left}y{right}") is Sameness.NONE


def test_hostile_combining_marks_take_no_long_time() -> None:
    begin = time.perf_counter()
    text = "a" + "\u0315" * 200_000 + "\u0316" * 200_000
    assert sameness(text, text + "b") is Sameness.NONE
    assert time.perf_counter() - begin < 20
