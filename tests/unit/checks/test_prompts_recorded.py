"""A real GPU's answers through the whole check: the counts that an independent reading of the same recording found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servegate.checks.contract import Evidence
from servegate.checks.prompts import CHECK
from servegate.checks.prompts.records import PromptsMeasurement
from servegate.checks.prompts.settings import PromptsSettings
from tests.unit.checks.prompts_evidence import Said, compared, evidence

RECORDED = json.loads((Path(__file__).parents[2] / "recorded" / "h200-chats.json").read_text())


def arm(name: str) -> dict[str, list[Said]]:
    """Round 0 was asked one chat after the other; round 1 all at once, and there the server's logprobs were not kept."""
    first, second = RECORDED["arms"][name]
    return {one: [said(first[one], one, name), said(second[one] or first[one], one, None)] for one in RECORDED["prompts"]}


def said(answer: dict[str, Any], prompt_id: str, arm_name: str | None) -> Said:
    tokens: list[tuple[int, float, dict[int, float]]] = [(token, float("nan"), {}) for token in answer.get("token_ids", ())]
    parting = RECORDED["parting"].get(prompt_id)
    if arm_name == "bf16" and parting:
        tokens[parting["token"]] = (tokens[parting["token"]][0], parting["logprob"], dict(parting["top"]))
    status = "truncated" if answer["finish_reason"] == "length" else "ok"
    return Said(answer["text"], status, tokens=tokens if arm_name else ())


@pytest.fixture(scope="module")
def fp8() -> Evidence[PromptsMeasurement]:
    return evidence(arm("bf16"), arm("fp8_per_channel"), filler=0)


def seen(counted: dict[str, Any]) -> dict[str, int]:
    return {name: count for name, count in counted["classes"].items() if count}


def test_classes_and_autopsy_of_fp8_weights_one_after_the_other_and_all_at_once(fp8: Evidence[PromptsMeasurement]) -> None:
    comparison = compared(fp8)
    assert comparison.n == 24
    sequential, concurrent = comparison.candidate["by_round"]
    assert (sequential["classes"]["identical"], sequential["differing"]) == (6, 18)
    assert sequential["divergence"] == {"coin_flip": 10, "lean": 8}
    assert seen(sequential) == {"identical": 6, "wording": 7, "changed_fact": 9, "not_comparable": 2}
    assert seen(concurrent) == {"identical": 5, "wording": 6, "changed_fact": 10, "degenerate": 2, "not_comparable": 1}
    assert concurrent["divergence"] == {}, "no logprobs of that round were recorded, so nothing is claimed"


def test_each_arm_against_itself(fp8: Evidence[PromptsMeasurement]) -> None:
    noise = compared(fp8).noise
    assert noise is not None
    assert noise.baseline is not None
    assert noise.candidate is not None
    assert seen(noise.baseline) == {"identical": 24}
    assert seen(noise.candidate) == {"identical": 11, "wording": 5, "changed_fact": 6, "degenerate": 2}


def test_the_sentence_of_that_run(fp8: Evidence[PromptsMeasurement]) -> None:
    comparison, settings = compared(fp8), PromptsSettings()
    summary = CHECK.present(comparison, fp8, settings, CHECK.judge(comparison, settings)).summary
    assert summary == (
        "18 of 24 answers differ; the baseline differs from itself in 0 of 24, the candidate in 13 of 24; 5 unread fact changes"
    )
