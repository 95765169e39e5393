"""Hand-written evidence of the prompts check: what was asked, and what each arm answered in each round."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from servegate.checks.contract import ArmEvidence, Evidence
from servegate.checks.prompts import CHECK
from servegate.checks.prompts.records import Answer, Prompt, PromptsInputs, PromptsMeasurement, Round
from servegate.checks.prompts.settings import Limits, PromptsSettings
from servegate.domain.evidence import ItemStatus
from servegate.domain.judgement import Comparison, Finding
from servegate.domain.plan import sha256_of

FILLER = 24
"""Prompts that every arm answers alike, so that a test's own prompts are not "too few"."""


@dataclass
class Said:
    """One answer as a test writes it; `tokens` are (id, logprob, {other id: logprob}) from the first token on."""

    text: str
    status: str = "ok"
    error: str | None = None
    tokens: Sequence[tuple[int, float, Mapping[int, float]]] = field(default_factory=tuple)
    overrides: dict[str, Any] = field(default_factory=dict)


def prompt(prompt_id: str, expect: dict[str, Any] | None = None, category: str = "test") -> Prompt:
    return Prompt(
        id=prompt_id,
        category=category,
        messages=({"role": "user", "content": f"question of {prompt_id}"},),
        max_tokens=32,
        expect=expect,
        prompt_sha256=sha256_of(prompt_id),
        token_ids=(1, 2, 3),
        token_ids_sha256="t",
        token_ids_sha256_reason=None,
    )


def measurement(answers: Mapping[str, Sequence[Said | str | None]]) -> PromptsMeasurement:
    """`answers`: prompt id -> what was said in round 0, 1, ...; None leaves the round out."""
    made: list[Answer] = []
    rows: list[tuple[int, float, Mapping[int, float]]] = []
    rounds = max((len(said) for said in answers.values()), default=0)
    for number in range(rounds):
        for prompt_id, said in answers.items():
            one = said[number] if number < len(said) else None
            if one is None:
                continue
            one = Said(one) if isinstance(one, str) else one
            values = {
                "prompt_id": prompt_id,
                "round": number,
                "prompt_sha256": sha256_of(prompt_id),
                "token_ids_sha256": "t",
                "sampling_sha256": "s",
                "status": ItemStatus(one.status),
                "text": one.text,
                "error": one.error,
                "first_row": len(rows),
                "rows": len(one.tokens),
                "completion_tokens": 8,
            }
            made.append(Answer(**{**values, **one.overrides}))
            rows.extend(one.tokens)
    columns = {
        "token_id": np.array([row[0] for row in rows], dtype="<i4"),
        "logprob": np.array([row[1] for row in rows], dtype="<f4"),
        "top_id": np.full((len(rows), 5), -1, dtype="<i4"),
        "top_logprob": np.full((len(rows), 5), math.nan, dtype="<f4"),
    }
    for index, row in enumerate(rows):
        for place, (token, logprob) in enumerate(row[2].items()):
            columns["top_id"][index, place], columns["top_logprob"][index, place] = token, logprob
    return PromptsMeasurement(
        rounds=tuple(Round(round=number, name=f"round {number}", concurrency=4, seconds=1.0) for number in range(rounds)),
        answers=tuple(made),
        columns=columns,
    )


def evidence(
    baseline: Mapping[str, Sequence[Said | str | None]],
    candidate: Mapping[str, Sequence[Said | str | None]],
    expect: Mapping[str, dict[str, Any]] | None = None,
    *,
    filler: int = FILLER,
    categories: Mapping[str, str] | None = None,
) -> Evidence[PromptsMeasurement]:
    """Both arms, with `filler` more prompts that are answered alike in as many rounds."""
    rounds = max((len(said) for said in (*baseline.values(), *candidate.values())), default=2)
    alike = {f"filler-{number:03d}": [f"The same answer, number {number}."] * rounds for number in range(filler)}
    ids = sorted({*baseline, *candidate, *alike})
    prompts = tuple(prompt(one, (expect or {}).get(one), (categories or {}).get(one, "test")) for one in ids)
    arms = [
        ArmEvidence(engine=None, manifest=None, measurement=measurement({**side, **alike})) for side in (baseline, candidate)
    ]
    return Evidence(baseline=arms[0], candidate=arms[1], inputs=PromptsInputs(prompts=prompts))


def compared(found: Evidence[PromptsMeasurement], **limits: Any) -> Comparison:
    comparison = CHECK.compare(found, PromptsSettings(limits=Limits(**limits)))
    assert isinstance(comparison, Comparison)
    return comparison


def judged(found: Evidence[PromptsMeasurement], **limits: Any) -> dict[str, Finding]:
    """Return the findings by code. What so few prompts can not rule out is left out, unless a test sets its limit."""
    limits = {"unseen_increase_points": 100, **limits}
    settings = PromptsSettings(limits=Limits(**limits))
    comparison = CHECK.compare(found, settings)
    assert isinstance(comparison, Comparison)
    return {one.code: one for one in CHECK.judge(comparison, settings)}


def item(comparison: Comparison, prompt_id: str) -> dict[str, Any]:
    return next(one for one in comparison.items if one["prompt_id"] == prompt_id)


def contracts_only(
    whole: PromptsMeasurement, asked: set[str], rounds: tuple[int, ...], lose: tuple[str, int] | None = None
) -> PromptsMeasurement:
    """Return a measurement whose named rounds asked only the prompts with a contract."""
    answers = tuple(
        one
        for one in whole.answers
        if (one.round not in rounds or one.prompt_id in asked) and (one.prompt_id, one.round) != lose
    )
    kinds = tuple(one.model_copy(update={"asked": "contracts" if one.round in rounds else "all"}) for one in whole.rounds)
    return PromptsMeasurement(rounds=kinds, answers=answers, columns=whole.columns)
