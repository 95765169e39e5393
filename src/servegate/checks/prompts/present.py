"""Showing: one sentence, the classes beside the noise, the answers in the order in which to read them, then the rest folded."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal

from servegate.checks.contract import Evidence, measured, remarks
from servegate.checks.prompts import batching, sampled
from servegate.checks.prompts.classes import SAME
from servegate.checks.prompts.items import importance
from servegate.checks.prompts.reading import pair_block, texts_of
from servegate.checks.prompts.records import PromptsInputs, PromptsMeasurement
from servegate.checks.prompts.settings import PromptsSettings
from servegate.checks.prompts.tables import CLASS_WORDS, class_table, contract_table, prompt_table
from servegate.domain.blocks import Block, Fact, Facts, Figure, Fold, Point, Section, Series, Text
from servegate.domain.judgement import Comparison, Finding, outcome_of
from servegate.domain.records import Json

OPEN_PAIRS = 5
"""Pairs that are open at once; the others are behind a fold."""
MOST_PAIRS = 500
ALL_SHOWN_UP_TO = 2_000
"""With more prompts only answers that differ are shown; the CSV has a row for every prompt."""
CERTAINTY_WORDS = {"coin_flip": "coin-flips", "lean": "leaning", "hard": "hard", "unknown": "unknown"}
SAME_WORDS = {name.value for name in SAME}

Item = dict[str, Json]


def present(
    comparison: Comparison,
    evidence: Evidence[PromptsMeasurement],
    _settings: PromptsSettings,
    findings: tuple[Finding, ...],
) -> Section:
    """Return the section. The same comparison always gives the same blocks."""
    queue = sorted(comparison.items, key=importance)
    counted = comparison.candidate
    rounds = len(counted["full_rounds"])
    return Section(
        check="prompts",
        title="Prompts",
        outcome=outcome_of(findings),
        question="Which answers changed, and does it matter?",
        summary=_summary(comparison),
        noise=_noise(comparison),
        n=f"{comparison.n} prompts x {rounds} round{'' if rounds == 1 else 's'}{_more_rounds(counted)}",
        blocks=(
            *remarks(findings),
            class_table(comparison),
            *_reading(queue, evidence),
            *contract_table(comparison.items),
            *sampled.blocks(comparison, evidence),
            *batching.blocks(comparison),
            Fold(title="Cap hits, lengths and where the answers part", blocks=(_facts(comparison), *_curve(comparison))),
            prompt_table(queue),
        ),
    )


def _summary(comparison: Comparison) -> str:
    counted = comparison.candidate
    parts = [f"{counted['differing']} of {counted['answered']} answers differ"]
    if comparison.noise is not None:
        sides = (
            ("the baseline differs from itself in", comparison.noise.baseline),
            ("the candidate in", comparison.noise.candidate),
        )
        parts.append(", ".join(f"{words} {half['differing']} of {half['answered']}" for words, half in sides if half))
    if counted["contracts"]:
        parts.append(_contracts(counted["contracts"]))
    if counted["unread"]:
        parts.append(f"{counted['unread']} unread fact change{'' if counted['unread'] == 1 else 's'}")
    return "; ".join(part for part in parts if part)


def _more_rounds(counted: dict[str, Json]) -> str:
    more = len(counted["by_round"]) - len(counted["full_rounds"])
    return f", contracts {len(counted['by_round'])} rounds" if more else ""


def _contracts(states: dict[str, int]) -> str:
    """Only contracts that the baseline keeps can be broken; the others are no evidence."""
    testable = sum(states.get(state, 0) for state in ("confirmed", "unstable", "kept", "noise"))
    if not testable:
        return f"none of {sum(states.values())} contracts could be tested"
    unstable = f", {states['unstable']} unstable" if states.get("unstable") else ""
    return f"{states.get('confirmed', 0)} of {testable} contract{'' if testable == 1 else 's'} broken{unstable}"


def _noise(comparison: Comparison) -> str:
    if comparison.noise is None:
        return comparison.noise_reason or "not measured"
    said = []
    for arm, half in (("baseline", comparison.noise.baseline), ("candidate", comparison.noise.candidate)):
        if half is None:
            said.append(f"{arm}: {comparison.noise.reason or 'not measured'}")
        else:
            first, second = half["rounds"]
            said.append(
                f"{arm}, round {first + 1} against round {second + 1}: {half['differing']} of {half['answered']} differ"
            )
    return "; ".join(said)


def _facts(comparison: Comparison) -> Facts:
    counted = comparison.candidate
    facts = [
        Fact(name=f"{what}, {arm}", value=f"{value} of {side['answered']}", note="answers of all rounds")
        for arm, side in counted["arms"].items()
        for what, value in (("hit max_tokens", side["cap_hits"]), ("degenerate", sum(side["degenerate"].values())))
    ]
    for name, what in (("degenerate", "degenerate answers"), ("cap_hits", "answers that hit max_tokens")):
        estimate = comparison.estimates.get(f"{name}_increase")
        if estimate is not None and estimate.high is not None:
            note = f"seen: {estimate.value:+.1f} points; upper 95 % bound over {estimate.n} prompts"
            facts.append(Fact(name=f"more {what}, at most (points)", value=round(estimate.high, 1), note=note))
    split = ", ".join(f"{count} {CERTAINTY_WORDS[name]}" for name, count in counted["divergence"].items())
    facts.append(
        Fact(
            name="where the answers part",
            value=split or None,
            note="by the baseline's logprob gap at the first differing token",
        )
    )
    facts.append(Fact(name="median first differing token", value=counted["median_first_token"]))
    facts.append(_cosine(comparison.items))
    ratio = counted["lengths"]["ratio"]
    facts.append(
        Fact(
            name="generated tokens, candidate over baseline",
            value=None if ratio is None else f"{ratio:.1%}",
            note=counted["lengths"]["ratio_reason"] or f"{counted['lengths']['right']} over {counted['lengths']['left']}",
        )
    )
    return Facts(facts=tuple(facts))


def _cosine(items: Sequence[Item]) -> Fact:
    """Return what the embedding model says of the answers that differ; the queue is ordered by it, and no more."""
    differing = [item for item in items if item["class"] not in SAME_WORDS]
    known = [item["cosine"] for item in differing if item.get("cosine") is not None]
    reasons = [item["cosine_reason"] for item in differing if item.get("cosine_reason")]
    note = f"over {len(known)} of {len(differing)} answers; it orders the reading" if known else next(iter(reasons), "")
    return Fact(name="embedding cosine, median", value=round(median(known), 3) if known else None, note=note)


def _curve(comparison: Comparison) -> list[Block]:
    """Return which share of the answers is still equal after so many tokens, between the arms and within each."""
    noise = comparison.noise
    halves: tuple[tuple[str, Literal["difference", "baseline", "candidate"], dict[str, Json] | None], ...] = (
        ("baseline against candidate", "difference", comparison.candidate),
        ("baseline against itself", "baseline", noise.baseline if noise else None),
        ("candidate against itself", "candidate", noise.candidate if noise else None),
    )
    series = tuple(
        Series(name=name, role=role, points=tuple(Point(x=float(token), y=share) for token, share in half["curve"]))
        for name, role, half in halves
        if half and half["curve"]
    )
    if not any(one.points[-1].y < 1 for one in series):
        return []
    said = "; ".join(f"{one.name}: {one.points[-1].y:.0%} after {one.points[-1].x:.0f} tokens" for one in series)
    return [
        Figure(
            name="prompt-divergence", title="Answers that are still equal", style="lines", x_label="generated tokens",
            y_label="share of answers", series=series, description=f"Share of answers still equal: {said}.",
        )
    ]  # fmt: skip


def _reading(queue: Sequence[Item], evidence: Evidence[PromptsMeasurement]) -> list[Block]:
    """Return the pairs: the first few open, the rest behind folds."""
    texts = texts_of(*measured(evidence))
    inputs = evidence.inputs
    questions = {prompt.id: prompt.question for prompt in inputs.prompts} if isinstance(inputs, PromptsInputs) else {}
    differing = [item for item in queue if item["class"] not in SAME_WORDS]
    same = [item for item in queue if item["class"] in SAME_WORDS]

    def pairs(items: Sequence[Item]) -> tuple[Block, ...]:
        return tuple(pair_block(item, texts, questions.get(item["prompt_id"], ""), CLASS_WORDS) for item in items)

    blocks: list[Block] = [*pairs(differing[:OPEN_PAIRS])]
    rest = differing[OPEN_PAIRS:MOST_PAIRS]
    if rest:
        blocks.append(Fold(title=f"{len(rest)} more answers that differ", blocks=pairs(rest)))
    if len(differing) > MOST_PAIRS:
        left = f"{len(differing) - MOST_PAIRS} more answers differ; the table has them all, the run directory their texts."
        blocks.append(Text(text=left))
    if same and len(queue) <= ALL_SHOWN_UP_TO:
        blocks.append(Fold(title=f"{len(same)} answers that are the same", blocks=pairs(same)))
    return blocks
