"""The shape of a comparison: how far the probabilities of one pass are from those of another. Noise has the same shape."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from servegate.checks.logprobs.pairing import Paired
from servegate.domain.evidence import Columns
from servegate.domain.records import Record
from servegate.stats.clusters import Clustered, clustered_mean, clustered_slope
from servegate.stats.divergence import k3, kl_tv_bounds, top_share

ALPHA = 0.05
"""Each end of a printed interval is a one-sided bound at 95 %."""
PERCENTILES = (0.1, 1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9)
"""The set that llama.cpp's perplexity tool prints, so that readers can compare; minimum and maximum stand beside it."""
BUCKETS = (512, 2048, 8192, 32768)
"""Upper ends of the position buckets; the last bucket is open."""
SLOPE_POSITIONS = 1000
ONE_CLUSTER = "an interval needs at least two windows"


class Interval(Record):
    """A mean over positions with one-sided 95 % bounds at either end, clustered."""

    value: float
    low: float | None
    high: float | None
    reason: str | None = None
    """Why there are no bounds."""


class Bucket(Record):
    """Positions from `first` to `last` (None: open) within their window."""

    first: int
    last: int | None
    positions: int
    ppl_ratio: Interval
    same_top: float | None
    rms_delta_p: float
    same_top_interval: Interval | None = None
    rms_delta_p_interval: Interval | None = None


class TopBounds(Record):
    """Bounds from the top tokens: KL at least, total variation at least and at most; `unseen` mass is what they may miss."""

    kl_at_least: Interval
    tv_at_least: Interval
    tv_at_most: Interval
    unseen: float


class OwnTraffic(Record):
    """KL on the baseline's own samples (estimator k3), in nats per token. `largest_ratio`: largest q/p of one token."""

    samples: int
    tokens: int
    kl: Interval
    largest_ratio: float
    top_1_percent: float
    """Share of the sum that the largest 1 % of the terms make up: near 1, the estimate hangs on a few tokens."""


class Contrast(Record):
    """One pass against another. Numbers are None with a reason where there is nothing to compute them from."""

    positions: int
    """Compared positions, each round counted."""
    distinct_positions: int
    windows: int
    passes: int
    clusters: int
    cluster_unit: str
    lost: int
    lost_right_only: int
    unscored: int
    ppl_ratio: Interval | None = None
    same_top: Interval | None = None
    same_top_reason: str | None = None
    rms_delta_p: Interval | None = None
    delta_p: dict[str, float] = {}
    """`minimum`, `0.1`, ..., `99.9`, `maximum`, `mean` of p_right - p_left of the token that stands in the text."""
    equal: int = 0
    """Positions whose logprobs are equal to the last bit."""
    buckets: tuple[Bucket, ...] = ()
    slope: Interval | None = None
    """Nats that a token loses more for each 1,000 positions further into its window (0: no drift)."""
    slope_reason: str | None = None
    bounds: TopBounds | None = None
    bounds_reason: str | None = None
    own: OwnTraffic | None = None
    own_reason: str | None = "the check was not asked to measure own traffic"


def contrast(paired: Paired, left: Columns, right: Columns) -> Contrast:
    """Return everything that the compared positions say, in nats and in probabilities from 0 to 1."""
    clusters, unit = paired.clusters
    place = {"positions": len(paired.left), "windows": len(np.unique(paired.text)), "passes": paired.passes,
             "distinct_positions": len(np.unique(paired.text * (1 << 32) + paired.position)),
             "clusters": len(np.unique(clusters)), "cluster_unit": unit, "lost": paired.lost,
             "lost_right_only": paired.lost_right_only, "unscored": paired.unscored}  # fmt: skip
    if not len(paired.left):
        return Contrast(**place, same_top_reason="no position was compared", bounds_reason="no position was compared")
    log_p, log_q = _logprobs(paired, left, right)
    loss, moved = log_p - log_q, np.exp(log_q) - np.exp(log_p)
    same, same_reason = _same_top(paired, left, right)
    bounds, bounds_reason = _bounds(paired, left, right, clusters)
    return Contrast(
        **place,
        ppl_ratio=_ratio(loss, clusters),
        same_top=_interval(clustered_mean(same, clusters)) if same is not None else None,
        same_top_reason=same_reason,
        rms_delta_p=_rms(moved, clusters),
        delta_p=_spread(moved),
        equal=int((log_p == log_q).sum()),
        slope=_slope(loss, paired.position, clusters),
        slope_reason=None if len(np.unique(paired.position)) > 1 else "all compared tokens stand at one position",
        buckets=_buckets(paired.position, loss, moved, same, clusters),
        bounds=bounds,
        bounds_reason=bounds_reason,
    )


