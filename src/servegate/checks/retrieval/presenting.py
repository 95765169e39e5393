"""Showing: stated keys by depth and by place in the prompt, and what was said where a key was lost."""

from __future__ import annotations

from collections.abc import Sequence

from servegate.checks.contract import Comparison, Evidence, measured, remarks
from servegate.checks.prompts.tally import ContractState
from servegate.checks.retrieval.judging import sound
from servegate.checks.retrieval.record import RetrievalMeasurement, Stated
from servegate.checks.retrieval.settings import RetrievalSettings
from servegate.domain.blocks import Block, Column, Fact, Facts, Section, Table
from servegate.domain.judgement import Finding, outcome_of
from servegate.domain.records import Json

THIRDS = ("first third", "middle third", "last third")
LOST = (ContractState.CONFIRMED.value, ContractState.UNSTABLE.value, ContractState.NOISE.value)
MOST_SHOWN = 120
"""Characters of an answer that a table shows."""

Item = dict[str, Json]


def present(
    comparison: Comparison, evidence: Evidence[RetrievalMeasurement], settings: RetrievalSettings, findings: tuple[Finding, ...]
) -> Section:
    """Return the section. The same comparison always gives the same blocks."""
    counted = comparison.candidate
    return Section(
        check="retrieval",
        title="Retrieval",
        outcome=outcome_of(findings),
        question="Do answers still know what stood far back in a long prompt?",
        summary=_summary(counted["depths"]),
        noise=_noise(comparison),
        n=f"{comparison.n} prompts of up to {max((each['longest_tokens'] for each in counted['depths']), default=0):,} tokens",
        blocks=(
            *remarks(findings),
            _depth_table(comparison, settings),
            _place_table(comparison.items),
            _facts(comparison),
            *_lost_table(comparison.items, evidence),
        ),
    )


def _summary(depths: Sequence[dict[str, Json]]) -> str:
    if not depths:
        return "no long prompt was asked"
    parts = [f"{each['depth_percent']} %: {_of(each['baseline'])} -> {_of(each['candidate'])}" for each in depths[:5]]
    return "Pass keys stated, baseline -> candidate, by share of the context filled: " + "; ".join(parts)


def _noise(comparison: Comparison) -> str:
    if comparison.noise is None:
        return comparison.noise_reason or "not measured"
    halves = (("baseline", comparison.noise.baseline), ("candidate", comparison.noise.candidate))
    return "; ".join(
        f"{arm}, one round against another: {half['changed']} of {half['pairs']} change between stated and not"
        for arm, half in halves
        if half
    )


def _depth_table(comparison: Comparison, settings: RetrievalSettings) -> Table:
    rows = []
    for each in comparison.candidate["depths"]:
        estimate = comparison.estimates.get(f"drop_at_{each['depth_percent']}")
        rows.append(
            (
                f"{each['depth_percent']} %",
                each["longest_tokens"],
                each["prompts"],
                _of(each["baseline"]),
                _of(each["candidate"]),
                estimate.value if estimate else None,
                estimate.high if estimate else None,
                "yes" if sound(each, settings.limits) else "no: the baseline is not reliable here",
            )
        )
    return Table(
        name="retrieval-depths",
        title="Pass keys by depth",
        columns=(
            Column(title="share of the context"), Column(title="longest prompt", unit="tokens"), Column(title="prompts"),
            Column(title="baseline"), Column(title="candidate"), Column(title="drop", unit="points", digits=1),
            Column(title="drop, upper 95 %", unit="points", digits=1), Column(title="judged"),
        ),
        rows=tuple(rows),
        note="Answers of all rounds; the drop is a mean over prompts.",
    )  # fmt: skip


def _place_table(items: Sequence[Item]) -> Table:
    depths = sorted({item["depth_percent"] for item in items})
    rows = []
    for number, third in enumerate(THIRDS):
        own = [item for item in items if min(2, int(item["place"] * 3)) == number]
        cells = [[item for item in own if item["depth_percent"] == depth] for depth in depths]
        rows.append((third, *(f"{_sum(cell, 'baseline')} -> {_sum(cell, 'candidate')}" if cell else None for cell in cells)))
    return Table(
        name="retrieval-places",
        title="Pass keys by where they stand in the prompt",
        columns=(Column(title="the key stands in the"), *(Column(title=f"{depth} %") for depth in depths)),
        rows=tuple(rows),
        note="Stated keys, baseline -> candidate, answers of all rounds.",
    )


def _facts(comparison: Comparison) -> Facts:
    counted = comparison.candidate
    asked = max((each["prompts"] for each in counted["depths"]), default=0)
    wanted = counted["wanted_per_depth"]
    short = f"{wanted} were wanted; max_prompt_tokens or failed answers left {asked}" if wanted and asked < wanted else ""
    return Facts(
        facts=(
            Fact(name="context that was filled (tokens)", value=counted["context_tokens"], note="what both engines accept"),
            Fact(name="compared prompts per depth", value=asked, note=short),
        )
    )


def _lost_table(items: Sequence[Item], evidence: Evidence[RetrievalMeasurement]) -> list[Block]:
    """Return what both arms said where the candidate states a key less often than the baseline."""
    lost = [item for item in items if item["state"] in LOST and _sum([item], "candidate") != _sum([item], "baseline")]
    if not lost:
        return []
    texts = [_first(side.answers) for side in measured(evidence)]
    rows = tuple(
        (
            item["prompt_id"], item["prompt_tokens"], item["place"], item["key"], _of(item["baseline"]), _of(item["candidate"]),
            *(side.get(item["prompt_id"]) for side in texts),
        )
        for item in sorted(lost, key=lambda item: (LOST.index(item["state"]), item["prompt_id"]))
    )  # fmt: skip
    columns = (
        Column(title="prompt", code=True), Column(title="prompt tokens"), Column(title="place of the key", percent=True),
        Column(title="key"), Column(title="baseline"), Column(title="candidate"), Column(title="the baseline said"),
        Column(title="the candidate said"),
    )  # fmt: skip
    return [Table(name="retrieval-lost", title="Where the arms differ", columns=columns, rows=rows)]


def _first(answers: Sequence[Stated]) -> dict[str, str]:
    """Return what was said to each prompt in its first round, cut to what a table holds."""
    said: dict[str, str] = {}
    for answer in sorted(answers, key=lambda each: each.round):
        said.setdefault(answer.prompt_id, (answer.text or answer.error or "").strip()[:MOST_SHOWN])
    return said


def _of(counted: dict[str, int]) -> str:
    said = f"{counted['kept']} of {counted['kept'] + counted['broken']}"
    return said + (f" ({counted['open']} not judged)" if counted["open"] else "")


def _sum(items: Sequence[Item], arm: str) -> str:
    kept, broken = (sum(item[arm][name] for item in items) for name in ("kept", "broken"))
    return f"{kept}/{kept + broken}"
