"""Hand-written evidence of the retrieval check: 12 prompts at each of three depths, and what an arm said to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from servegate.checks.contract import ArmEvidence, Evidence
from servegate.checks.retrieval import CHECK
from servegate.checks.retrieval.record import LongPrompt, Pass, RetrievalInputs, RetrievalMeasurement, Stated
from servegate.checks.retrieval.settings import RetrievalSettings
from servegate.checks.retrieval.texts import key_of
from servegate.domain.evidence import ItemStatus
from servegate.domain.judgement import Comparison, Finding

DEPTHS = (25, 50, 90)
COUNT = 12

Say = Callable[[LongPrompt, int], str | Mapping[str, Any]]
"""What is said to a prompt in a round: a text, or fields of the answer."""


def inputs(count: int = COUNT) -> RetrievalInputs:
    return RetrievalInputs(
        prompts=tuple(
            LongPrompt(
                id=f"d{depth}-{number:02}",
                depth_percent=depth,
                place=(number + 0.5) / count,
                key=key_of(f"{depth}-{number}"),
                text="...",
                token_ids=(1,) * depth,
                token_ids_sha256=f"{depth}-{number}",
            )
            for depth in DEPTHS
            for number in range(count)
        ),
        context_tokens=100,
        wanted_per_depth=count,
    )


def right(prompt: LongPrompt, _number: int) -> str:
    return f"The pass key is {prompt.key}."


def measurement(say: Say = right, rounds: int = 2, count: int = COUNT) -> RetrievalMeasurement:
    made = []
    for number in range(rounds):
        for prompt in inputs(count).prompts:
            said = say(prompt, number)
            values = {"text": said} if isinstance(said, str) else dict(said)
            fixed = {"token_ids_sha256": prompt.token_ids_sha256, "sampling_sha256": "s", "status": ItemStatus.OK}
            made.append(Stated(**{"prompt_id": prompt.id, "round": number, **fixed, **values}))
    passes = tuple(Pass(round=number, concurrency=16, seconds=1.0) for number in range(rounds))
    return RetrievalMeasurement(rounds=passes, answers=tuple(made))


def judged(
    baseline: Say, candidate: Say, *, rounds: int = 2, count: int = COUNT, **settings: Any
) -> tuple[Comparison, dict[str, Finding]]:
    """Return the comparison and the findings by code, less the check's name (the last of equal codes)."""
    chosen = RetrievalSettings(**settings)
    sides = [ArmEvidence(None, None, measurement(say, rounds, count)) for say in (baseline, candidate)]
    comparison = CHECK.compare(Evidence(sides[0], sides[1], inputs(count)), chosen)
    assert isinstance(comparison, Comparison)
    return comparison, {item.code.removeprefix("retrieval/"): item for item in CHECK.judge(comparison, chosen)}
