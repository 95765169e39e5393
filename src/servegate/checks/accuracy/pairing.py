"""Puts the same question of two passes side by side: joined on task, question and filter, proven equal by hashes.

Nothing is joined by position. What cannot be joined is counted by reason, because a score over the questions that
happen to be left is a score of something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from servegate.checks.accuracy.record import AccuracyMeasurement, Response, Row
from servegate.domain.evidence import ItemStatus
from servegate.domain.judgement import Unpaired
from servegate.text.degenerate import degeneration

Question = tuple[str, int]
"""Task and doc_id."""
RIGHT = 0.5
"""A score of at least this is "right"; exact match scores 0 or 1."""


@dataclass(frozen=True)
class Answer:
    """One answer: its rows by filter, and how it came."""

    rows: Mapping[str, Row]
    response: Response | None

    @cached_property
    def came(self) -> bool:
        """Whether there is a whole answer; an empty, failed or cut one is neither right nor wrong."""
        return self.response is not None and self.response.status is ItemStatus.OK

    @cached_property
    def cut(self) -> bool:
        """Whether the answer was cut at the limit of its length."""
        return self.response is not None and self.response.status is ItemStatus.TRUNCATED

    @cached_property
    def late(self) -> bool:
        """Whether the answer is there because the question was asked a second time."""
        return self.came and self.response is not None and self.response.asked > 1

    @cached_property
    def lost(self) -> bool:
        """Whether nothing came at all, or nothing but white space."""
        return not (self.came or self.cut)

    @cached_property
    def degenerate(self) -> bool:
        """Whether what came is broken whatever was asked: a loop or a soup of tokens."""
        return not self.lost and degeneration(self.text) is not None

    @property
    def text(self) -> str:
        """The answer as it came."""
        return self.response.text if self.response else ""

    def score(self, filter_name: str) -> float:
        """Return the score under a filter."""
        return self.rows[filter_name].score

    def right(self, filter_name: str) -> bool:
        """Return whether the answer is right under a filter."""
        return self.rows[filter_name].score >= RIGHT


@dataclass(frozen=True)
class Pair:
    """The same question, in the same words, answered twice."""

    task: str
    doc_id: int
    left: Answer
    right: Answer
    kinds: dict[str, str | None] = field(default_factory=dict, compare=False, repr=False)
    """What `kinds.kind_of` found under each filter, since it is asked several times of each."""

    @property
    def question(self) -> Question:
        """Task and doc_id."""
        return self.task, self.doc_id

    @property
    def id(self) -> str:
        """How findings and items name the question."""
        return f"{self.task}/{self.doc_id}"

    @cached_property
    def both_came(self) -> bool:
        """Whether both answers came whole."""
        return self.left.came and self.right.came


@dataclass(frozen=True)
class PairedRound:
    """One pass against another; `unpaired` counts answers (not filters)."""

    left_round: int
    right_round: int
    pairs: tuple[Pair, ...]
    unpaired: Unpaired


@dataclass(frozen=True)
class OneRound:
    """One pass over an arm. `contradictory`: questions with two rows under one filter that do not agree."""

    answers: Mapping[Question, Answer]
    contradictory: frozenset[Question]


Rounds = Mapping[int, OneRound]
"""An arm's passes by round."""


def rounds_of(measurement: AccuracyMeasurement) -> Rounds:
    """Return an arm's passes by round; a repeated row that agrees with the first is dropped."""
    rows: dict[int, dict[Question, dict[str, Row]]] = {}
    contradictory: dict[int, set[Question]] = {}
    for row in measurement.rows:
        question = row.task, row.doc_id
        known = rows.setdefault(row.round, {}).setdefault(question, {})
        first = known.setdefault(row.filter, row)
        if first is not row and first != row:
            contradictory.setdefault(row.round, set()).add(question)
    responses = {(response.round, response.task, response.doc_id): response for response in measurement.responses}
    return {
        number: OneRound(
            answers={
                question: Answer(rows=filters, response=responses.get((number, *question)))
                for question, filters in questions.items()
            },
            contradictory=frozenset(contradictory.get(number, ())),
        )
        for number, questions in rows.items()
    }


def pair_rounds(left: OneRound, right: OneRound, left_round: int, right_round: int) -> PairedRound:
    """Join two passes on task, doc_id and filter where all three hashes are equal."""
    pairs: list[Pair] = []
    left_only = right_only = differing = 0
    for question in sorted({*left.answers, *right.answers}):
        mine, theirs = left.answers.get(question), right.answers.get(question)
        if theirs is None or (mine is not None and mine.rows.keys() > theirs.rows.keys()):
            left_only += 1
        elif mine is None or theirs.rows.keys() > mine.rows.keys():
            right_only += 1
        elif question in left.contradictory or question in right.contradictory or not _same(mine, theirs):
            differing += 1
        else:
            pairs.append(Pair(task=question[0], doc_id=question[1], left=mine, right=theirs))
    unpaired = Unpaired(baseline_only=left_only, candidate_only=right_only, hash_differs=differing)
    return PairedRound(left_round=left_round, right_round=right_round, pairs=tuple(pairs), unpaired=unpaired)


def pair_arms(left: Rounds, right: Rounds) -> tuple[PairedRound, ...]:
    """Join each round of the baseline to the same round of the candidate; a round that one arm lacks is all unpaired."""
    nothing = OneRound(answers={}, contradictory=frozenset())
    return tuple(
        pair_rounds(left.get(number, nothing), right.get(number, nothing), number, number) for number in sorted({*left, *right})
    )


def pair_with_itself(rounds: Rounds) -> tuple[PairedRound, ...]:
    """Join each round of an arm to its next one: what changes although nothing changed."""
    numbers = sorted(rounds)
    following = {number: numbers[index + 1] for index, number in enumerate(numbers[:-1])}
    return tuple(pair_rounds(rounds[first], rounds[second], first, second) for first, second in following.items())


def judgeable(rounds: Iterable[PairedRound], judged: Mapping[str, str]) -> tuple[PairedRound, ...]:
    """Take out pairs of a task that is not recorded, or without a score under its judged filter: they are unpaired."""
    found = []
    for paired in rounds:
        kept = tuple(
            pair
            for pair in paired.pairs
            if (name := judged.get(pair.task)) is not None and name in pair.left.rows and name in pair.right.rows
        )
        lost = paired.unpaired.hash_differs + len(paired.pairs) - len(kept)
        found.append(replace(paired, pairs=kept, unpaired=paired.unpaired.model_copy(update={"hash_differs": lost})))
    return tuple(found)


def total_unpaired(rounds: Iterable[PairedRound]) -> Unpaired:
    """Add up what could not be joined."""
    counts = [paired.unpaired for paired in rounds]
    return Unpaired(
        baseline_only=sum(count.baseline_only for count in counts),
        candidate_only=sum(count.candidate_only for count in counts),
        hash_differs=sum(count.hash_differs for count in counts),
    )


def _same(left: Answer, right: Answer) -> bool:
    """Whether both answers were given to the same document, target and prompt, under the same filters."""
    return left.rows.keys() == right.rows.keys() and all(
        row.hashes == right.rows[name].hashes for name, row in left.rows.items()
    )
