"""What became of one question: the kinds of change that a reader has to tell apart.

    answer flip          right in one pass and wrong in the other, whichever filter is asked
    extraction suspect   the judged filter calls the answer wrong, another one calls the same answer right: perhaps the
                         number was taken from the wrong place ("#### 72 altogether, in 2 days" gives 2)
    format flip          another filter flipped while the judged one did not: the form of the answer changed
    both wrong           wrong both times, with different answers: a test of correctness never sees it

A suspect is still counted as the judged filter has it, but no claim may rest on it (see `readings`).
"""

from __future__ import annotations

from servegate.checks.accuracy.pairing import Answer, Pair

RIGHT_TO_WRONG, WRONG_TO_RIGHT, BOTH_WRONG = "right_to_wrong", "wrong_to_right", "both_wrong_different"
FLIPS = (RIGHT_TO_WRONG, WRONG_TO_RIGHT)


def kind_of(pair: Pair, filter_name: str) -> str | None:
    """Return which way a pair differs under a filter, or None when it does not (or an answer did not come)."""
    if filter_name not in pair.kinds:
        pair.kinds[filter_name] = _kind(pair, filter_name)
    return pair.kinds[filter_name]


def _kind(pair: Pair, filter_name: str) -> str | None:
    if not pair.both_came:
        return None
    left, right = pair.left.right(filter_name), pair.right.right(filter_name)
    if left != right:
        return RIGHT_TO_WRONG if left else WRONG_TO_RIGHT
    if not left and pair.left.rows[filter_name].extracted != pair.right.rows[filter_name].extracted:
        return BOTH_WRONG
    return None


def kind_as_scored(pair: Pair, filter_name: str) -> str | None:
    """Return the kind of a pair; of one in which an answer was cut, the flip that its scores show, marked as cut."""
    if pair.both_came or not all(answer.came or answer.cut for answer in (pair.left, pair.right)):
        return kind_of(pair, filter_name)
    left, right = pair.left.right(filter_name), pair.right.right(filter_name)
    if left == right:
        return None
    return cut_kind(RIGHT_TO_WRONG if left else WRONG_TO_RIGHT)


def cut_kind(kind: str) -> str:
    """Return how a flip is called when one of its answers was cut at the limit."""
    return f"{kind}_cut"


def is_extraction_suspect(pair: Pair, filter_name: str) -> bool:
    """Return whether the wrong side of a flip is right under another filter of the same answer."""
    if kind_of(pair, filter_name) not in FLIPS:
        return False
    return _denied(pair.right if pair.left.right(filter_name) else pair.left, filter_name)


def is_format_flip(pair: Pair, filter_name: str) -> bool:
    """Return whether another filter flipped while the judged one did not."""
    if kind_of(pair, filter_name) in FLIPS:
        return False
    return any(kind_of(pair, name) in FLIPS for name in pair.left.rows if name != filter_name)


def _denied(answer: Answer, filter_name: str) -> bool:
    return any(answer.right(name) for name in answer.rows if name != filter_name)
