"""The tables of the section: classes beside the noise, contracts, and one row for every prompt."""

from __future__ import annotations

from collections.abc import Sequence

from servegate.checks.prompts.classes import AnswerClass
from servegate.checks.prompts.tally import ContractState
from servegate.domain.blocks import Block, Cell, Column, Fold, Table, Tone
from servegate.domain.judgement import Comparison
from servegate.domain.records import Json

CLASS_WORDS = {
    AnswerClass.IDENTICAL: "identical bytes",
    AnswerClass.ENCODING: "encoding only",
    AnswerClass.WHITESPACE: "white space only",
    AnswerClass.WORDING: "wording",
    AnswerClass.CHANGED_FACT: "changed fact",
    AnswerClass.CONTRACT_BROKEN: "contract broken",
    AnswerClass.DEGENERATE: "degenerate",
    AnswerClass.NOT_COMPARABLE: "not comparable",
}
TONES: dict[AnswerClass, Tone] = {
    **dict.fromkeys((AnswerClass.IDENTICAL, AnswerClass.ENCODING, AnswerClass.WHITESPACE), "pass"),
    AnswerClass.WORDING: "info",
    AnswerClass.CHANGED_FACT: "review",
    AnswerClass.CONTRACT_BROKEN: "fail",
    AnswerClass.DEGENERATE: "fail",
    AnswerClass.NOT_COMPARABLE: "not-comparable",
}
STATE_WORDS = {
    ContractState.CONFIRMED: "broken in every round",
    ContractState.UNSTABLE: "broken in some rounds",
    ContractState.KEPT: "kept by both",
    ContractState.MENDED: "kept by the candidate only",
    ContractState.BASELINE_BROKEN: "not kept by the baseline either",
    ContractState.NOISE: "no clear loss: some rounds break it",
    ContractState.NOT_JUDGED: "not judged",
}

TELLING = frozenset((ContractState.CONFIRMED, ContractState.UNSTABLE, ContractState.MENDED, ContractState.NOISE))
"""States in which the arms, or rounds of one arm, differ; the others are folded."""

Item = dict[str, Json]


def class_table(comparison: Comparison) -> Table:
    """Return the classes of every round between the arms, and of each arm against itself."""
    counted, noise = comparison.candidate, comparison.noise
    halves = [
        (f"candidate, round {one['round'] + 1}", one) for one in counted["by_round"] if one["round"] in counted["full_rounds"]
    ]
    halves += [
        (f"{arm} against itself", half)
        for arm, half in (("baseline", noise.baseline if noise else None), ("candidate", noise.candidate if noise else None))
        if half
    ]
    rows = [(CLASS_WORDS[name], *(half["classes"][name.value] for _, half in halves)) for name in AnswerClass]
    return Table(
        name="prompt-classes",
        title="What became of the answers",
        columns=(Column(title="class"), *(Column(title=title) for title, _ in halves)),
        rows=(*rows, ("all pairs", *(half["pairs"] for _, half in halves))),
        tones=(*(TONES[name] if any(half["classes"][name.value] for _, half in halves) else "" for name in AnswerClass), ""),
        note="One round against one round in every column, so the columns compare.",
    )


def contract_table(items: Sequence[Item]) -> list[Block]:
    """Return the contracts, broken ones first; nothing when no prompt has one."""
    held = [item for item in items if item["contract"]]
    if not held:
        return []
    order = list(STATE_WORDS)
    held.sort(key=lambda item: (order.index(ContractState(item["contract"]["state"])), item["prompt_id"]))
    telling = [item for item in held if ContractState(item["contract"]["state"]) in TELLING]
    rest = [item for item in held if item not in telling]
    blocks: list[Block] = []
    if telling:
        blocks.append(_contract_table("prompt-contracts", "Contracts that the arms keep differently", telling))
    if rest:
        table = _contract_table("prompt-contracts-alike", "Contracts kept by both arms, or by neither", rest)
        blocks.append(
            Fold(title=f"{len(rest)} contract{'' if len(rest) == 1 else 's'} kept by both arms, or by neither", blocks=(table,))
        )
    return blocks


def _contract_table(name: str, title: str, held: Sequence[Item]) -> Table:
    return Table(
        name=name,
        title=title,
        columns=(
            Column(title="prompt", code=True),
            Column(title="expects"),
            Column(title="what became of it"),
            Column(title="baseline kept"),
            Column(title="candidate kept"),
            Column(title="why"),
        ),
        rows=tuple(
            (
                item["prompt_id"],
                ", ".join(item["contract"]["kinds"]),
                STATE_WORDS[ContractState(item["contract"]["state"])],
                _of_judged(item["contract"]["baseline"]),
                _of_judged(item["contract"]["candidate"]),
                item["contract"]["why"],
            )
            for item in held
        ),
    )


def _of_judged(tally: dict[str, int]) -> str:
    said = f"{tally['kept']} of {tally['kept'] + tally['broken']}"
    return said + (f" ({tally['open']} not judged)" if tally["open"] else "")


def prompt_table(queue: Sequence[Item]) -> Fold:
    """Return one row for every prompt, in reading order; it is also the CSV."""
    columns = (
        Column(title="prompt", code=True), Column(title="category"), Column(title="class"), Column(title="reason"),
        Column(title="round"), Column(title="contract"), Column(title="similarity", digits=3),
        Column(title="ROUGE-L", digits=3), Column(title="embedding cosine", digits=3),
        Column(title="first differing token"), Column(title="baseline was"), Column(title="gap", unit="nat", digits=3),
        Column(title="baseline against itself"), Column(title="candidate against itself"), Column(title="beyond noise"),
        Column(title="unread"), Column(title="accepted"), Column(title="hit max_tokens, baseline", percent=True),
        Column(title="hit max_tokens, candidate", percent=True), Column(title="degenerate, baseline", percent=True),
        Column(title="degenerate, candidate", percent=True),
    )  # fmt: skip
    table = Table(name="prompts", title="Every prompt", columns=columns, rows=tuple(_prompt_row(item) for item in queue))
    return Fold(title="Every prompt as a table", blocks=(table,))


def _prompt_row(item: Item) -> tuple[Cell, ...]:
    parting, contract = item["divergence"] or {}, item["contract"]
    return (
        item["prompt_id"],
        item["category"],
        CLASS_WORDS[AnswerClass(item["class"])],
        item["reason"],
        item["round"] + 1,
        STATE_WORDS[ContractState(contract["state"])] if contract else None,
        item["similarity"],
        item.get("rouge_l"),  # a run that was judged before there was one is still drawn
        item.get("cosine"),
        parting.get("token"),
        parting.get("certainty"),
        parting.get("gap_nats"),
        item["noise"]["baseline"],
        item["noise"]["candidate"],
        item["beyond_noise"],
        item["unread"],
        bool(item.get("accepted")),
        item["cap_hits"]["baseline"],
        item["cap_hits"]["candidate"],
        item["degenerate"]["baseline"],
        item["degenerate"]["candidate"],
    )
