"""One pair of answers as a reader sees it: both texts around their first difference, the differing words marked."""

from __future__ import annotations

from collections.abc import Mapping

from servegate.checks.prompts.classes import AnswerClass
from servegate.checks.prompts.records import Answer, PromptsMeasurement
from servegate.checks.prompts.tables import STATE_WORDS
from servegate.checks.prompts.tally import ContractState
from servegate.domain.blocks import Pair
from servegate.domain.records import Json
from servegate.text.fact_changes import Change
from servegate.text.facts import FactKind
from servegate.text.marks import excerpt

MOST_CHARACTERS = 4_000
"""Longest text shown on each side; the whole text is in the run directory."""
MOST_QUESTION = 300
MOST_CHANGES = 5
CERTAINTY = {
    "coin_flip": "the baseline could have gone either way",
    "lean": "the baseline leaned to its own choice",
    "hard": "the baseline was sure of its own choice",
    "unknown": "how sure the baseline was is not known",
}

Texts = tuple[dict[tuple[str, int], Answer], dict[tuple[str, int], Answer]]


def texts_of(baseline: PromptsMeasurement, candidate: PromptsMeasurement) -> Texts:
    """Index both arms' answers by prompt and round."""
    left, right = (
        {(answer.prompt_id, answer.round): answer for answer in measurement.answers} for measurement in (baseline, candidate)
    )
    return left, right


def pair_block(item: dict[str, Json], texts: Texts, question: str, class_words: Mapping[AnswerClass, str]) -> Pair:
    """Return the pair of the item's round."""
    key = (item["prompt_id"], item["round"])
    left, right = (_shown(side.get(key)) for side in texts)
    part = excerpt(left, right, MOST_CHARACTERS)
    why = f": {item['reason']}" if item["reason"] else ""
    return Pair(
        title=f"{item['prompt_id']} · {class_words[AnswerClass(item['class'])]}{why}",
        item=item["prompt_id"],
        left_title=f"baseline, round {item['round'] + 1}",
        right_title=f"candidate, round {item['round'] + 1}",
        left=part.left,
        right=part.right,
        left_marks=part.left_marks,
        right_marks=part.right_marks,
        asked=_asked(question),
        note=_note(item, cut=part.cut),
    )


def _shown(answer: Answer | None) -> str:
    """Return the text, or in brackets what is there instead."""
    if answer is None:
        return "(no record)"
    if answer.text.strip():
        return answer.text
    explained = f": {answer.error}" if answer.error else ""
    return f"({answer.status.value}{explained})"


def _asked(question: str) -> str:
    short = question if len(question) <= MOST_QUESTION else question[: MOST_QUESTION - 1] + "…"
    return f"Asked: {short}" if question else ""


def _note(item: dict[str, Json], *, cut: bool) -> str:
    said = []
    if len(item["changes"]) > 1:
        said.append(f"Changed facts: {'; '.join(change_text(change) for change in item['changes'][:MOST_CHANGES])}.")
    if item.get("accepted"):
        said.append(f"Accepted by {item['accepted']['who']}: {item['accepted']['why']}.")
    parting = item["divergence"]
    if parting:
        gap = parting["gap_nats"]
        certainty = CERTAINTY[parting["certainty"]]
        more = f" (gap {gap:.2f} nat)" if gap is not None else f" ({parting['gap_reason']})"
        said.append(f"They part at token {parting['token']}; {certainty}{more}.")
    contract = item["contract"]
    if contract:
        kinds = ", ".join(contract["kinds"])
        said.append(
            f"Expects {kinds}: {STATE_WORDS[ContractState(contract['state'])]}"
            + (f" ({contract['why']})." if contract["why"] else ".")
        )
    if cut:
        said.append("Shown in part.")
    return " ".join(said)


def change_text(change: dict[str, str]) -> str:
    """Say one changed fact in a few words."""
    return str(Change(FactKind(change["kind"]), change["left"], change["right"]))
