"""Pairing answers: by prompt id and round, and only when both arms were asked exactly the same.

Whatever cannot be paired is counted, never dropped: a prompt that one arm did not answer is missing evidence, not an
equal answer.
"""

from __future__ import annotations

from dataclasses import dataclass

from servegate.checks.prompts.classes import Judged, Reading, classify, context_of, read
from servegate.checks.prompts.divergence import Divergence, first_divergence
from servegate.checks.prompts.records import Answer, Prompt, PromptsMeasurement
from servegate.domain.judgement import Unpaired
from servegate.text.facts import Context

Key = tuple[str, int]


@dataclass(frozen=True)
class Pair:
    """Two answers to one prompt, their class, and where they part. `round` is the right side's round."""

    prompt: Prompt
    round: int
    left: Reading
    right: Reading
    judged: Judged
    divergence: Divergence | None


@dataclass(frozen=True)
class Side:
    """One arm: its answers by key, each read once, when it is first needed."""

    measurement: PromptsMeasurement
    answers: dict[Key, Answer]
    readings: dict[Key, Reading]
    contexts: dict[str, Context]

    @classmethod
    def of(cls, measurement: PromptsMeasurement) -> Side:
        """Index a measurement."""
        return cls(measurement, {(answer.prompt_id, answer.round): answer for answer in measurement.answers}, {}, {})

    @property
    def rounds(self) -> tuple[int, ...]:
        """Rounds in which anything was recorded, in order."""
        return tuple(sorted({answer.round for answer in self.measurement.answers}))

    @property
    def full_rounds(self) -> tuple[int, ...]:
        """Rounds that asked every prompt, in order."""
        return tuple(one.round for one in sorted(self.measurement.rounds, key=lambda one: one.round) if one.asked == "all")

    def reading(self, key: Key, prompt: Prompt) -> Reading:
        """Return the reading of an answer that exists."""
        if key not in self.readings:
            if prompt.id not in self.contexts:
                self.contexts[prompt.id] = context_of(prompt)
            self.readings[key] = read(self.answers[key], prompt, self.contexts[prompt.id])
        return self.readings[key]


@dataclass(frozen=True)
class Paired:
    """Every pair of two arms by key, what could not be paired, and (prompt, round) that neither arm has."""

    pairs: dict[Key, Pair]
    unpaired: Unpaired
    unpaired_ids: tuple[Key, ...]
    missing: tuple[Key, ...]


def pair_arms(baseline: Side, candidate: Side, prompts: dict[str, Prompt]) -> Paired:
    """Pair both arms on (prompt id, round) and equal hashes."""
    rounds = sorted({*baseline.rounds, *candidate.rounds})
    expected = {
        (prompt.id, number)
        for number in rounds
        for prompt in prompts.values()
        if prompt.expect or number in baseline.full_rounds or number in candidate.full_rounds
    }
    pairs: dict[Key, Pair] = {}
    counts = {"baseline_only": 0, "candidate_only": 0, "hash_differs": 0}
    unpaired: list[Key] = []
    missing: list[Key] = []
    for key in sorted({*baseline.answers, *candidate.answers, *expected}):
        left, right = baseline.answers.get(key), candidate.answers.get(key)
        if left is None and right is None:
            missing.append(key)
            continue
        if left is None or right is None:
            counts["candidate_only" if left is None else "baseline_only"] += 1
            unpaired.append(key)
        elif key[0] not in prompts or not _asked_the_same(left, right, prompts[key[0]]):
            counts["hash_differs"] += 1
            unpaired.append(key)
        else:
            pairs[key] = _pair(baseline, key, candidate, key, prompts[key[0]], directed=True)
    return Paired(pairs, Unpaired(**counts), tuple(unpaired), tuple(missing))


def pair_rounds(side: Side, first: int, second: int, prompts: dict[str, Prompt]) -> dict[str, Pair]:
    """Pair two rounds of one arm by prompt id: its noise. Prompts without both rounds are left out."""
    pairs: dict[str, Pair] = {}
    for prompt_id, prompt in prompts.items():
        left, right = side.answers.get((prompt_id, first)), side.answers.get((prompt_id, second))
        if left is not None and right is not None and _asked_the_same(left, right, prompt):
            pairs[prompt_id] = _pair(side, (prompt_id, first), side, (prompt_id, second), prompt, directed=False)
    return pairs


def _pair(left: Side, left_key: Key, right: Side, right_key: Key, prompt: Prompt, *, directed: bool) -> Pair:
    mine, theirs = left.reading(left_key, prompt), right.reading(right_key, prompt)
    parting = None
    if mine.answered and theirs.answered:
        parting = first_divergence(mine.answer, theirs.answer, left.measurement.columns, right.measurement.columns)
    return Pair(prompt, right_key[1], mine, theirs, classify(mine, theirs, prompt, directed=directed), parting)


def _asked_the_same(left: Answer, right: Answer, prompt: Prompt) -> bool:
    """The prompt of the recorded inputs was meant, too: its contract is about to be applied."""
    return _request_hashes(left) == _request_hashes(right) and left.prompt_sha256 == prompt.prompt_sha256


def _request_hashes(answer: Answer) -> tuple[str, str, str]:
    return answer.prompt_sha256, answer.token_ids_sha256, answer.sampling_sha256
