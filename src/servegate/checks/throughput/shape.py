"""The shape of a speed comparison: per concurrency, two sets of windows and their ratio. Noise has the same shape."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from pydantic import model_validator

from servegate.checks.throughput.record import LoadPoint
from servegate.checks.throughput.settings import SERVING
from servegate.domain.records import Record
from servegate.stats.ratios import LogRatio, coefficient_of_variation, log_ratio, paired_log_ratio

HOST_BOUND = "host-bound"
"""The code of the remark that the host sets the pace of both arms (`pace`)."""
DOUBTS = ("clocks-explain", "pace-unknown", "not-in-flight")
"""Codes of remarks with which no claim stands (`doubting`)."""
INTERVAL_ALPHA = 0.025
"""Each end of the printed interval; together a 95 % interval."""


class Windows(Record):
    """The windows of one side: mean output tokens per second and its coefficient of variation (0.02: 2 %)."""

    windows: int
    output_tokens_per_second: float
    variation: float | None
    variation_reason: str | None = None


class SpeedPair(Record):
    """Right over left of one load, with its 95 % interval. `invalid`: why these windows prove nothing.

    `detectable` is the relative change (0.03: 3 %) that so many windows find four times out of five.
    """

    load: str = SERVING
    concurrency: int
    left: Windows | None
    right: Windows | None
    ratio: float | None
    low: float | None
    high: float | None
    reason: str | None = None
    """Why there is no ratio, or no interval around it."""
    invalid: tuple[str, ...] = ()
    unseen: tuple[str, ...] = ()
    """What nobody looked at."""
    remarks: tuple[str, ...] = ()
    """`code: sentence` of what explains a speed without voiding it: queues, preemptions, a power limit, odd prompts."""
    host_bound: bool | None = None
    """Whether the host sets the pace of both arms (`pace`), as it always does on a CPU; None in a record of an older
    servegate that does not tell."""
    detectable: float | None = None
    restart_sd: float | None = None
    """Standard deviation of one start's log speed that the interval holds; None in a record of an older servegate."""
    ceilings: tuple[float | None, float | None] = (None, None)
    """Roofline of both arms in output tokens per second under this load."""
    ceilings_reason: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _told_by_a_remark(cls, data: Any) -> Any:
        """Before the field was kept, a remark alone said that the host sets the pace."""
        if isinstance(data, dict) and data.get("host_bound") is None:
            said = any(str(remark).startswith(f"{HOST_BOUND}: ") for remark in data.get("remarks", ()))
            return {**data, "host_bound": said or None}
        return data

    @property
    def doubted(self) -> bool:
        """Whether something else than the change would explain the difference."""
        return any(remark.partition(": ")[0] in DOUBTS for remark in self.remarks)

    @property
    def claim(self) -> str:
        """`faster`, `slower`, or `n.s.` (no significant difference) with 95 % confidence; `-` without an interval.

        `unclear`: the interval says faster or slower, and something else would explain it.
        """
        if self.invalid:
            return "INVALID"
        if self.low is None or self.high is None:
            return "-"
        if self.doubted:
            return "unclear"
        return "faster" if self.low > 1 else "slower" if self.high < 1 else "n.s."


class NotJudged(Record):
    """Why speed is shown but not judged."""

    code: str
    message: str


class SpeedContrast(Record):
    """Every concurrency. `judged_at` and `not_judged` are set between arms only."""

    points: tuple[SpeedPair, ...]
    judged_at: int | None = None
    not_judged: NotJudged | None = None

    def at(self, concurrency: int, load: str = SERVING) -> SpeedPair | None:
        """Return the pair at a concurrency."""
        return next((each for each in self.points if (each.load, each.concurrency) == (load, concurrency)), None)

    @property
    def serving(self) -> tuple[SpeedPair, ...]:
        """The pairs of the load that is served: the curve over concurrency."""
        return tuple(point for point in self.points if point.load == SERVING)


def windows_of(points: Sequence[LoadPoint]) -> Windows | None:
    """Summarise windows; None for none."""
    if not points:
        return None
    speeds = [point.output_tokens_per_second for point in points]
    variation = coefficient_of_variation(speeds)
    return Windows(
        windows=len(speeds),
        output_tokens_per_second=fmean(speeds),
        variation=variation,
        variation_reason=None if variation is not None else "one window has no spread",
    )


def ratio_of(
    left: Sequence[LoadPoint], right: Sequence[LoadPoint], restart_sd: float, *, in_turn: bool = False
) -> LogRatio | None:
    """Return right over left; None when a side has no window or a window generated nothing.

    `in_turn`: blocks of both sides were measured beside each other and are paired by their number.
    """
    speeds = [[point.output_tokens_per_second for point in side] for side in (left, right)]
    if not all(speeds) or min(min(side) for side in speeds) <= 0:
        return None
    if in_turn:
        other = {point.block: point.output_tokens_per_second for point in right}
        pairs = [(point.output_tokens_per_second, other[point.block]) for point in left if point.block in other]
        return paired_log_ratio(pairs, restart_sd) if pairs else None
    return log_ratio(speeds[0], speeds[1], restart_sd)


def speed_pair(
    key: tuple[str, int],
    left: Sequence[LoadPoint],
    right: Sequence[LoadPoint],
    restart_sd: float,
    invalid: tuple[str, ...] = (),
    unseen: tuple[str, ...] = (),
    remarks: tuple[str, ...] = (),
    *,
    in_turn: bool = False,
) -> SpeedPair:
    """Compare two sides of one load; `key` is its kind and its concurrency."""
    ratio = ratio_of(left, right, restart_sd, in_turn=in_turn)
    bounds = ratio.bounds(INTERVAL_ALPHA) if ratio else None
    reason = None
    if ratio is None:
        reason = "a side has no window that generated tokens"
    elif bounds is None:
        reason = "a single window has no spread, so there is no interval"
    return SpeedPair(
        load=key[0],
        concurrency=key[1],
        left=windows_of(left),
        right=windows_of(right),
        ratio=ratio.ratio if ratio else None,
        low=bounds[0] if bounds else None,
        high=bounds[1] if bounds else None,
        reason=reason,
        invalid=invalid,
        unseen=unseen,
        remarks=remarks,
        detectable=ratio.smallest_detectable() if ratio else None,
        restart_sd=restart_sd,
    )
