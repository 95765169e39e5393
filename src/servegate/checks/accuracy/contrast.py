"""The shape of a comparison: how often two passes disagree, and in which way. Noise has the same shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from pydantic import Field

from servegate.checks.accuracy.pairing import Pair, PairedRound
from servegate.domain.records import Record
from servegate.stats.paired import mcnemar_two_sided

FilterOf = Callable[[Pair], str]
"""Which filter judges a pair."""
RIGHT_TO_WRONG, WRONG_TO_RIGHT, BOTH_WRONG = "right_to_wrong", "wrong_to_right", "both_wrong_different"


class Flips(Record):
    """One pass against another under one filter. `n` pairs with both answers there; the rest is `no_answer_*`."""

    left_round: int
    right_round: int
    n: int
    right_to_wrong: int
    wrong_to_right: int
    both_right: int
    both_wrong_same: int
    both_wrong_different: int
    """Both wrong, with different extracted answers: invisible to a test of correctness."""
    extraction_suspects: int
    """Flips in which another filter calls the "wrong" answer right: read them before blaming the model."""
    same_text: int
    """Answers equal to the last character."""
    no_answer_left: int
    no_answer_right: int
    mcnemar_p: float
    """Exact two-sided p of McNemar's test: how often chance alone makes the directions so unequal."""

    @property
    def flipped(self) -> int:
        """Pairs whose correctness differs, in either direction."""
        return self.right_to_wrong + self.wrong_to_right


class Validity(Record):
    """What must hold before a drop means anything."""

    arms_differ_in: tuple[str, ...] = ()
    judged_filter: dict[str, str] = Field(default_factory=dict)
    distinct_questions: int = 0
    rounds: int = 0
    uniform_score: float | None = None
    """0 or 1 when every answer of both arms scored that; else None (no reason needed: the scores differ)."""
    serving_differs: bool | None = None
    """Whether the arms were served with different arguments; None when the arguments are unknown."""
    worse_questions: int = 0
    better_questions: int = 0
    answers_baseline: int = 0
    answers_candidate: int = 0
    no_answers_baseline: int = 0
    no_answers_candidate: int = 0


class Contrast(Record):
    """Every pass against another: under each task's judged filter, and under every filter by name."""

    rounds: tuple[Flips, ...]
    filters: dict[str, tuple[Flips, ...]]
    format_flips: int
    """Flips under another filter while the judged one saw none: the form of the answer changed, not the answer."""
    validity: Validity | None = None

    @property
    def discordance(self) -> float | None:
        """Share of answered pairs that flipped, over all passes; None when there are none."""
        n = sum(flips.n for flips in self.rounds)
        return sum(flips.flipped for flips in self.rounds) / n if n else None


def contrast(rounds: tuple[PairedRound, ...], judged: Mapping[str, str], validity: Validity | None = None) -> Contrast:
    """Count flips in both directions, per round, under the judged filter and under each filter."""
    names = sorted({name for paired in rounds for pair in paired.pairs for name in pair.left.rows})
    return Contrast(
        rounds=tuple(_flips(paired, lambda pair: judged[pair.task]) for paired in rounds),
        filters={name: tuple(_under(paired, name) for paired in rounds) for name in names},
        format_flips=sum(_is_format_flip(pair, judged[pair.task]) for paired in rounds for pair in paired.pairs),
        validity=validity,
    )


def kind_of(pair: Pair, filter_name: str) -> str | None:
    """Return which way a pair differs under a filter, or None when it does not (or an answer did not come)."""
    if not pair.both_came:
        return None
    left, right = pair.left.right(filter_name), pair.right.right(filter_name)
    if left != right:
        return RIGHT_TO_WRONG if left else WRONG_TO_RIGHT
    if not left and pair.left.rows[filter_name].extracted != pair.right.rows[filter_name].extracted:
        return BOTH_WRONG
    return None


def is_extraction_suspect(pair: Pair, filter_name: str) -> bool:
    """Return whether the wrong side of a flip is right under another filter of the same answer."""
    if kind_of(pair, filter_name) not in (RIGHT_TO_WRONG, WRONG_TO_RIGHT):
        return False
    wrong = pair.right if pair.left.right(filter_name) else pair.left
    return any(wrong.right(name) for name in wrong.rows if name != filter_name)


def _under(paired: PairedRound, name: str) -> Flips:
    pairs = tuple(pair for pair in paired.pairs if name in pair.left.rows)
    return _flips(PairedRound(paired.left_round, paired.right_round, pairs, paired.unpaired), lambda _: name)


def _flips(paired: PairedRound, filter_of: FilterOf) -> Flips:
    came = [pair for pair in paired.pairs if pair.both_came]
    kinds = [kind_of(pair, filter_of(pair)) for pair in came]
    lost, won = kinds.count(RIGHT_TO_WRONG), kinds.count(WRONG_TO_RIGHT)
    both_right = sum(pair.left.right(filter_of(pair)) and pair.right.right(filter_of(pair)) for pair in came)
    different = kinds.count(BOTH_WRONG)
    return Flips(
        left_round=paired.left_round,
        right_round=paired.right_round,
        n=len(came),
        right_to_wrong=lost,
        wrong_to_right=won,
        both_right=both_right,
        both_wrong_same=len(came) - lost - won - both_right - different,
        both_wrong_different=different,
        extraction_suspects=sum(is_extraction_suspect(pair, filter_of(pair)) for pair in came),
        same_text=sum(pair.left.text == pair.right.text for pair in came),
        no_answer_left=sum(not pair.left.came for pair in paired.pairs),
        no_answer_right=sum(not pair.right.came for pair in paired.pairs),
        mcnemar_p=mcnemar_two_sided(lost, won),
    )


def _is_format_flip(pair: Pair, judged: str) -> bool:
    flipped = (RIGHT_TO_WRONG, WRONG_TO_RIGHT)
    others = (name for name in pair.left.rows if name != judged)
    return kind_of(pair, judged) not in flipped and any(kind_of(pair, name) in flipped for name in others)


def summed(rounds: Iterable[Flips], name: str) -> int:
    """Add up one count over rounds."""
    return sum(int(getattr(flips, name)) for flips in rounds)
