"""The ratio is difflib's own, with its junk heuristic off."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servegate.text.similarity import MAX_CELLS, rouge_l, similarity

TEXT = st.text(st.sampled_from("ab c\u00e9\ud83d\U0001f600"), max_size=60)


@settings(deadline=None)  # the machine may be busy
@given(TEXT, TEXT)
def test_equals_difflib(left: str, right: str) -> None:
    expected = difflib.SequenceMatcher(None, left, right, autojunk=False).ratio()
    assert similarity(left, right) == pytest.approx(expected, abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(["ab", "ba", "a ", "xyz "]), min_size=30, max_size=90), st.data())
def test_a_shared_end_that_is_cut_off_first_leaves_the_value_as_it_is(words: list[str], data: st.DataObject) -> None:
    """Texts of few letters repeat themselves, so the longest common part may lie elsewhere: then nothing is cut off."""
    other = list(words)
    for _ in range(data.draw(st.integers(1, 3))):
        other[data.draw(st.integers(0, len(other) - 1))] = data.draw(st.sampled_from(["", "q", "ab", "abab"]))
    left, right = "".join(words), "".join(other)
    assert similarity(left, right) == difflib.SequenceMatcher(None, left, right, autojunk=False).ratio()


def test_long_texts_of_few_characters_are_not_junk() -> None:
    left = "The total is 42. " * 18
    assert similarity(left, "So: " + left) == pytest.approx(0.9935, abs=1e-4)
    assert difflib.SequenceMatcher(None, left, "So: " + left).ratio() == 0.0, "what the heuristic would have said"


def test_a_high_ratio_may_hide_the_one_word_that_matters() -> None:
    found = similarity("The transfer was approved.", "The transfer was not approved.")
    assert found is not None
    assert found > 0.9


def test_too_long_is_not_measured_and_equal_is_equal_at_any_length() -> None:
    long = "x" * (int(MAX_CELLS**0.5) + 1)
    assert similarity(long, long + "y") is None
    assert similarity(long, long) == 1.0
    assert similarity("", "x") == 0.0


WORDS = st.lists(st.sampled_from(["a", "b", "c", "The"]), max_size=14)


@settings(deadline=None)
@given(WORDS, WORDS)
def test_rouge_l_is_the_longest_common_subsequence_of_words(left: list[str], right: list[str]) -> None:
    lengths = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for row, word in enumerate(left, 1):
        for column, other in enumerate(right, 1):
            equal = lengths[row - 1][column - 1] + 1 if word == other else 0
            lengths[row][column] = max(equal, lengths[row - 1][column], lengths[row][column - 1])
    expected = 2 * lengths[-1][-1] / (len(left) + len(right)) if left or right else 1.0
    assert rouge_l(" ".join(left).upper(), "\n".join(right)) == pytest.approx(expected)


def test_rouge_l_of_the_paper() -> None:
    """Lin (2004), section 3.2: the same words, told apart by their order."""
    assert rouge_l("police killed the gunman", "police kill the gunman") == 0.75
    assert rouge_l("police killed the gunman", "the gunman kill police") == 0.5
