"""How the logprobs check speaks: one sentence, the ratio beside each arm's own noise, then what else moved."""

from __future__ import annotations

from collections.abc import Iterable

from servegate.checks.contract import Evidence, remarks
from servegate.checks.logprobs.comparing import Between
from servegate.checks.logprobs.contrast import Contrast, Interval
from servegate.checks.logprobs.judging import LEAST_OWN_SAMPLES, LEAST_OWN_TOKENS
from servegate.checks.logprobs.record import LogprobsMeasurement, ScoringPass
from servegate.checks.logprobs.settings import LogprobsSettings
from servegate.checks.logprobs.tables import buckets, ladder, moved, worst
from servegate.domain.blocks import Block, Fact, Facts, Figure, Fold, Point, Section, Series, Text
from servegate.domain.judgement import Comparison, Finding, Outcome, outcome_of
from servegate.domain.judgement import worst as worst_outcome

Side = tuple[str, Contrast]


def present(
    comparison: Comparison,
    evidence: Evidence[LogprobsMeasurement],
    settings: LogprobsSettings,
    findings: tuple[Finding, ...],
) -> Section:
    """Return the section; values keep full precision, the report rounds them."""
    between = Between.model_validate(comparison.candidate)
    noise = _noise_sides(comparison)
    blocks: list[Block] = [*remarks(findings)]
    if between.ppl_ratio is not None:
        blocks += [_facts(between, noise, settings), _figure(between, noise, settings)]
        blocks += [moved(between, noise), buckets(between), *ladder(between, evidence.inputs), worst(comparison)]
    blocks.append(_how(between, settings, _passes(evidence)))
    outcome = outcome_of(findings)
    return Section(
        check="logprobs",
        title="Logprobs",
        outcome=outcome if between.positions else worst_outcome((Outcome.REVIEW, outcome)),
        question="Does the candidate give the same text the same probabilities?",
        summary=_summary(between, settings),
        noise=_noise(comparison, noise),
        n=f"{between.distinct_positions:,} tokens in {between.windows:,} windows",
        blocks=tuple(blocks),
    )


def _noise_sides(comparison: Comparison) -> tuple[Side, ...]:
    if comparison.noise is None:
        return ()
    sides = (("Baseline", comparison.noise.baseline), ("Candidate", comparison.noise.candidate))
    return tuple((name, Contrast.model_validate(side)) for name, side in sides if side is not None)


def _summary(between: Between, settings: LogprobsSettings) -> str:
    ratio = between.ppl_ratio
    if ratio is None:
        return "No token was scored by both arms, so probabilities were not compared."
    most = f"at most {ratio.high:.4f}" if ratio.high is not None else "without an interval"
    text = f"Perplexity ratio {ratio.value:.4f}, {most} (PASS < {settings.limits.ppl_ratio_pass:g})"
    if between.same_top is not None:
        text += f"; same top token {between.same_top.value:.2%}"
    if between.rms_delta_p is not None:
        text += f"; RMS Δp {between.rms_delta_p.value:.2%}"
    return text + "."


def _noise(comparison: Comparison, noise: tuple[Side, ...]) -> str:
    if not noise:
        return f"Unknown: {comparison.noise_reason}."
    said = []
    for name, own in noise:
        if own.ppl_ratio is None:
            said.append(f"{name.lower()} against itself: nothing to compare")
            continue
        same = f", same top {own.same_top.value:.2%}" if own.same_top else ""
        rms = f", RMS Δp {own.rms_delta_p.value:.2%}" if own.rms_delta_p else ""
        said.append(f"{name.lower()} against itself: ratio {own.ppl_ratio.value:.4f}{same}{rms}")
    text = "; ".join(said) + "."
    return text[:1].upper() + text[1:]


def _facts(between: Between, noise: tuple[Side, ...], settings: LogprobsSettings) -> Facts:
    limits = settings.limits
    unit = f"clustered by {between.cluster_unit}, {between.clusters} of them"
    rms_noise = [own.rms_delta_p.value for _, own in noise if own.rms_delta_p is not None and own.rms_delta_p.value > 0]
    lines = [
        Fact(
            name="Perplexity ratio",
            value=_shown(between.ppl_ratio, 4),
            note=f"candidate over baseline, 90 % interval {unit}; PASS when its upper end is below {limits.ppl_ratio_pass:g}, "
            f"FAIL when its lower end is above {limits.ppl_ratio_fail:g}",
        ),
        Fact(name="Same top token", value=_shown(between.same_top, 2, percent=True),
             note=between.same_top_reason or "share of positions at which both arms rank the same token first"),
        Fact(name="RMS Δp", value=_shown(between.rms_delta_p, 2, percent=True),
             note="root mean square of the change in the probability of the token that stands in the text"),
    ]  # fmt: skip
    if rms_noise and between.rms_delta_p is not None:
        lines.append(Fact(name="RMS Δp over the larger own noise", value=between.rms_delta_p.value / max(rms_noise)))
    if between.bounds is not None:
        bounds = between.bounds
        lines += [
            Fact(name="KL, top-k lower bound", value=_shown(bounds.kl_at_least, 5),
                 note="nats per token, from the top tokens and one rest cell: the truth is not less"),
            Fact(name="Total variation, top-k bounds",
                 value=f"{bounds.tv_at_least.value:.2%} to {bounds.tv_at_most.value:.2%}",
                 note="least possible chance that the arms draw different tokens at temperature 1"),
            Fact(name="Unseen mass", value=f"{bounds.unseen:.2%}", note="probability outside the tokens known in both arms"),
        ]  # fmt: skip
    else:
        lines.append(Fact(name="KL, top-k lower bound", value=None, note=between.bounds_reason or ""))
    lines += _own_facts(between, noise)
    return Facts(facts=tuple(lines))


