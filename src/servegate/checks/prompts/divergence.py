"""Where two answers part, and how sure the baseline was there.

Two greedy answers are equal up to one token, and everything after it is a consequence. At that token the baseline's own
logprobs say whether it could have gone either way: with a gap of at most 0.25 nat between its choice and the other arm's
the choice was a coin-flip (any reordering of a sum can turn it), up to 1 nat it leaned, above that (or when the other
token is not among its likeliest) the other arm has changed its mind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from servegate.checks.prompts.records import Answer
from servegate.domain.evidence import Columns
from servegate.domain.records import Json

COIN_FLIP_NATS = 0.25
LEAN_NATS = 1.0
ROUNDING_NATS = 1e-4
"""Logprobs are float32 and BF16 logits move in steps of 0.125, so gaps of exactly 0.25 and 1 are common."""


class Certainty(StrEnum):
    """How sure the baseline was of its own choice at the first token that differs."""

    COIN_FLIP = "coin_flip"
    LEAN = "lean"
    HARD = "hard"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Divergence:
    """The first differing token (from 0): both choices, the baseline's gap between them in nats, and its class.

    A choice of None is the end of that arm's tokens; a gap of None has a reason.
    """

    token: int
    baseline_id: int | None
    candidate_id: int | None
    gap_nats: float | None
    gap_reason: str | None
    certainty: Certainty

    def to_json(self) -> dict[str, Json]:
        """Return plain JSON values."""
        return {
            "token": self.token,
            "baseline_id": self.baseline_id,
            "candidate_id": self.candidate_id,
            "gap_nats": self.gap_nats,
            "gap_reason": self.gap_reason,
            "certainty": self.certainty.value,
        }


def first_divergence(left: Answer, right: Answer, left_columns: Columns, right_columns: Columns) -> Divergence | None:
    """Return where two answers part, left being the baseline; None when their tokens are equal or were not recorded."""
    if not left.rows or not right.rows or "token_id" not in left_columns or "token_id" not in right_columns:
        return None
    mine, theirs = _tokens(left, left_columns), _tokens(right, right_columns)
    shared = min(len(mine), len(theirs))
    differing = np.flatnonzero(mine[:shared] != theirs[:shared])
    token = int(differing[0]) if len(differing) else shared
    if token == len(mine) == len(theirs):
        return None
    mine_id = int(mine[token]) if token < len(mine) else None
    their_id = int(theirs[token]) if token < len(theirs) else None
    if mine_id is None or their_id is None:
        return Divergence(token, mine_id, their_id, None, "one answer ends where the other goes on", Certainty.UNKNOWN)
    return _with_gap(token, mine_id, their_id, left.first_row + token, left_columns)


def _tokens(answer: Answer, columns: Columns) -> np.ndarray:
    tokens: np.ndarray = columns["token_id"][answer.first_row : answer.first_row + answer.rows]
    return tokens


def _with_gap(token: int, mine_id: int, their_id: int, row: int, columns: Columns) -> Divergence:
    if not {"logprob", "top_id", "top_logprob"} <= columns.keys() or not columns["top_id"].shape[1]:
        return Divergence(token, mine_id, their_id, None, "no logprobs were recorded", Certainty.UNKNOWN)
    top = dict(zip(columns["top_id"][row].tolist(), columns["top_logprob"][row].tolist(), strict=True))
    chosen = float(columns["logprob"][row])
    if not math.isfinite(chosen) or not any(math.isfinite(value) for value in top.values()):
        return Divergence(token, mine_id, their_id, None, "the logprob is missing there", Certainty.UNKNOWN)
    other = top.get(their_id, math.nan)
    if not math.isfinite(other):
        return Divergence(token, mine_id, their_id, None, f"not among the baseline's {len(top)} likeliest", Certainty.HARD)
    gap = chosen - other
    return Divergence(token, mine_id, their_id, gap, None, certainty_of(gap))


def certainty_of(gap_nats: float) -> Certainty:
    """Return the class of a gap; negative ones (the other token was likelier when scored) are coin-flips."""
    if gap_nats <= COIN_FLIP_NATS + ROUNDING_NATS:
        return Certainty.COIN_FLIP
    return Certainty.LEAN if gap_nats <= LEAN_NATS + ROUNDING_NATS else Certainty.HARD
