"""Writes rows of a local file as a task that lm-eval can run, in GSM8K's form.

The task's YAML is made of our constants only; questions and answers live in JSON Lines beside it and reach the prompt as
values of a fixed template, which Jinja does not evaluate again, or as whole fields. Filters, metric and stop strings
are those of lm-eval's own `gsm8k` task (version 3.0), so that a local task reads like it.
"""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import Any

import yaml

from servegate.domain.records import Json
from servegate.domain.workload import EvaluationSpec
from servegate.errors import UsageError

TASK_NAME = "servegate_local"
"""lm-eval's name of a local task; not the user's, which could be one that lm-eval knows."""
TASK_VERSION = 1.0
UNTIL = ("Question:", "</s>", "<|im_end|>")


def check_rows(spec: EvaluationSpec) -> None:
    """Refuse rows that cannot become a task. Raises UsageError naming the row."""
    if len(spec.fewshot) < spec.shots:
        raise UsageError(
            f"task {spec.task}: {spec.shots} shots are asked for, but only {len(spec.fewshot)} examples are given",
            advice="Add rows to the file's few-shot part, or lower `shots`.",
        )
    for part, rows in (("few-shot", spec.fewshot), ("question", spec.questions)):
        for index, row in enumerate(rows):
            for name in ("question", "answer"):
                problem = _problem(row.get(name))
                if problem:
                    raise UsageError(f"task {spec.task}: {part} row {index}: {name!r} {problem}")


def _problem(text: str | None) -> str:
    if not isinstance(text, str) or not text.strip():
        return "is missing or empty"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"holds a lone surrogate at character {error.start}, which no tokenizer accepts"
    return ""


def prompt_of(spec: EvaluationSpec, question: str) -> str:
    """Return the whole prompt of one question, as lm-eval will build it from the task."""
    shots = "".join(f"Question: {row['question']}\nAnswer: {row['answer']}\n\n" for row in spec.fewshot[: spec.shots])
    return f"{shots}Question: {question}\nAnswer:"


def write_task(directory: Path, spec: EvaluationSpec) -> None:
    """Write `task.yaml` and its data into a directory, for `--include_path`."""
    directory.mkdir(parents=True, exist_ok=True)
    data = {"test": directory / "test.jsonl"}
    _write_rows(data["test"], spec.questions)
    if spec.shots:
        data["fewshot"] = directory / "fewshot.jsonl"
        _write_rows(data["fewshot"], spec.fewshot[: spec.shots])
    # datasets expands patterns in file names, so a directory such as `runs[1]` must be escaped
    files = {split: glob.escape(str(path.resolve())) for split, path in data.items()}
    text = yaml.safe_dump(_task(spec, files), sort_keys=False, allow_unicode=False)
    (directory / "task.yaml").write_text(text, encoding="ascii")


def _write_rows(path: Path, rows: tuple[dict[str, str], ...]) -> None:
    lines = (json.dumps({"question": row["question"], "answer": row["answer"]}, ensure_ascii=True) for row in rows)
    path.write_text("".join(line + "\n" for line in lines), encoding="ascii", newline="\n")


def _task(spec: EvaluationSpec, files: dict[str, str]) -> dict[str, Json]:
    task: dict[str, Any] = {
        "task": TASK_NAME,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": files},
        "output_type": "generate_until",
        "test_split": "test",
        "doc_to_text": "Question: {{question}}\nAnswer:",
        "doc_to_target": "answer",
        "target_delimiter": " ",
        "fewshot_delimiter": "\n\n",
        "num_fewshot": spec.shots,
        "repeats": 1,
        "generation_kwargs": {
            "until": list(UNTIL),
            "do_sample": False,
            "temperature": 0.0,
            "max_gen_toks": spec.max_tokens,
        },
        "metric_list": [
            {
                "metric": "exact_match",
                "aggregation": "mean",
                "higher_is_better": True,
                "ignore_case": True,
                "ignore_punctuation": False,
                "regexes_to_ignore": [",", r"\$", "(?s).*#### ", r"\.$"],
            }
        ],
        "filter_list": [
            _filter("strict-match", {"regex_pattern": r"#### (\-?[0-9\.\,]+)"}),
            _filter("flexible-extract", {"group_select": -1, "regex_pattern": "(-?[$0-9.,]{2,})|(-?[0-9]+)"}),
        ],
        "metadata": {"version": TASK_VERSION},
    }
    if spec.shots:
        task |= {"fewshot_split": "fewshot", "fewshot_config": {"sampler": "first_n", "split": "fewshot"}}
    return task


def _filter(name: str, regex: dict[str, Json]) -> dict[str, Json]:
    return {"name": name, "filter": [{"function": "regex", **regex}, {"function": "take_first"}]}
