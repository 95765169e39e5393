"""Marks: they cover exactly what differs, stay inside the text, and take bounded work."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servegate.domain.blocks import Mark
from servegate.text.marks import MAX_MARKS, differences, excerpt

TEXT = st.text(st.sampled_from("ab, \n\u00e9\ud83d1"), max_size=60)


def words(text: str, marks: tuple[Mark, ...]) -> list[str]:
    return [text[mark.start : mark.end] for mark in marks]


def without(text: str, marks: tuple[Mark, ...]) -> str:
    for mark in reversed(marks):
        text = text[: mark.start] + text[mark.end :]
    return text


def is_within(part: str, whole: str) -> bool:
    """Whether the characters of `part` stand in `whole` in their order."""
    rest = iter(whole)
    return all(character in rest for character in part)


def test_marks_the_words_that_differ() -> None:
    left, right = "take 0.5 mg every 12 hours", "take 5.0 mg every 12 hours now"
    mine, theirs = differences(left, right)
    assert "".join(words(left, mine)) == "0.5"
    assert words(right, theirs) == ["5.0", " now"]
    assert differences("was approved", "was not approved") == ((), (Mark(start=4, end=8),))


@settings(deadline=None)  # the machine may be busy
@given(TEXT, TEXT)
def test_what_is_not_marked_is_the_same_on_both_sides(left: str, right: str) -> None:
    mine, theirs = differences(left, right)
    if left == right:
        assert (mine, theirs) == ((), ())
        return
    assert mine or theirs
    for text, marks in ((left, mine), (right, theirs)):
        assert all(0 <= mark.start < mark.end <= len(text) for mark in marks)
        assert all(one.end < other.start for one, other in pairwise(marks))
    assert is_within(without(left, mine), right)
    assert is_within(without(right, theirs), left)


def test_many_differences_end_in_one_span() -> None:
    left = " . ".join(f"a{number}" for number in range(300))
    right = " . ".join(f"b{number}" for number in range(300))
    mine, _ = differences(left, right)
    assert len(mine) == MAX_MARKS
    assert mine[-1].end == len(left)


@pytest.mark.parametrize("size", [100_000])
def test_texts_too_long_to_align_are_marked_as_a_whole_between_their_equal_ends(size: int) -> None:
    begin = time.perf_counter()
    left = "start " + " ".join(f"a{number}" for number in range(size)) + " end"
    right = "start " + " ".join(f"b{number}" for number in range(size)) + " end"
    mine, _ = differences(left, right)
    assert mine == (Mark(start=6, end=len(left) - 4),)
    assert time.perf_counter() - begin < 20


@settings(deadline=None)  # the machine may be busy
@given(TEXT, TEXT, st.integers(1, 40))
def test_an_excerpt_is_bounded_and_its_marks_fit_it(left: str, right: str, limit: int) -> None:
    found = excerpt(left, right, limit)
    assert len(found.left) <= limit + 4
    assert len(found.right) <= limit + 4
    assert found.cut == (max(len(left), len(right)) > limit)
    for text, marks in ((found.left, found.left_marks), (found.right, found.right_marks)):
        assert all(mark.end <= len(text) for mark in marks)
    if not found.cut:
        assert (found.left, found.right) == (left, right)


def test_an_excerpt_shows_the_first_difference() -> None:
    start = "same " * 2_000
    found = excerpt(start + "left", start + "right", 500)
    assert words(found.left, found.left_marks) == ["left"]
    assert words(found.right, found.right_marks) == ["right"]
