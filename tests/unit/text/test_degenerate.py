"""Degenerate answers are found, and ordinary ones that repeat for good reasons are not."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servegate.text.degenerate import SHORT_CHARACTERS, Kind, _longest_periodic_end, _repeats_at_its_end, degeneration

CODE = "def f(x):\n    if x:\n        return 1\n    return 0\n\n\nfor i in range(3):\n    print(f(i))\n"
TABLE = "| name | size |\n|------|------|\n| a | 1 |\n| b | 2 |\n| c | 3 |\n" + "|------|------|\n" * 3
LIST = "\n".join(f"{number}. The step number {number} of the plan is to wait." for number in range(1, 12))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "empty"),
        (" \n\t", "empty"),
        ("!" * 64, "loop"),
        ("The answer is " + "the the " * 20, "loop"),
        ("I think so. " * 6, "loop"),
        ("It begins well enough.\n" + "Then it says this again.\n" * 8, "loop"),
        ("abc" * 12, "loop"),
        ("\u3042" * 40, "loop"),
        ("Answer: 4\n\nAnswer: 5\n" + "I am a helpful assistant.\nYes.\n" * 9, "loop"),
        ('{"summary": "It is well. ' + "and so on " * 12 + '", "sure": true}', "loop"),
        ('{"a": [{"b": "' + 'the same again \\"quoted\\" ' * 7 + '"}], "c": 1}\n', "loop"),
        ('[tool call] note {"text": "' + "call me " * 15 + '"}\n', "loop"),
        ('```json\n{"a": "' + "again, " * 20 + '"}\n```\nThis is the answer.', "loop"),
        ("<p>Well.</p><p>" + "I think so. " * 9 + "</p><p>End</p>", "loop"),
        ('{"a": "' + "!" * 200 + '"}', "loop"),
        ('{"a": "' + "0, " * 70 + '"}', "loop"),
        ("<|im_start|>" * 5, "soup"),
        ("Hi <unk><unk><unk><pad></s>", "soup"),
        ("\ufffd" * 9 + " and a bit of text", "soup"),
        ("\x01\x02\x03\x04\x05\x06\x07\x08 x", "soup"),
        ("\ud83d" * 10, "soup"),
    ],
)
def test_found(text: str, kind: str) -> None:
    found = degeneration(text)
    assert found is not None
    assert found.kind is Kind(kind)
    assert "\n" not in found.evidence
    assert found.evidence.isprintable()
    assert len(found.evidence) < 120


@pytest.mark.parametrize(
    "text",
    [
        "Yes",
        "No, no, no!",
        "42",
        "ha ha ha ha",
        "-" * 80,
        "=" * 80 + "\nTitle\n" + "=" * 80,
        "Wait....................................",
        CODE,
        CODE * 2,
        TABLE,
        LIST,
        "[0, 0, 0, 0, 0, 0, 0, 0]",
        "[" + "0, " * 300 + "0]",
        '{"a": [' + '"none", ' * 60 + '"none"]}',
        '{"row": "| a | 1 |", "hash": "' + "0" * 128 + '", "mask": "' + "*" * 300 + '"}',
        '{"verse": "' + "Row, row, row your boat. " * 4 + 'Gently down the stream."}',
        '{"laugh": "' + "ha " * 20 + '"}',
        "| name | state |\n|---|---|\n" + "| a | none |\n| b | none |\n" * 2 + "| c | none |",
        "<tr>" + "<td>none</td>" * 60 + "</tr>",
        '<a href="x">' + "<br>\n" * 60 + "</a>",
        'It is 5" wide. ' + "\n".join(f"| {n} | 0 | 0 | 0 | 0 |" for n in range(40)),
        "a,b\n" + "N/A,N/A,N/A\n" * 3,
        "The tag <|im_end|> ends a turn, and </s> ends a text.",
        "One replacement \ufffd happens.",
        "a\n" * 3 + "b\n" * 3,
        "}\n" * 12,
    ],
)
def test_not_found(text: str) -> None:
    assert degeneration(text) is None


@settings(deadline=None)  # the machine may be busy
@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=30).filter(lambda unit: len(set(unit.strip())) > 4)
)
def test_any_unit_repeated_often_enough_is_a_loop(unit: str) -> None:
    found = degeneration("It started as an answer. " + unit * 40)
    assert found is not None


@settings(deadline=None)  # the machine may be busy
@given(st.text(max_size=300))
def test_any_text_gets_an_answer(text: str) -> None:
    found = degeneration(text)
    assert found is None or found.evidence
    assert (degeneration(text) is not None) or text.strip()


def test_megabytes_take_no_long_time() -> None:
    begin = time.perf_counter()
    for text in (
        "a" * 2_000_000,
        "ab " * 700_000,
        "x\n" * 1_000_000,
        '"\\' * 1_000_000,
        '"' + '\\"' * 1_000_000,
        '"ab ' * 500_000,
        ">" * 1_000_000,
        ">ab " * 500_000,
        "<|" * 1_000_000,
        "".join(map(chr, range(0x100, 0x8000))) * 60,
    ):
        degeneration(text)
    assert time.perf_counter() - begin < 20


@settings(deadline=None, max_examples=80)
@given(st.text("ab -", max_size=40), st.text("ab c", min_size=1, max_size=30), st.integers(2, 12), st.text("ab", max_size=5))
def test_the_quick_look_never_misses_a_loop(start: str, unit: str, times: int, rest: str) -> None:
    """What the whole search would call a loop always passes the look that comes before it."""
    text = (start + unit * times + rest).rstrip()
    length, period = _longest_periodic_end(text)
    if len(text) >= SHORT_CHARACTERS and length >= SHORT_CHARACTERS and period:
        assert _repeats_at_its_end(text)