def _own_facts(between: Between, noise: tuple[Side, ...]) -> list[Fact]:
    own = between.own
    if own is None:
        return []
    enough = own.tokens >= LEAST_OWN_TOKENS and own.samples >= LEAST_OWN_SAMPLES
    floors = [f"{name.lower()} {side.own.kl.value:.2g}" for name, side in noise if side.own is not None]
    return [
        Fact(
            name="KL on own traffic (estimate k3)" + ("" if enough else ", too few tokens to rely on"),
            value=_shown(own.kl, 5),
            note=f"nats per token over the whole vocabulary, {own.tokens:,} tokens in {own.samples} baseline samples"
            + (f"; scored twice: {', '.join(floors)}" if floors else ""),
        ),
        Fact(
            name="Tail of that estimate",
            value=f"1 % of tokens make up {own.top_1_percent:.0%}",
            note=f"largest ratio of one token {own.largest_ratio:.3g}",
        ),
    ]


def _shown(interval: Interval | None, digits: int, *, percent: bool = False) -> str | None:
    if interval is None:
        return None
    style = f".{digits}{'%' if percent else 'f'}"
    if interval.low is None or interval.high is None:
        return f"{interval.value:{style}} (no interval: {interval.reason})"
    return f"{interval.value:{style}} ({interval.low:{style}} to {interval.high:{style}})"


def _figure(between: Between, noise: tuple[Side, ...], settings: LogprobsSettings) -> Figure:
    rows = [("candidate / baseline", between.ppl_ratio)]
    own = [(f"{name.lower()} against itself", side.ppl_ratio) for name, side in noise]
    ratio = between.ppl_ratio
    assert ratio is not None
    return Figure(
        name="logprobs-ratio",
        title="Perplexity ratio with its 90 % interval",
        style="intervals",
        x_label="",
        y_label="perplexity ratio (above 1 is a loss)",
        series=tuple(
            Series(name=name, role=role, points=_points(points))
            for name, role, points in (("between arms", "difference", rows), ("noise", "noise", own))
            if _points(points)
        ),
        description=f"The perplexity ratio is {_shown(ratio, 4)}; PASS needs its upper end below "
        f"{settings.limits.ppl_ratio_pass:g}.",
        reference=settings.limits.ppl_ratio_pass,
    )


def _passes(evidence: Evidence[LogprobsMeasurement]) -> tuple[tuple[str, ScoringPass], ...]:
    sides = (("Baseline", evidence.baseline.measurement), ("Candidate", evidence.candidate.measurement))
    return tuple(
        (name, one) for name, side in sides if isinstance(side, LogprobsMeasurement) for one in side.passes if one.wall_s > 0
    )


def _cost(named: tuple[str, ScoringPass]) -> Fact:
    name, one = named
    return Fact(
        name=f"{name}, round {one.round + 1}",
        value=f"{one.wall_s:.1f} s, {one.positions / one.wall_s:,.0f} positions/s",
        note=f"servegate's own processor time {one.client_cpu_s:.2f} s, {one.client_cpu_s / one.wall_s:.1%} of it",
    )


def _points(rows: Iterable[tuple[str, Interval | None]]) -> tuple[Point, ...]:
    return tuple(Point(x=name, y=one.value, low=one.low, high=one.high) for name, one in rows if one is not None)


def _how(between: Between, settings: LogprobsSettings, passes: tuple[tuple[str, ScoringPass], ...]) -> Fold:
    limits = settings.limits
    text = (
        "Both arms score the same token ids; nothing is generated. The perplexity ratio is exp(mean of ln p_baseline - ln "
        "p_candidate) over all compared tokens. Tokens of one window move together, so the window (or the document, from 30 "
        "documents on) is the unit of the interval. A logprob of minus infinity, NaN or null is counted and never averaged. "
        f"PASS needs the ratio below {limits.ppl_ratio_pass:g} with 95 % confidence on at least {limits.smallest_tokens:,} "
        f"tokens and {limits.smallest_clusters} windows; FAIL needs it above {limits.ppl_ratio_fail:g} with 95 % confidence. "
        "All else informs. An exact divergence over the vocabulary is not available from an engine's interface: what is "
        "shown is a bound from the top tokens, or an estimate from drawn answers, and says so."
    )
    costs = (Facts(facts=tuple(map(_cost, passes))),) if passes else ()
    size = between.arms.parameters
    known = (
        f"{size / 1e6:,.0f} M, counted from config.json" if size is not None else f"unknown ({between.arms.parameters_reason})"
    )
    facts = Facts(facts=(Fact(name="Model parameters", value=known), Fact(name="logprobs-mode", value=between.arms.modes[0])))
    return Fold(title="How logprobs are judged", blocks=(Text(text=text), facts, *costs))
