"""The 2 x 2 of batching and change: the same prompts one at a time and at serving concurrency, in both arms.

A batched answer is computed by other kernels, in another order of additions, than an answer that is alone, so an arm
differs from itself. Beside each other the two effects can be told apart: along a row only batching differs, along a
column only the change under test. It informs and never decides.
"""

from __future__ import annotations

from collections.abc import Mapping

from servegate.checks.prompts.classes import WITHOUT_ANSWER
from servegate.checks.prompts.records import Answer, Prompt, PromptsMeasurement
from servegate.domain.blocks import Block, Column, Table
from servegate.domain.judgement import Comparison
from servegate.domain.records import Json

REFERENCE = ("baseline", "sequential")
CELLS = (REFERENCE, ("baseline", "concurrent"), ("candidate", "sequential"), ("candidate", "concurrent"))

Cell = tuple[str, str]


def compared(baseline: PromptsMeasurement, candidate: PromptsMeasurement, prompts: Mapping[str, Prompt]) -> dict[str, Json]:
    """Return {"batching": counts}; nothing when no arm was asked sequentially. Only prompts with all four answers count."""
    if not baseline.sequential and not candidate.sequential:
        return {}
    first = {"baseline": _first_round(baseline), "candidate": _first_round(candidate)}
    alone = {
        arm: {answer.prompt_id: answer for answer in side.sequential}
        for arm, side in (("baseline", baseline), ("candidate", candidate))
    }
    asked = sorted({*alone["baseline"], *alone["candidate"]})
    complete: list[dict[Cell, str]] = []
    for name in asked:
        four = {cell: (alone if cell[1] == "sequential" else first)[cell[0]].get(name) for cell in CELLS}
        texts = _texts(four, prompts.get(name))
        if texts is not None:
            complete.append(texts)

    def differing(one: Cell, other: Cell) -> int:
        return sum(texts[one] != texts[other] for texts in complete)

    concurrency = [one.concurrency for side in (baseline, candidate) for one in side.rounds[:1]]
    return {
        "batching": {
            "asked": len(asked),
            "prompts": len(complete),
            "concurrency": max(concurrency, default=None),
            "by_batching": {arm: differing((arm, "sequential"), (arm, "concurrent")) for arm in first},
            "by_change": {way: differing(("baseline", way), ("candidate", way)) for way in ("sequential", "concurrent")},
            "like_reference": {f"{arm}_{way}": len(complete) - differing(REFERENCE, (arm, way)) for arm, way in CELLS},
            "same_everywhere": sum(len(set(texts.values())) == 1 for texts in complete),
        }
    }


def blocks(comparison: Comparison) -> list[Block]:
    """Return the 2 x 2 table with its margins; nothing when nothing was asked sequentially."""
    counted = comparison.candidate.get("batching")
    if not counted or not counted["prompts"]:
        return []
    n, like = counted["prompts"], counted["like_reference"]
    rows = [
        (
            arm,
            *(f"{like[f'{arm}_{way}']} of {n}" for way in ("sequential", "concurrent")),
            f"{counted['by_batching'][arm]} of {n}",
        )
        for arm in ("baseline", "candidate")
    ]
    change = [f"{counted['by_change'][way]} of {n}" for way in ("sequential", "concurrent")]
    left = counted["asked"] - n
    return [
        Table(
            name="prompt-batching",
            title="What batching alone changes, and what the change alone does",
            columns=(
                Column(title="answers equal to the baseline's, one at a time"), Column(title="one at a time"),
                Column(title=f"{counted['concurrency']} in flight"), Column(title="differ by batching alone"),
            ),
            rows=(*rows, ("differ by the change alone", *change, "")),
            note=f"Greedy answers to {n} prompts, compared byte by byte; {counted['same_everywhere']} are the same in all four "
            f"cells.{f' {left} more lack one of the four answers.' if left else ''}",
        )
    ]  # fmt: skip


def _first_round(side: PromptsMeasurement) -> dict[str, Answer]:
    number = min((one.round for one in side.rounds if one.asked == "all"), default=0)
    return {answer.prompt_id: answer for answer in side.answers if answer.round == number}


def _texts(four: Mapping[Cell, Answer | None], prompt: Prompt | None) -> dict[Cell, str] | None:
    """Return the four texts; None unless all four answers are there and were asked the same."""
    found = {cell: answer for cell, answer in four.items() if answer is not None and answer.status not in WITHOUT_ANSWER}
    if len(found) != len(CELLS) or prompt is None:
        return None
    asked = {(one.prompt_sha256, one.token_ids_sha256, one.sampling_sha256) for one in found.values()}
    if len(asked) != 1 or next(iter(asked))[0] != prompt.prompt_sha256:
        return None
    return {cell: answer.text for cell, answer in found.items()}
