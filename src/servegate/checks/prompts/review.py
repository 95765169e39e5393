"""The page for reading: every unread change of facts side by side, under a written rubric."""

from __future__ import annotations

from servegate.checks.contract import Evidence, measured
from servegate.checks.prompts.items import importance
from servegate.checks.prompts.reading import change_text, pair_block, texts_of
from servegate.checks.prompts.records import PromptsInputs, PromptsMeasurement
from servegate.checks.prompts.tables import CLASS_WORDS
from servegate.domain.blocks import Block, Text
from servegate.domain.judgement import Comparison
from servegate.domain.records import Json

RUBRIC = (
    "For each pair answer one question: is there a factual or numerical claim that one arm gets right and the other wrong?",
    "same: no claim differs. wording: other words, same claims. minor: a claim differs and does not matter here. "
    "ambiguous: you cannot tell which side is right. fact-flip: one side is right and the other wrong.",
    "Read both sides before you decide, and do not favour the longer or the more confident one. "
    "Ambiguous and fact-flip can not be accepted.",
)


def unread_items(comparison: Comparison) -> list[dict[str, Json]]:
    """Return the items that wait for a reader, in reading order."""
    return sorted((item for item in comparison.items if item["unread"]), key=importance)


def review_blocks(comparison: Comparison, evidence: Evidence[PromptsMeasurement]) -> tuple[Block, ...]:
    """Return the rubric and every unread pair."""
    texts = texts_of(*measured(evidence))
    inputs = evidence.inputs
    questions = {prompt.id: prompt.question for prompt in inputs.prompts} if isinstance(inputs, PromptsInputs) else {}
    pairs = [pair_block(item, texts, questions.get(item["prompt_id"], ""), CLASS_WORDS) for item in unread_items(comparison)]
    return (*(Text(text=line) for line in RUBRIC), *pairs)


def review_row(item: dict[str, Json]) -> dict[str, Json]:
    """Return what a reader is asked to fill in about one item."""
    return {
        "prompt": item["prompt_id"],
        "changes": [change_text(change) for change in item["changes"]],
        "changes_sha256": item["changes_sha256"],
        "verdict": "",
        "why": "",
    }
