"""Bounds from the top tokens hold against distributions whose truth is known; k3 is unbiased and never negative."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from servegate.stats.divergence import k3, kl_tv_bounds, top_share

K = 20


def logits(seed: int, rows: int = 200, vocabulary: int = 2000, noise: float = 0.3) -> tuple[npt.NDArray, npt.NDArray]:
    rng = np.random.default_rng(seed)
    base = rng.normal(0.0, 2.5, (rows, vocabulary))
    return tuple(log_softmax(array) for array in (base, base + rng.normal(0.0, noise, base.shape)))  # type: ignore[return-value]


def log_softmax(array: npt.NDArray) -> npt.NDArray:
    return array - np.log(np.exp(array).sum(axis=1, keepdims=True))


def top(array: npt.NDArray, k: int = K) -> tuple[npt.NDArray, npt.NDArray]:
    ids = np.argsort(-array, axis=1)[:, :k]
    return ids.astype(np.int32), np.take_along_axis(array, ids, axis=1).astype(np.float32)


def one_row(*pairs: tuple[int, float]) -> tuple[npt.NDArray, npt.NDArray]:
    ids, values = zip(*pairs, strict=True)
    return np.array([ids], dtype=np.int32), np.log(np.array([values], dtype=np.float64))


def test_a_worked_example() -> None:
    # p: a .5 b .3 c .2 (c unknown); q: a .4 b .3 d .1 (d unknown): S = {a, b}, p_R = .2, q_R = .3
    found = kl_tv_bounds(*one_row((1, 0.5), (2, 0.3)), *one_row((1, 0.4), (2, 0.3), (9, 0.1)))
    assert found.kl_low[0] == pytest.approx(0.5 * np.log(0.5 / 0.4) + 0.2 * np.log(0.2 / 0.3))
    assert found.tv_low[0] == pytest.approx((0.1 + 0.1) / 2)
    assert found.tv_high[0] == pytest.approx((0.1 + 0.2 + 0.3) / 2)
    assert found.unseen[0] == pytest.approx(0.2)


@pytest.mark.parametrize("noise", [0.05, 0.3, 1.0])
def test_the_truth_is_never_outside_the_bounds(noise: float) -> None:
    left, right = logits(3, noise=noise)
    p, q = np.exp(left), np.exp(right)
    kl, tv = (p * (left - right)).sum(axis=1), np.abs(p - q).sum(axis=1) / 2
    found = kl_tv_bounds(*top(left), *top(right))
    assert (found.kl_low <= kl + 1e-6).all()
    assert (found.kl_low >= 0).all()
    assert (found.tv_low <= tv + 1e-6).all()
    assert (found.tv_high >= tv - 1e-6).all()
    assert found.kl_low.mean() > 0.3 * kl.mean()  # about half of the mass is seen here


def test_peaked_distributions_do_not_pass_the_truth_by_rounding() -> None:
    """One token holds nearly everything: float32 logprobs sum to one, and an unfloored rest would invent a distance."""
    base = np.full((1, 1000), -17.0)
    base[0, 0] = 0.0
    left = log_softmax(base)
    right = log_softmax(base + np.random.default_rng(1).normal(0.0, 0.5, base.shape))
    truth = float((np.exp(left) * (left - right)).sum())
    found = kl_tv_bounds(*top(left, 1), *top(right, 1))
    assert found.kl_low[0] <= truth + 1e-6
    whole = one_row((1, 1.0))  # the engine's sum is exactly one: p_R and q_R are floored alike
    assert kl_tv_bounds(*whole, *whole).kl_low[0] == 0.0


def test_missing_places_and_disjoint_tops_are_unseen_mass() -> None:
    found = kl_tv_bounds(*one_row((1, 0.6), (-1, 1.0)), *one_row((2, 0.9), (-1, 1.0)))
    assert found.unseen[0] == 1.0
    assert found.kl_low[0] == 0.0
    assert (found.tv_low[0], found.tv_high[0]) == (0.0, 1.0)


def test_identical_arms_have_a_lower_bound_of_zero() -> None:
    left, _ = logits(4)
    found = kl_tv_bounds(*top(left), *top(left))
    assert found.kl_low.max() == 0.0
    assert found.tv_low.max() == 0.0


def test_shapes_must_agree_and_nothing_gives_nothing() -> None:
    with pytest.raises(ValueError, match="equal shapes"):
        kl_tv_bounds(*one_row((1, 0.5)), np.zeros((2, 1), dtype=np.int32), np.zeros((2, 1)))
    empty = np.zeros((0, 3), dtype=np.int32), np.zeros((0, 3))
    assert len(kl_tv_bounds(*empty, *empty).kl_low) == 0


def test_k3_is_unbiased_for_the_full_divergence() -> None:
    rng = np.random.default_rng(8)
    left, right = (array[0] for array in logits(6, rows=1, vocabulary=500))
    truth = float((np.exp(left) * (left - right)).sum())
    drawn = rng.choice(500, size=200_000, p=np.exp(left) / np.exp(left).sum())
    terms = k3(left[drawn], right[drawn])
    assert terms.mean() == pytest.approx(truth, abs=4 * terms.std() / np.sqrt(len(terms)))


def test_k3_stays_at_or_above_zero_next_to_zero() -> None:
    tiny = np.array([1e-8, -1e-8, 3e-9, 0.0])
    assert (np.exp(tiny) - 1 - tiny < 0).any()  # what the plain formula gives
    assert (k3(np.zeros(4), tiny) >= 0).all()
    assert k3(np.array([0.0]), np.array([np.log(2.0)]))[0] == pytest.approx(1 - np.log(2.0))


def test_the_tail_is_told() -> None:
    assert top_share(np.array([0.0] * 99 + [5.0])) == 1.0
    assert top_share(np.ones(100)) == pytest.approx(0.01)
    assert top_share(np.zeros(10)) == 0.0
