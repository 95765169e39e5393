from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servegate.domain.blocks import Mark
from servegate.report.visible import cut, segments, visible

ANY = st.text(
    st.characters(categories=("L", "M", "N", "P", "S", "Z", "C"), include_characters="\ud800\udfff\u202e\n\t\r"), max_size=60
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, 漢字 and Ωμέγα", "plain text, 漢字 and Ωμέγα"),
        ("a\ud800b", "a\\ud800b"),
        ("\u202egnp\u202c", "\\u202egnp\\u202c"),
        ("a\u200bb\ufeff\xad", "a\\u200bb\\ufeff\\xad"),
        ("\x00\x1b[31m\r\n\t", "\\x00\\x1b[31m\\r\\n\\t"),
        ("1\u00a0000\u202f€", "1\\xa0000\\u202f€"),
        ("a\u2028b\u2029c\x85", "a\\u2028b\\u2029c\\x85"),
        ("\U000e0041\ufffe\U0010ffff", "\\U000e0041\\ufffe\\U0010ffff"),
        ("\u3164\u2800", "\\u3164\\u2800"),
    ],
)
def test_invisible_characters_are_written_as_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_line_ends_are_kept_where_they_are_wanted() -> None:
    assert visible("a\n\tb\rc", keep="\n\t") == "a\n\tb\\rc"


def test_towers_of_combining_marks_are_cut_down() -> None:
    assert visible("e\u0301") == "e\u0301"
    assert visible("Z" + "\u0335" * 6) == "Z" + "\u0335" * 4 + "\\u0335" * 2


@given(ANY)
def test_what_is_shown_is_printable_and_encodable(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert not [
        character for character in shown if unicodedata.category(character) in {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
    ]


def test_a_cut_says_what_is_missing() -> None:
    assert cut("abc", 3) == "abc"
    assert cut("x" * 1_234, 10) == "xxxxxxxxxx… 1,224 more characters"


def test_segments_keep_the_text_and_merge_marks() -> None:
    runs = segments("abcdefgh", (Mark(start=4, end=6), Mark(start=1, end=3), Mark(start=2, end=5), Mark(start=9, end=99)), 100)
    assert [(run.text, run.marked) for run in runs] == [("a", False), ("bc", True), ("de", True), ("f", True), ("gh", False)]


def test_a_mark_before_the_text_marks_nothing() -> None:
    assert [(run.text, run.marked) for run in segments("00", (Mark(start=-2, end=-1),), 2)] == [("00", False)]


def test_a_long_text_is_shown_around_its_first_difference() -> None:
    text = "a" * 50_000 + "DIFFERS" + "b" * 50_000
    runs = segments(text, (Mark(start=50_000, end=50_007),), 1_000)
    assert runs[0].text == "49,750 earlier characters …"
    assert runs[-1].text == f"… {len(text) - 50_750:,} more characters"
    assert [run.text for run in runs if run.marked] == ["DIFFERS"]
    assert sum(len(run.text) for run in runs if run.kind == "plain") == 1_000


@given(ANY, st.lists(st.tuples(st.integers(-5, 80), st.integers(-5, 80)), max_size=6), st.integers(1, 80))
def test_segments_never_lose_or_repeat_a_character(text: str, spans: list[tuple[int, int]], limit: int) -> None:
    runs = segments(text, tuple(Mark(start=start, end=end) for start, end in spans), limit)
    joined = "".join(run.text for run in runs if run.kind != "note")
    whole = visible(text, keep="\n\t")
    marked = {place for start, end in spans for place in range(max(start, 0), end)}
    if len(text) <= limit and not any(unicodedata.category(character) in {"Mn", "Me"} for character in text):
        assert joined == whole
        expected = "".join(visible(c, keep="\n\t") for i, c in enumerate(text) if i in marked)
        assert "".join(run.text for run in runs if run.marked) == expected
