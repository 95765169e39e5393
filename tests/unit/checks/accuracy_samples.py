"""Small accuracy measurements to start from: a grid of scores becomes an arm."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servegate.checks.accuracy.record import AccuracyMeasurement, Document, Response, Row, TaskRecord
from servegate.checks.contract import ArmEvidence, Evidence
from servegate.domain.evidence import EngineFacts, ItemStatus, NotMeasured
from tests.unit.samples import engine_facts, manifest

RECORDED = Path(__file__).parents[2] / "recorded" / "accuracy" / "cpu-arith.json"
FLEXIBLE, STRICT = "flexible-extract", "strict-match"


def task(name: str = "gsm8k", **changes: object) -> TaskRecord:
    values: dict[str, object] = {
        "task": name,
        "version": "3.0",
        "shots": 5,
        "metric": "exact_match",
        "filters": (STRICT, FLEXIBLE),
        "judged_filter": FLEXIBLE,
        "max_length": 2048,
        "max_tokens": 256,
        "concurrency": 64,
        "add_bos": False,
        "seed": 1234,
        "lm_eval": "0.4.13",
    }
    return TaskRecord.model_validate({**values, **changes})


def row(doc_id: int, score: float, *, round_: int = 0, name: str = "gsm8k", filter_: str = FLEXIBLE, **changes: object) -> Row:
    values: dict[str, object] = {
        "task": name,
        "round": round_,
        "doc_id": doc_id,
        "filter": filter_,
        "doc_hash": f"d{doc_id}",
        "target_hash": f"t{doc_id}",
        "prompt_hash": f"p{doc_id}",
        "extracted": f"{doc_id}" if score >= 0.5 else f"not {doc_id}",
        "score": score,
    }
    return Row.model_validate({**values, **changes})


def arm(
    *rounds: Sequence[float],
    strict: Sequence[Sequence[float]] | None = None,
    lost: Mapping[tuple[int, int], ItemStatus] | None = None,
    tasks: tuple[TaskRecord, ...] | None = None,
    texts: str = "",
) -> AccuracyMeasurement:
    """One sequence of judged scores a round; `lost` maps (round, doc_id) to what became of the answer."""
    lost = lost or {}
    rows, responses = [], []
    for number, scores in enumerate(rounds):
        for doc_id, score in enumerate(scores):
            status = lost.get((number, doc_id), ItemStatus.OK)
            scored = score if status is ItemStatus.OK else 0.0
            text = f"#### {doc_id} {'yes' if scored else 'no'}{texts}" if status is ItemStatus.OK else ""
            responses.append(Response(task="gsm8k", round=number, doc_id=doc_id, status=status, text=text))
            rows.append(row(doc_id, scored, round_=number))
            rows.append(row(doc_id, strict[number][doc_id] if strict else scored, round_=number, filter_=STRICT))
    documents = tuple(
        Document(task="gsm8k", doc_id=doc_id, question=f"what is {doc_id}?", target=f"#### {doc_id}")
        for doc_id in range(len(rounds[0]) if rounds else 0)
    )
    return AccuracyMeasurement(tasks=tasks or (task(),), responses=tuple(responses), rows=tuple(rows), documents=documents)


def evidence(
    baseline: AccuracyMeasurement | NotMeasured,
    candidate: AccuracyMeasurement | NotMeasured,
    facts: tuple[EngineFacts, EngineFacts] | None = None,
) -> Evidence[AccuracyMeasurement]:
    first, second = facts or (engine_facts("baseline"), engine_facts("candidate"))
    return Evidence(ArmEvidence(first, manifest(), baseline), ArmEvidence(second, manifest(), candidate))


def pattern(n: int, right_share: float = 0.6) -> list[float]:
    """n scores of which a steady share is right."""
    return [1.0 if (index * 37) % 100 < 100 * right_share else 0.0 for index in range(n)]


def flipped(scores: Sequence[float], lost: int, won: int) -> list[float]:
    """The same scores with the first `lost` right ones wrong and the first `won` wrong ones right."""
    right = [index for index, score in enumerate(scores) if score][:lost]
    wrong = [index for index, score in enumerate(scores) if not score][:won]
    return [1.0 - score if index in {*right, *wrong} else score for index, score in enumerate(scores)]


def recorded(name: str) -> AccuracyMeasurement:
    """A recorded arm of the CPU run: `bf16`, `fp8` (weights) or `kv` (FP8 KV cache)."""
    documents: list[dict[str, Any]] = json.loads(RECORDED.read_text())["arms"][name]
    rows, responses = [], []
    for document in documents:
        doc_id = document["doc_id"]
        hashes = {key: document[key] for key in ("doc_hash", "target_hash", "prompt_hash")}
        responses.append(Response(task="arith", round=0, doc_id=doc_id, status=ItemStatus.OK, text=document["response"]))
        for filter_, (extracted, score) in document["filters"].items():
            rows.append(row(doc_id, score, name="arith", filter_=filter_, extracted=extracted, **hashes))
    arith = task("arith", version="Yaml", max_tokens=96, concurrency=8)
    return AccuracyMeasurement(tasks=(arith,), responses=tuple(responses), rows=tuple(rows))


def renamed(measurement: AccuracyMeasurement, name: str) -> AccuracyMeasurement:
    """The same answers as another task's, to other documents."""
    tasks = tuple(one.model_copy(update={"task": name}) for one in measurement.tasks)
    rows = tuple(one.model_copy(update={"task": name, "doc_hash": f"{name}-{one.doc_hash}"}) for one in measurement.rows)
    responses = tuple(one.model_copy(update={"task": name}) for one in measurement.responses)
    documents = tuple(one.model_copy(update={"task": name}) for one in measurement.documents)
    return measurement.model_copy(update={"tasks": tasks, "rows": rows, "responses": responses, "documents": documents})


def merged(*measurements: AccuracyMeasurement) -> AccuracyMeasurement:
    """Several tasks of one arm."""
    fields = ("tasks", "rows", "responses", "documents")
    values = {name: tuple(item for one in measurements for item in getattr(one, name)) for name in fields}
    return measurements[0].model_copy(update=values)
