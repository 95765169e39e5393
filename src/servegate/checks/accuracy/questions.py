"""Reads a local task file: strict JSON in, checked rows out, or one error that names the file and the row."""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from typing import Any, NoReturn

from servegate.checks.accuracy.record import AccuracyInputs, TaskInput
from servegate.checks.accuracy.settings import AccuracySettings, Task
from servegate.checks.contract import ReadFile
from servegate.domain.strict_json import parse_json
from servegate.errors import UsageError
from servegate.text.utf8 import decoded

FORM = 'A task file is {"fewshot": [{"question": "...", "answer": "... #### N"}, ...], "test": [...]}.'
PARTS = ("fewshot", "test")
FIELDS = ("question", "answer")
FINAL_LINE = re.compile(r"#### \S")


def load(settings: AccuracySettings, read_file: ReadFile) -> AccuracyInputs:
    """Read every local task file. Raises UsageError with the file and the row that is wrong."""
    return AccuracyInputs(tasks=tuple(_task(task, task.file, read_file) for task in settings.tasks if task.file is not None))


def _task(task: Task, file: str, read_file: ReadFile) -> TaskInput:
    data = _parsed(read_file(file), file)
    if not isinstance(data, dict):
        _wrong(file, f"holds {_kind(data)}, not an object")
    for key in data:
        if key not in PARTS:
            near = get_close_matches(key, PARTS, n=1)
            _wrong(file, f"unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    rows = {part: _rows(data.get(part, []), file, part) for part in PARTS}
    questions = rows["test"]
    if not questions:
        _wrong(file, "`test` holds no question")
    if len(rows["fewshot"]) < task.shots:
        _wrong(file, f"`fewshot` holds {len(rows['fewshot'])} rows, but the task asks for {task.shots} shots")
    _unrepeated(questions, rows["fewshot"], file)
    if task.questions != "all" and task.questions > len(questions):
        _wrong(file, f"`test` holds {len(questions)} questions, but the task asks for {task.questions}")
    wanted = questions if task.questions == "all" else questions[: task.questions]
    return TaskInput(task=task.name, fewshot=rows["fewshot"], questions=wanted)


def _parsed(content: bytes, file: str) -> Any:
    try:
        return parse_json(decoded(content))
    except json.JSONDecodeError as error:
        raise UsageError(f"{file}:{error.lineno}: not JSON: {error.msg} (column {error.colno})", advice=FORM) from error
    except ValueError as error:
        raise UsageError(f"{file}: not strict JSON: {error}", advice=FORM) from error


def _rows(value: Any, file: str, part: str) -> tuple[dict[str, str], ...]:
    if not isinstance(value, list):
        _wrong(file, f"`{part}` is {_kind(value)}, not a list")
    return tuple(_row(row, file, f"{part}[{index}]") for index, row in enumerate(value))


def _row(row: Any, file: str, place: str) -> dict[str, str]:
    if not isinstance(row, dict):
        _wrong(file, f"{place} is {_kind(row)}, not an object")
    for key in row:
        if key not in FIELDS:
            _wrong(file, f"{place} has an unknown key {key!r}; allowed: question, answer")
    for key in FIELDS:
        if key not in row:
            _wrong(file, f"{place} has no {key!r}")
        if not isinstance(row[key], str):
            _wrong(file, f"{place}.{key} is {_kind(row[key])}, not text")
        if not row[key].strip():
            _wrong(file, f"{place}.{key} is empty")
        if any(0xD800 <= ord(char) <= 0xDFFF for char in row[key]):
            _wrong(file, f"{place}.{key} holds half of a surrogate pair, which no tokenizer accepts")
    if not FINAL_LINE.match(row["answer"].rstrip().rsplit("\n", 1)[-1]):
        last = row["answer"].rstrip().rsplit("\n", 1)[-1]
        _wrong(file, f"{place}.answer ends with {last[-60:]!r}, not with a line `#### N` that holds the number to compare")
    return {"question": row["question"], "answer": row["answer"]}


def _unrepeated(questions: tuple[dict[str, str], ...], fewshot: tuple[dict[str, str], ...], file: str) -> None:
    seen: dict[str, str] = {row["question"].strip(): f"fewshot[{index}]" for index, row in enumerate(fewshot)}
    for index, row in enumerate(questions):
        question = row["question"].strip()
        if question in seen:
            earlier = seen[question]
            why = "a worked example would give the answer away" if earlier.startswith("fewshot") else "it would count twice"
            _wrong(file, f"test[{index}] repeats the question of {earlier}: {why}")
        seen[question] = f"test[{index}]"


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _wrong(file: str, what: str) -> NoReturn:
    raise UsageError(f"{file}: {what}", advice=FORM)