def own_traffic(paired: Paired, left: Columns, right: Columns) -> OwnTraffic | None:
    """Return KL of the samples' distribution against the other, or None when no token was scored on both sides."""
    if not len(paired.left):
        return None
    log_p, log_q = _logprobs(paired, left, right)
    terms = k3(log_p, log_q)
    return OwnTraffic(
        samples=len(np.unique(paired.text)),
        tokens=len(np.unique(paired.text * (1 << 32) + paired.position)),
        kl=_interval(clustered_mean(terms, paired.text)),
        largest_ratio=float(np.exp((log_q - log_p).max())),
        top_1_percent=top_share(terms),
    )


def per_window(paired: Paired, left: Columns, right: Columns) -> tuple[tuple[str, int, float, float], ...]:
    """Return (key, positions, perplexity ratio, RMS of the change in probability) of each text."""
    log_p, log_q = _logprobs(paired, left, right)
    count = np.bincount(paired.text, minlength=len(paired.keys))
    with np.errstate(invalid="ignore"):
        loss = np.bincount(paired.text, weights=log_p - log_q, minlength=len(paired.keys)) / count
        square = np.bincount(paired.text, weights=np.square(np.exp(log_q) - np.exp(log_p)), minlength=len(paired.keys)) / count
    return tuple(
        (key, int(count[number]), math.exp(loss[number]), math.sqrt(square[number]))
        for number, key in enumerate(paired.keys)
        if count[number]
    )


def _logprobs(paired: Paired, left: Columns, right: Columns) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    return left["logprob"][paired.left].astype(np.float64), right["logprob"][paired.right].astype(np.float64)


def _interval(mean: Clustered) -> Interval:
    bounds = mean.bounds(ALPHA)
    if bounds is None:
        return Interval(value=mean.value, low=None, high=None, reason=ONE_CLUSTER)
    return Interval(value=mean.value, low=bounds[0], high=bounds[1])


def _ratio(loss: npt.NDArray[np.float64], clusters: npt.NDArray[np.int64]) -> Interval:
    mean = _interval(clustered_mean(loss, clusters))
    low, high = (math.exp(end) if end is not None else None for end in (mean.low, mean.high))
    return Interval(value=math.exp(mean.value), low=low, high=high, reason=mean.reason)


def _rms(moved: npt.NDArray[np.float64], clusters: npt.NDArray[np.int64]) -> Interval:
    """Root mean square with the delta method: SE(RMS) = SE(mean square) / (2 RMS)."""
    mean = clustered_mean(np.square(moved), clusters)
    rms = math.sqrt(mean.value)
    if mean.se is None:
        return Interval(value=rms, low=None, high=None, reason=ONE_CLUSTER)
    if rms == 0:
        return Interval(value=0.0, low=0.0, high=0.0)
    bounds = Clustered(rms, mean.se / (2 * rms), mean.n, mean.clusters).bounds(ALPHA)
    assert bounds is not None
    return Interval(value=rms, low=max(bounds[0], 0.0), high=bounds[1])


