"""The shape of a comparison: how often two passes disagree, and in which way. Noise has the same shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from pydantic import Field

from servegate.checks.accuracy.kinds import (
    BOTH_WRONG,
    FLIPS,
    RIGHT_TO_WRONG,
    WRONG_TO_RIGHT,
    is_extraction_suspect,
    is_format_flip,
    kind_of,
)
from servegate.checks.accuracy.pairing import Pair, PairedRound
from servegate.domain.records import Record
from servegate.stats.intervals import Mean
from servegate.stats.paired import mcnemar_two_sided

FilterOf = Callable[[Pair], str]
"""Which filter judges a pair."""


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
    suspect_losses: int = 0
    """Those of them that go right-to-wrong."""
    format_flips: int = 0
    """Pairs that flipped under another filter only."""
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

    @property
    def answer_flips(self) -> int:
        """Flips that no other filter denies."""
        return self.flipped - self.extraction_suspects


class Spread(Record):
    """A mean over questions with its standard deviation, as shares in [-1, 1]."""

    value: float
    sd: float
    n: int

    @property
    def mean(self) -> Mean:
        """With its bounds."""
        return Mean(value=self.value, sd=self.sd, n=self.n)


class TaskDrop(Record):
    """One task by itself: accuracy of both arms and the drop in the three readings (see `readings`), None where empty."""

    task: str
    baseline: float | None
    baseline_low: float | None
    """Lower end of the 95 % interval."""
    candidate: float | None
    left_out: Spread | None
    against: Spread | None
    held: Spread | None
    worse: int
    better: int
    """Questions that got worse or better with every doubt for the candidate."""


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
    """With every doubt for the candidate: what a claim against it may count."""
    answers_baseline: int = 0
    answers_candidate: int = 0
    no_answers_baseline: int = 0
    no_answers_candidate: int = 0
    """Empty or failed."""
    cut_baseline: int = 0
    cut_candidate: int = 0
    """Cut at the limit of an answer's length."""
    late_baseline: int = 0
    late_candidate: int = 0
    """Came only when they were asked a second time."""
    repeated_baseline: int = 0
    repeated_candidate: int = 0
    """Attempts at a request that failed and were made again, the second askings among them."""
    lower_is_better: tuple[str, ...] = ()
    """Tasks whose metric lm-eval calls better when it is lower."""
    scores_outside: int = 0
    """Scores that are no share from 0 to 1."""
    first_tokens_unknown: tuple[str, ...] = ()
    """Tasks of which only one engine said how it begins the first prompt: `gsm8k: candidate` where the candidate did not."""
    first_tokens_differ: tuple[str, ...] = ()
    """Tasks whose first prompt begins with other tokens in the other arm: `gsm8k: 1 22 and 22 5`."""


class Contrast(Record):
    """Every pass against another: under each task's judged filter, and under every filter by name."""

    rounds: tuple[Flips, ...]
    filters: dict[str, tuple[Flips, ...]]
    format_flips: int
    """Flips under another filter while the judged one saw none: the form of the answer changed, not the answer."""
    validity: Validity | None = None
    tasks: tuple[TaskDrop, ...] = ()
    """Each task by itself."""

    @property
    def discordance(self) -> float | None:
        """Share of answered pairs that flipped, over all passes; None when there are none."""
        n = sum(flips.n for flips in self.rounds)
        return sum(flips.flipped for flips in self.rounds) / n if n else None


def contrast(
    rounds: tuple[PairedRound, ...],
    judged: Mapping[str, str],
    validity: Validity | None = None,
    tasks: tuple[TaskDrop, ...] = (),
) -> Contrast:
    """Count flips in both directions, per round, under the judged filter and under each filter."""
    names = sorted({name for paired in rounds for pair in paired.pairs for name in pair.left.rows})
    own = tuple(_flips(paired, lambda pair: judged[pair.task]) for paired in rounds)
    return Contrast(
        rounds=own,
        filters={name: tuple(_under(paired, name) for paired in rounds) for name in names},
        format_flips=summed(own, "format_flips"),
        validity=validity,
        tasks=tasks,
    )


def _under(paired: PairedRound, name: str) -> Flips:
    pairs = tuple(pair for pair in paired.pairs if name in pair.left.rows)
    return _flips(PairedRound(paired.left_round, paired.right_round, pairs, paired.unpaired), lambda _: name)


def _flips(paired: PairedRound, filter_of: FilterOf) -> Flips:
    kinds: Counter[str | None] = Counter()
    suspects: Counter[str | None] = Counter()
    n = both_right = format_flips = same_text = no_answer_left = no_answer_right = 0
    for pair in paired.pairs:  # one pass: a gate has tens of thousands of pairs
        if not pair.both_came:
            no_answer_left += not pair.left.came
            no_answer_right += not pair.right.came
            continue
        name = filter_of(pair)
        kind = kind_of(pair, name)
        n += 1
        kinds[kind] += 1
        same_text += pair.left.text == pair.right.text
        if kind in FLIPS:
            suspects[kind] += is_extraction_suspect(pair, name)
            continue
        both_right += kind is None and pair.left.right(name)
        format_flips += is_format_flip(pair, name)
    lost, won, different = kinds[RIGHT_TO_WRONG], kinds[WRONG_TO_RIGHT], kinds[BOTH_WRONG]
    return Flips(
        left_round=paired.left_round,
        right_round=paired.right_round,
        n=n,
        right_to_wrong=lost,
        wrong_to_right=won,
        both_right=both_right,
        both_wrong_same=n - lost - won - both_right - different,
        both_wrong_different=different,
        extraction_suspects=suspects.total(),
        suspect_losses=suspects[RIGHT_TO_WRONG],
        format_flips=format_flips,
        same_text=same_text,
        no_answer_left=no_answer_left,
        no_answer_right=no_answer_right,
        mcnemar_p=mcnemar_two_sided(lost, won),
    )


def summed(rounds: Iterable[Flips], name: str) -> int:
    """Add up one count over rounds."""
    return sum(int(getattr(flips, name)) for flips in rounds)
