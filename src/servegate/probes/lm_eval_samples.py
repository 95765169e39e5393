"""Reads what lm-eval left behind: one results file and one sample log of one pass.

The log has one row per document and filter, written with raw line separators inside its strings, so it is split on
line feeds and nothing else. Pairing keys of the accuracy check are lm-eval's own hashes; rows without them are refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servegate.domain.records import Json
from servegate.domain.strict_json import parse_json
from servegate.domain.workload import EvaluatedRow
from servegate.errors import MeasurementError, UsageError

MAX_FILE_BYTES = 1 << 30
PREFERRED_METRIC = "exact_match"
TRUE, FALSE = ("True", "true", "1", "1.0"), ("False", "false", "0", "0.0")
"""lm-eval stringifies numbers of types it does not know (`handle_non_serializable`)."""


@dataclass(frozen=True)
class Sample:
    """One row of the sample log, with the prompt that was sent."""

    row: EvaluatedRow
    metric: str
    prompt: str
    doc: dict[str, Json]


@dataclass(frozen=True)
class Results:
    """What the results file says about the one task of this pass."""

    task: str
    version: str
    documents: int
    lm_eval: str
    higher_is_better: dict[str, bool | None]
    """By metric; None where lm-eval does not know."""


def find_files(directory: Path) -> tuple[Path, Path]:
    """Return the results file and the sample log of a pass. Raises ValueError unless there is exactly one of each."""
    found = []
    for pattern in ("results_*.json", "samples_*.jsonl"):
        paths = sorted(directory.rglob(pattern))
        if len(paths) != 1:
            names = ", ".join(path.name for path in paths[:5]) or "none"
            raise ValueError(f"expected exactly one {pattern}, found {len(paths)} ({names})")
        found.append(paths[0])
    return found[0], found[1]


def read_results(path: Path) -> Results:
    """Read the results file. Raises ValueError when it does not describe exactly one task."""
    document = parse_json(_bytes(path))
    tasks = document.get("n-samples") if isinstance(document, dict) else None
    if not isinstance(tasks, dict) or len(tasks) != 1:
        names = ", ".join(sorted(tasks)[:5]) if isinstance(tasks, dict) else "none"
        raise ValueError(f"{path.name} describes {len(tasks or ())} tasks ({names}), not one; name a task, not a group")
    name, counts = next(iter(tasks.items()))
    documents = counts.get("effective") if isinstance(counts, dict) else None
    if type(documents) is not int or documents < 1:
        raise ValueError(f"{path.name}: number of documents is {documents!r}")
    versions = document.get("versions")
    version = versions.get(name) if isinstance(versions, dict) else None
    higher = document.get("higher_is_better")
    directions = higher.get(name) if isinstance(higher, dict) else None
    known = {
        str(metric): value if isinstance(value, bool) else None
        for metric, value in (directions if isinstance(directions, dict) else {}).items()
    }
    return Results(str(name), str(version), documents, str(document.get("lm_eval_version")), known)


def read_samples(path: Path, metric: str | None = None) -> tuple[list[Sample], list[str]]:
    """Return one sample per document and filter, in the file's order, and warnings; `metric` names the one to read.

    Raises:
        ValueError: a row is no strict JSON, lacks something, has no finite score, or contradicts another row.
    """
    samples: dict[tuple[int, str], Sample] = {}
    repeated = 0
    for number, line in enumerate(_bytes(path).split(b"\n"), start=1):
        if not line:
            continue
        try:
            sample = _sample(parse_json(line), metric)
        except ValueError as error:
            raise ValueError(f"{path.name} line {number}: {error}") from error
        key = (sample.row.doc_id, sample.row.filter)
        if key in samples:
            if samples[key] != sample:
                raise ValueError(f"{path.name} line {number}: document {key[0]} under {key[1]!r} contradicts an earlier row")
            repeated += 1
        samples[key] = sample
    if not samples:
        raise ValueError(f"{path.name} holds no rows")
    return list(samples.values()), [f"{repeated} rows of the sample log came twice and agreed"] if repeated else []


def check_complete(samples: list[Sample], documents: int) -> tuple[str, tuple[str, ...]]:
    """Return the metric and the filters. Raises ValueError unless every document has one row under every filter."""
    metrics = sorted({sample.metric for sample in samples})
    if len(metrics) != 1:
        raise ValueError(f"rows are scored by different metrics: {', '.join(metrics)}")
    filters = tuple(dict.fromkeys(sample.row.filter for sample in samples))
    for name in filters:
        ids = {sample.row.doc_id for sample in samples if sample.row.filter == name}
        if len(ids) != documents:
            raise ValueError(f"{len(ids)} of {documents} documents have a row under filter {name!r}")
    return metrics[0], filters


def check_known(samples: list[Sample], known: Mapping[str, str | None], null_answer: str) -> None:
    """Raise ValueError when an answer that lm-eval was given came back as another; `null_answer` stands for None."""
    for sample in samples:
        given = known.get(sample.row.prompt_hash, sample.row.response)
        if sample.row.response != (null_answer if given is None else given):
            raise ValueError(f"the known answer to question {sample.row.doc_id} came back changed")


def check_judgeable(
    task: str,
    samples: list[Sample],
    metric: str,
    directions: dict[str, bool | None],
    error_type: Callable[..., UsageError | MeasurementError],
) -> None:
    """Raise `error_type` for a metric of which less is better or whose scores are no shares: its drop is no loss in points."""
    low, high = min(sample.row.score for sample in samples), max(sample.row.score for sample in samples)
    if directions.get(metric) is False:
        problem = "is better when it is lower (so lm-eval says), and a loss would look like a gain"
    elif low < 0 or high > 1:
        problem = f"scores from {low:g} to {high:g}, and limits in points mean shares from 0 (wrong) to 1 (right)"
    else:
        return
    others = ", ".join(name for name, better in directions.items() if better and name != metric)
    raise error_type(
        f"task {task}: metric {metric!r} can not be judged: it {problem}",
        advice="Set `metric` of the task to one that scores 0 to 1, more being better. The task also has: "
        f"{others or 'no other'}.",
    )


def _sample(document: Json, wanted: str | None) -> Sample:
    if not isinstance(document, dict):
        raise ValueError("the row is no JSON object")
    doc_id = document.get("doc_id")
    if type(doc_id) is not int or doc_id < 0:
        raise ValueError(f"doc_id is {doc_id!r}")
    metric = _metric(document.get("metrics"), wanted)
    doc = document.get("doc")
    prompt = _prompt(document.get("arguments"))
    doc = doc if isinstance(doc, dict) else {}
    row = EvaluatedRow(
        doc_id=doc_id,
        filter=_text(document, "filter"),
        doc_hash=_text(document, "doc_hash"),
        target_hash=_text(document, "target_hash"),
        prompt_hash=_text(document, "prompt_hash"),
        question=doc["question"] if isinstance(doc.get("question"), str) else prompt,
        target=str(document.get("target")),
        response=_response(document.get("resps")),
        extracted=_extracted(document.get("filtered_resps")),
        score=_score(document.get(metric), metric),
    )
    return Sample(row, metric, prompt, doc)


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} is {value!r}; rows can only be paired with it (lm-eval 0.4.13 writes it)")
    return value


def _metric(names: Json, wanted: str | None) -> str:
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"metrics is {names!r}")
    if wanted is not None:
        if wanted not in names:
            raise ValueError(f"there is no metric {wanted!r}; the task has {', '.join(names)}")
        return wanted
    return PREFERRED_METRIC if PREFERRED_METRIC in names else str(names[0])


def _prompt(arguments: Json) -> str:
    first = arguments.get("gen_args_0") if isinstance(arguments, dict) else None
    prompt = first.get("arg_0") if isinstance(first, dict) else None
    if not isinstance(prompt, str) or len(arguments) != 1:
        raise ValueError("the row does not hold exactly one prompt; only tasks that generate an answer are supported")
    return prompt


def _response(resps: Json) -> str:
    if not (isinstance(resps, list) and len(resps) == 1 and isinstance(resps[0], list) and len(resps[0]) == 1):
        raise ValueError("resps does not hold exactly one response; tasks with repeats are not supported")
    if not isinstance(resps[0][0], str):
        raise ValueError(f"the response is {resps[0][0]!r}, not a text")
    return resps[0][0]


def _extracted(filtered: Json) -> str:
    if not isinstance(filtered, list) or len(filtered) != 1 or not isinstance(filtered[0], str):
        raise ValueError("filtered_resps does not hold exactly one text")
    return filtered[0]


def _score(value: Json, metric: str) -> float:
    if isinstance(value, str):
        value = 1.0 if value in TRUE else 0.0 if value in FALSE else value
    if not isinstance(value, bool | int | float) or not math.isfinite(value):
        raise ValueError(f"{metric} is {value!r}, which is no score")
    return float(value)


def _bytes(path: Path) -> bytes:
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ValueError(f"{path.name} is larger than {MAX_FILE_BYTES} bytes and was not read")
    return path.read_bytes()
