"""How far two distributions over the next token are apart, from what an engine reports of them.

An engine reports the logprob of the token that stands in the text and those of the k likeliest tokens. That is enough for
bounds: the tokens known in both arms, S, and everything else as one rest cell, p_R = 1 - sum_S p and q_R = 1 - sum_S q.

- KL(p || q) >= sum_S p ln(p/q) + p_R ln(p_R/q_R) >= 0, by the log-sum inequality; no upper bound exists.
- total variation: (sum_S |p - q| + |p_R - q_R|) / 2 <= TV <= (sum_S |p - q| + p_R + q_R) / 2.

The unseen mass p_R says how much the bounds may miss. A sum without the rest cell can be negative or exceed the true KL,
and renormalised heads can exceed it too, so neither is offered.

KL over the whole vocabulary can be estimated without bias where the text was drawn from p itself at temperature 1:
with r = q(x)/p(x), the mean of k3 = r - 1 - ln r >= 0 has the expectation KL(p || q) (J. Schulman, "Approximating KL
Divergence", 2020, estimator k3), from the logprob of the drawn token alone. Its tail is heavy, so its largest terms are shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating[Any]]
Integers = npt.NDArray[np.integer[Any]]

ROUNDING = 1e-6
"""Rounding error of one float32 logprob's probability; a rest cell of k tokens is known no better than k times this."""
BLOCK = 4096
"""Positions worked on at once: BLOCK * k * k comparisons in memory."""


@dataclass(frozen=True)
class Bounds:
    """Per position [R]: `kl_low` in nats, total variation from `tv_low` to `tv_high`, `unseen` mass of the left arm."""

    kl_low: npt.NDArray[np.float64]
    tv_low: npt.NDArray[np.float64]
    tv_high: npt.NDArray[np.float64]
    unseen: npt.NDArray[np.float64]


def kl_tv_bounds(left_ids: Integers, left: Floats, right_ids: Integers, right: Floats) -> Bounds:
    """Return bounds per position, left being the baseline (direction: KL(baseline || candidate)).

    `left_ids`, `left`, ... are [R, k]: known token ids and their logprobs in nats; -1 marks an empty place. An id may stand
    in a row once. Rest cells are floored at k times the rounding error, never at a smaller number: a peaked float32
    distribution can sum to one and a tiny rest would then push the bound above the truth.
    """
    if left_ids.shape != left.shape or right_ids.shape != right.shape or len(left_ids) != len(right_ids):
        raise ValueError("ids and logprobs must have equal shapes, and both arms equally many positions")
    blocks = [slice(start, start + BLOCK) for start in range(0, len(left_ids), BLOCK)]
    parts = [_block(left_ids[at], left[at], right_ids[at], right[at]) for at in blocks]
    joined = [np.concatenate(column) if parts else np.zeros(0) for column in (zip(*parts, strict=True) if parts else [()] * 4)]
    return Bounds(*joined)


def _block(left_ids: Integers, left: Floats, right_ids: Integers, right: Floats) -> tuple[npt.NDArray[np.float64], ...]:
    same = (left_ids[:, :, None] == right_ids[:, None, :]) & (left_ids[:, :, None] >= 0)
    known = same.any(axis=2)
    place = same.argmax(axis=2)
    log_p = np.where(known, left, 0.0).astype(np.float64)
    log_q = np.where(known, np.take_along_axis(right, place, axis=1), 0.0).astype(np.float64)
    p, q = np.where(known, np.exp(log_p), 0.0), np.where(known, np.exp(log_q), 0.0)
    floor = np.maximum(known.sum(axis=1), 1) * ROUNDING
    rest_p, rest_q = np.maximum(1 - p.sum(axis=1), floor), np.maximum(1 - q.sum(axis=1), floor)
    kl = (p * (log_p - log_q)).sum(axis=1) + rest_p * np.log(rest_p / rest_q)
    distance = np.abs(p - q).sum(axis=1)
    low, high = (distance + np.abs(rest_p - rest_q)) / 2, (distance + rest_p + rest_q) / 2
    return np.maximum(kl, 0.0), low, np.minimum(high, 1.0), rest_p


def k3(left: Floats, right: Floats) -> npt.NDArray[np.float64]:
    """Return k3 per token [N], in nats, from the logprobs of tokens drawn from the left arm at temperature 1.

    `expm1` keeps it from going negative where both logprobs nearly agree.
    """
    d = np.asarray(right, dtype=np.float64) - np.asarray(left, dtype=np.float64)
    return np.maximum(np.expm1(d) - d, 0.0)


def top_share(values: Floats, share: float = 0.01) -> float:
    """Return what part of the sum the largest `share` of the values makes up (at least one value); 0 when all are 0."""
    if len(values) == 0:
        raise ValueError("needs at least one value")
    ordered = np.sort(np.asarray(values, dtype=np.float64))[::-1]
    total = float(ordered.sum())
    return float(ordered[: max(1, round(share * len(ordered)))].sum()) / total if total > 0 else 0.0
