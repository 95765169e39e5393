"""Tables of the logprobs section."""

from __future__ import annotations

from servegate.checks.contract import Inputs
from servegate.checks.logprobs.comparing import Between
from servegate.checks.logprobs.contrast import Contrast, Interval
from servegate.checks.logprobs.record import LogprobsInputs, Rung
from servegate.domain.blocks import Block, Cell, Column, Table
from servegate.domain.judgement import Comparison

NAMES = (
    "maximum", "99.9", "99", "95", "90", "75", "50", "25", "10", "5", "1", "0.1", "minimum", "mean",
)  # fmt: skip
"""llama.cpp's order: the most gained at the top, the most lost at the bottom."""


def moved(between: Between, noise: tuple[tuple[str, Contrast], ...]) -> Table:
    """Return the percentiles of the change in probability, between the arms and of each arm against itself."""
    sides: list[Contrast] = [between, *(own for _, own in noise)]
    return Table(
        name="logprobs-delta-p",
        title="Change in the probability of the token that stands in the text (Δp)",
        columns=(
            Column(title="Percentile"),
            Column(title="Candidate - baseline", percent=True),
            *(Column(title=f"{name} against itself", percent=True) for name, _ in noise),
        ),
        rows=tuple((_percentile(name), *(side.delta_p.get(name) for side in sides)) for name in NAMES),
        note="Negative: the second pass gives the token less. Symmetric values are noise, a longer lower end is a loss.",
    )


def _percentile(name: str) -> str:
    return "median" if name == "50" else f"{name} %" if name[0].isdigit() else name


def buckets(between: Between) -> Table:
    """Return the numbers by position within the window: a fault of a long context shows in the later ones."""
    rows: list[tuple[Cell, ...]] = [
        (
            f"{one.first:,} to {one.last - 1:,}" if one.last is not None else f"from {one.first:,}",
            one.positions,
            one.ppl_ratio.value,
            one.ppl_ratio.low,
            one.ppl_ratio.high,
            one.same_top,
            *_ends(one.same_top_interval),
            one.rms_delta_p,
            *_ends(one.rms_delta_p_interval),
        )
        for one in between.buckets
    ]
    return Table(
        name="logprobs-positions",
        title="By position in the window",
        columns=(
            Column(title="Position"), Column(title="Tokens"), Column(title="Perplexity ratio", digits=4),
            Column(title="Low 95 %", digits=4), Column(title="High 95 %", digits=4), Column(title="Same top", percent=True),
            Column(title="Same top, low", percent=True), Column(title="Same top, high", percent=True),
            Column(title="RMS Δp", percent=True),
            Column(title="RMS Δp, low", percent=True), Column(title="RMS Δp, high", percent=True),
        ),
        rows=tuple(rows),
        note=_drift(between),
    )  # fmt: skip


def _ends(interval: Interval | None) -> tuple[Cell, Cell]:
    return (None, None) if interval is None else (interval.low, interval.high)


def _drift(between: Between) -> str:
    slope = between.slope
    if slope is None:
        return f"No slope over the position: {between.slope_reason or 'too few tokens'}."
    text = f"Slope: a token loses {slope.value:+.5f} nats more for each 1,000 positions"
    if slope.low is None or slope.high is None:
        return f"{text} (no interval: {slope.reason})."
    return f"{text} (90 % interval {slope.low:+.5f} to {slope.high:+.5f}, clustered by {between.cluster_unit})."


def ladder(between: Between, inputs: Inputs | None) -> list[Block]:
    """Return the reference ladder with this candidate as its first row; nothing when the run holds none."""
    if not isinstance(inputs, LogprobsInputs) or not inputs.ladder:
        return []
    mine: tuple[Cell, ...] = (
        "this candidate",
        between.ppl_ratio.value if between.ppl_ratio else None,
        between.same_top.value if between.same_top else None,
        between.rms_delta_p.value if between.rms_delta_p else None,
        between.own.kl.value if between.own else None,
    )
    return [
        Table(
            name="logprobs-ladder",
            title="To read the numbers against: LLaMA 3 8B on Wikitext",
            columns=(
                Column(title="Quantization"), Column(title="Perplexity ratio", digits=4),
                Column(title="Same top", percent=True),
                Column(title="RMS Δp", percent=True), Column(title="KL", unit="nats", digits=5),
            ),
            rows=(mine, *(_rung(one) for one in inputs.ladder)),
            note="From llama.cpp's tools/perplexity/README.md. Another model, text and window: indicative only. KL there is "
            "over the whole vocabulary; the candidate's is the estimate on own traffic, when that was measured.",
        )
    ]  # fmt: skip


def _rung(one: Rung) -> tuple[Cell, ...]:
    numbers = (one.ppl_ratio, one.same_top, one.rms_delta_p, one.kl_nats)
    return (one.step, *("not stated" if number is None else number for number in numbers))


def worst(comparison: Comparison) -> Table:
    """Return the windows, the one that lost most first."""
    return Table(
        name="logprobs-windows",
        title="Windows, most lost first",
        columns=(
            Column(title="Window", code=True), Column(title="Tokens"), Column(title="Perplexity ratio", digits=4),
            Column(title="RMS Δp", percent=True),
        ),
        rows=tuple((item["id"], item["positions"], item["ppl_ratio"], item["rms_delta_p"]) for item in comparison.items),
        shown_rows=10,
    )  # fmt: skip
