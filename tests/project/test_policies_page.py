"""The table of docs/policies.md says what `domain/policies.py` does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from servegate.checks.prompts.passes import SEQUENTIAL_PROMPTS, SEQUENTIAL_SECONDS
from servegate.checks.retrieval.settings import RetrievalSettings
from servegate.domain.policies import POLICIES, ROUNDS, PolicyName

PAGE = Path(__file__).resolve().parents[2] / "docs/policies.md"
NAMES: tuple[PolicyName, ...] = ("quick", "standard", "release")
PERCENT = 100
ROWS: dict[str, list[tuple[str, str, float]]] = {
    "rounds of prompts with a contract": [("prompts", "contract_rounds", 1)],
    "samples of each contract under the config's own sampling": [("prompts", "samples", 1)],
    "PASS needs an accuracy drop below (upper 95 %)": [("accuracy", "limits.pass_drop_points", 1)],
    "FAIL needs one above (lower 99 %)": [("accuracy", "limits.fail_drop_points", 1)],
    "PASS needs a perplexity ratio below (upper 95 %)": [("logprobs", "limits.ppl_ratio_pass", 1)],
    "FAIL needs a perplexity ratio above (lower 95 %)": [("logprobs", "limits.ppl_ratio_fail", 1)],
    "fewest questions for a PASS": [("accuracy", "limits.smallest_n", 1)],
    "fewest prompts for a PASS": [("prompts", "limits.fewest_prompts", 1)],
    "an increase of them that may stay possible where none was seen (upper 95 %)": [
        ("prompts", "limits.unseen_increase_points", 1)
    ],
    "more cap hits or degenerate answers, tolerated": [("prompts", "limits.cap_hit_increase_points", 1)],
    "generated tokens, candidate over baseline": [
        ("prompts", "limits.length_ratio_low", PERCENT),
        ("prompts", "limits.length_ratio_high", PERCENT),
    ],
    "FAIL when throughput falls below (upper 95 %)": [("throughput", "limits.fail_ratio", PERCENT)],
}


def cells(row: str) -> list[str]:
    line = next(line for line in PAGE.read_text().split("\n") if line.startswith(f"| {row} |"))
    return [cell.strip() for cell in line.strip("|").split("|")][1:]


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]


@pytest.mark.parametrize("row", list(ROWS))
def test_a_row_holds_each_policys_numbers(row: str) -> None:
    for name, cell in zip(NAMES, cells(row), strict=True):
        stated = [POLICIES[name][check][setting] * scale for check, setting, scale in ROWS[row]]
        assert numbers(cell)[: len(stated)] == pytest.approx(stated), (row, name)


def test_prompts_asked_one_at_a_time() -> None:
    for name, cell in zip(NAMES, cells("prompts asked one at a time, to tell what batching does"), strict=True):
        if POLICIES[name]["prompts"]["sequential"] == "never":
            assert cell == "never"
        else:
            assert numbers(cell) == [SEQUENTIAL_PROMPTS, SEQUENTIAL_SECONDS]


def test_what_the_page_says_of_retrieval_is_what_it_does() -> None:
    limits, text = RetrievalSettings().limits, " ".join(PAGE.read_text().split())
    assert f"states under {limits.baseline_share:.0%} of its keys".replace("%", " %") in text
    assert f"lower 99 % bound is above {limits.drop_points:g} point" in text


def test_rounds_fact_changes_and_degenerate_answers() -> None:
    assert numbers(" ".join(cells("rounds of each check"))) == [ROUNDS[name] for name in NAMES]
    facts = cells("unread fact changes that come in every round")
    assert ["REVIEW" if POLICIES[name]["prompts"]["limits.fact_changes"] == "review" else "headline" for name in NAMES] == facts
    for name in NAMES:  # one row speaks of both limits
        limits = POLICIES[name]["prompts"]
        assert limits["limits.cap_hit_increase_points"] == limits["limits.degenerate_increase_points"]