def _slope(loss: npt.NDArray[np.float64], position: npt.NDArray[np.int64], clusters: npt.NDArray[np.int64]) -> Interval | None:
    slope = clustered_slope(loss, position / SLOPE_POSITIONS, clusters)
    if slope is None:
        return None
    bounds = slope.bounds(ALPHA)
    low, high = bounds if bounds is not None else (None, None)
    return Interval(value=slope.value, low=low, high=high, reason=None if bounds is not None else ONE_CLUSTER)


def _same_top(paired: Paired, left: Columns, right: Columns) -> tuple[npt.NDArray[np.float64] | None, str | None]:
    tops = (left["top_id"], right["top_id"])
    if any(top.shape[1] == 0 for top in tops):
        return None, "no top token was asked for (top_k: 0)"
    a, b = tops[0][paired.left, 0], tops[1][paired.right, 0]
    if ((a < 0) | (b < 0)).any():
        return None, f"{int(((a < 0) | (b < 0)).sum())} positions came without a token of rank 1"
    return (a == b).astype(np.float64), None


def _spread(moved: npt.NDArray[np.float64]) -> dict[str, float]:
    values = np.percentile(moved, PERCENTILES)
    named = {f"{share:g}": float(value) for share, value in zip(PERCENTILES, values, strict=True)}
    return {"minimum": float(moved.min()), **named, "maximum": float(moved.max()), "mean": float(moved.mean())}


def _buckets(
    position: npt.NDArray[np.int64],
    loss: npt.NDArray[np.float64],
    moved: npt.NDArray[np.float64],
    same: npt.NDArray[np.float64] | None,
    clusters: npt.NDArray[np.int64],
) -> tuple[Bucket, ...]:
    found, first = [], 0
    for last in (*BUCKETS, None):
        inside = (position >= first) & (position < last) if last is not None else position >= first
        if inside.any():
            found.append(
                Bucket(
                    first=first,
                    last=last,
                    positions=int(inside.sum()),
                    ppl_ratio=_ratio(loss[inside], clusters[inside]),
                    same_top=float(same[inside].mean()) if same is not None else None,
                    rms_delta_p=float(np.sqrt(np.square(moved[inside]).mean())),
                    same_top_interval=_interval(clustered_mean(same[inside], clusters[inside])) if same is not None else None,
                    rms_delta_p_interval=_rms(moved[inside], clusters[inside]),
                )
            )
        first = last or first
    return tuple(found)


def _bounds(
    paired: Paired, left: Columns, right: Columns, clusters: npt.NDArray[np.int64]
) -> tuple[TopBounds | None, str | None]:
    if min(left["top_id"].shape[1], right["top_id"].shape[1]) < 2:
        return None, "bounds of KL and total variation need top_k of at least 2 (20 is the most)"
    known = [_known(columns, rows) for columns, rows in ((left, paired.left), (right, paired.right))]
    found = kl_tv_bounds(*known[0], *known[1])
    intervals = [_interval(clustered_mean(values, clusters)) for values in (found.kl_low, found.tv_low, found.tv_high)]
    return TopBounds(
        kl_at_least=intervals[0], tv_at_least=intervals[1], tv_at_most=intervals[2], unseen=float(found.unseen.mean())
    ), None


def _known(columns: Mapping[str, npt.NDArray[np.generic]], rows: npt.NDArray[np.int64]) -> tuple[
    npt.NDArray[np.int32], npt.NDArray[np.float32]
]:  # fmt: skip
    """Return the ids and logprobs known at each position: the top tokens, and the text's own where it is not among them."""
    ids, logprobs = columns["top_id"][rows].astype(np.int32), columns["top_logprob"][rows].astype(np.float32)
    own, own_logprob = columns["token_id"][rows].astype(np.int32), columns["logprob"][rows].astype(np.float32)
    own = np.where((ids == own[:, None]).any(axis=1), -1, own)
    ids, logprobs = np.column_stack([ids, own]), np.column_stack([logprobs, own_logprob])
    unusable = ~np.isfinite(logprobs)
    return np.where(unusable, -1, ids).astype(np.int32), np.where(unusable, 0.0, logprobs).astype(np.float32)
