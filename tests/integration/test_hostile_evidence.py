"""Evidence that was changed and sealed anew, by an attacker or a bug: one typed error or no better verdict, never a traceback.

A checksum proves that a file is as it was written, and nothing about what was written. So every number of a record has a range,
every record of one thing is the only one, and what no plan asked for is told.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from servegate import pipeline
from servegate.artifacts import RunDirectory
from servegate.cli import _code
from servegate.domain.judgement import Outcome
from servegate.domain.plan import fingerprint_of
from servegate.errors import RunDirectoryError, ServegateError
from tests.integration.test_damaged_tables import ARMS, Table
from tests.integration.test_recorded_run import ON_A_CARD, RECORDED

Change = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Table]:
    """Each check's example as a run, made once."""
    made: dict[str, Table] = {}

    def of(name: str) -> Table:
        if name not in made:
            made[name] = Table(tmp_path_factory.mktemp(name) / "run", name)
        made[name].restore()
        return made[name]

    return of


def sealed(table: Table) -> RunDirectory:
    run = RunDirectory.open(table.root)
    run.write_checksums()
    return run


def put(rows: str, place: int, field: str, value: Any) -> Change:
    def change(data: dict[str, Any]) -> None:
        target = data[rows][place]
        *inner, last = field.split(".")
        for name in inner:
            target = target[name]
        target[last] = value

    return change


@pytest.mark.parametrize(
    ("check", "rows", "field", "value", "said"),
    [
        ("accuracy", "responses", "asked", 0, "responses[3].asked is 0: it must be greater than or equal to 1"),
        ("accuracy", "rows", "score", "1", "rows[3].score is '1': it must be a valid number"),
        ("accuracy", "rows", "score", "NaN", "rows[3].score is 'NaN'"),
        ("accuracy", "rows", "score", 1e308, "rows[3].score is 1e+308: it must be less than or equal to 1000000000000"),
        ("accuracy", "rows", "score", 10**400, "rows[3].score is 1000"),
        ("accuracy", "rows", "doc_id", -1, "rows[3].doc_id is -1"),
        ("accuracy", "rows", "round", True, "rows[3].round is True"),
        ("accuracy", "responses", "asked", 1.0, "responses[3].asked is 1.0: it must be a valid integer"),
        ("throughput", "points", "energy_joules", 1e308, "points[3].energy_joules is 1e+308"),
        ("throughput", "points", "duration_s", 1e308, "points[3].duration_s is 1e+308"),
        ("throughput", "points", "output_tokens_per_second", 1e-300, "points[3].output_tokens_per_second is 1e-300"),
        ("throughput", "points", "ttft_ms", {"p50": 1e308}, "points[3].ttft_ms.p50 is 1e+308"),
        ("throughput", "points", "completed", -1, "points[3].completed is -1"),
        ("throughput", "points", "requests", 0, "points[3].requests is 0"),
        ("prompts", "answers", "ttft_ms", 1e308, "answers[3].ttft_ms is 1e+308"),
        ("prompts", "answers", "completion_tokens", -5, "answers[3].completion_tokens is -5"),
        ("prompts", "answers", "cosine", 7.0, "answers[3].cosine is 7.0"),
        ("prompts", "answers", "rows", 1e308, "answers[3].rows is 1e+308"),
        ("retrieval", "answers", "completion_tokens", 10**30, "answers[3].completion_tokens is 1000"),
        ("logprobs", "windows", "missing", -1, "windows[3].missing is -1"),
        ("logprobs", "windows", "clamped", "0", "windows[3].clamped is '0'"),
    ],
)
def test_a_number_out_of_range_is_one_error_with_row_field_value_and_range(
    tables: Callable[[str], Table], check: str, rows: str, field: str, value: Any, said: str
) -> None:
    table = tables(check)
    table.edit(put(rows, 3, field, value), ("candidate",))
    with pytest.raises(RunDirectoryError) as caught:
        pipeline.compare(sealed(table))
    assert caught.value.what.startswith(f"arms/candidate/{check}.json does not hold what it should: {said}")
    assert "\n" not in caught.value.what
    assert caught.value.exit_code == 2


def test_the_command_line_says_it_in_one_line_and_with_the_documented_code(
    tables: Callable[[str], Table], capsys: pytest.CaptureFixture[str]
) -> None:
    table = tables("throughput")
    pipeline.compare(sealed(table))
    table.edit(put("points", 0, "energy_joules", 1e308))
    sealed(table)
    for verb in ("compare", "report"):
        assert _code([verb, str(table.root)]) == 2
        said = capsys.readouterr()
        assert "points[0].energy_joules is 1e+308" in " ".join(said.err.split())
        assert "Traceback" not in said.out + said.err


@pytest.mark.parametrize(
    ("check", "rows", "what"),
    [
        ("accuracy", "responses", "two answers to"),
        ("accuracy", "tasks", "two records of the task"),
        ("throughput", "points", "two windows"),
        ("prompts", "answers", "two answers of prompt and round"),
        ("prompts", "rounds", "two records of round"),
        ("retrieval", "answers", "two answers of prompt and round"),
        ("logprobs", "windows", "two records of window and round"),
    ],
)
def test_two_records_of_one_thing_are_an_error_and_not_the_last_of_them(
    tables: Callable[[str], Table], check: str, rows: str, what: str
) -> None:
    table = tables(check)
    table.edit(lambda data: data[rows].append(dict(data[rows][0])))
    with pytest.raises(RunDirectoryError, match=what):
        pipeline.compare(sealed(table))


def moved(rows: str, field: str, value: Any) -> Change:
    """Copy the first row to another place, in which nothing was planned."""

    def change(data: dict[str, Any]) -> None:
        data[rows].append({**data[rows][0], field: value})

    return change


@pytest.mark.parametrize(
    ("check", "changes", "said"),
    [
        ("accuracy", [moved("responses", "round", 9), moved("rows", "round", 9)], "1 rounds (9)"),
        ("prompts", [moved("answers", "prompt_id", "nobody")], "1 prompts (nobody)"),
        ("prompts", [moved("answers", "round", 9), moved("rounds", "round", 9)], "1 rounds (9)"),
        ("retrieval", [moved("answers", "prompt_id", "nobody")], "1 prompts (nobody)"),
        ("retrieval", [moved("answers", "round", 9), moved("rounds", "round", 9)], "1 rounds (9)"),
        ("logprobs", [moved("windows", "window_id", "nobody")], "1 windows (nobody)"),
        ("logprobs", [moved("windows", "round", 9)], "1 rounds (9)"),
        ("throughput", [moved("points", "block", 9)], "1 windows of load (1/9)"),
    ],
)
def test_what_no_plan_asked_for_is_told_although_both_arms_hold_it(
    tables: Callable[[str], Table], check: str, changes: list[Change], said: str
) -> None:
    table = tables(check)
    for change in changes:
        table.edit(change)
    verdict = pipeline.compare(sealed(table))
    told = [item.message for item in verdict.findings if item.code == f"{check}/not-planned"]
    assert len(told) == 2, [item.code for item in verdict.findings]
    assert all(said in message for message in told)
    assert verdict.outcome is not Outcome.PASS


@pytest.mark.parametrize("value", [1e308, np.inf, -np.inf, 5.0, -1e30])
def test_a_column_has_a_range_too(tables: Callable[[str], Table], value: float) -> None:
    table = tables("logprobs")

    def change(held: dict[str, Any]) -> dict[str, Any]:
        held["logprob"] = held["logprob"].astype("f8")
        held["logprob"][1] = value
        return held

    table.columns(change)
    with pytest.raises(RunDirectoryError, match="row 1 of the column 'logprob' is"):
        pipeline.compare(sealed(table))


def test_an_archive_of_columns_that_unpacks_without_end_is_not_read(
    tables: Callable[[str], Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tables("prompts")
    monkeypatch.setattr("servegate.artifacts.durable.MAX_COLUMN_BYTES", 100)
    with pytest.raises(RunDirectoryError, match="larger than 100 bytes"):
        pipeline.compare(sealed(table))
    monkeypatch.undo()
    path = table.root / "arms/candidate/prompts.npz"
    np.savez_compressed(path, token_id=np.zeros(1 << 20, dtype="i8"))
    monkeypatch.setattr("servegate.artifacts.durable.MAX_COLUMN_BYTES", 1 << 16)
    table.columns(lambda held: held, ())
    document = json.loads(path.with_suffix(".json").read_text())
    from servegate.artifacts.durable import sha256_of_file

    document["columns"]["sha256"] = sha256_of_file(path)
    path.with_suffix(".json").write_text(json.dumps(document))
    with pytest.raises(RunDirectoryError, match="once unpacked"):
        pipeline.compare(sealed(table))


@pytest.mark.parametrize("check", ["accuracy", "logprobs", "prompts", "retrieval", "throughput"])
@pytest.mark.parametrize("value", [{}, None, [], "x"], ids=str)
def test_a_comparison_that_the_evidence_does_not_give_is_never_shown_as_a_traceback(
    tables: Callable[[str], Table], check: str, value: Any
) -> None:
    table = tables(check)
    run = sealed(table)
    pipeline.compare(run)
    path = table.root / f"comparisons/{check}.json"
    document = json.loads(path.read_text())
    document["data"]["candidate"] = {**dict.fromkeys(document["data"]["candidate"], value)} if value is not None else {}
    path.write_text(json.dumps(document))
    run.write_checksums()
    with contextlib.suppress(RunDirectoryError):
        pipeline.report(run)


@pytest.mark.parametrize("status", ["", "on fire", "READY"])
def test_an_engine_of_no_known_status_is_an_error(tables: Callable[[str], Table], status: str) -> None:
    table = tables("prompts")
    path = table.root / "arms/candidate/engine.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "status": status}))
    with pytest.raises(RunDirectoryError, match="status"):
        pipeline.compare(sealed(table))


@pytest.mark.parametrize("stage", [{"seconds": 1e308}, {"seconds": 10**400}, {"step": -1}, {"seconds": "NaN"}])
def test_a_stage_of_the_run_has_numbers_too(tables: Callable[[str], Table], stage: Any) -> None:
    table = tables("prompts")
    path = table.root / "run.json"
    document = json.loads(path.read_text())
    document["data"]["stages"] = [stage]
    path.write_text(json.dumps(document))
    with pytest.raises(RunDirectoryError, match=r"run\.json does not hold what it should: stages\[0\]"):
        pipeline.compare(sealed(table))


ODD: tuple[Any, ...] = (
    1e308, -1e308, 5e-324, 10**400, -1, 0, 1.5, 2**63, True, None, "1", "NaN", "Infinity", "", "\ud800", [], {}, [[]],
    "x" * 100_000,
)  # fmt: skip


def scalars(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from scalars(item, (*path, key))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from scalars(item, (*path, place))
    else:
        yield path


def bind(root: Path, plan: Any) -> None:
    """Give the plan and all that was made under it the fingerprint that the changed plan has."""
    try:
        fingerprint = fingerprint_of(plan["data"])
    except (AttributeError, TypeError):  # its data is no object any more
        return
    for path in root.rglob("*.json"):
        document = json.loads(path.read_text())
        if document.get("plan"):
            path.write_text(json.dumps({**document, "plan": fingerprint}))


def test_whatever_single_value_is_changed_nothing_breaks_and_no_failed_run_passes(tmp_path: Path) -> None:
    """A fuzz: one value of a sealed run becomes an odd one, in one arm or in both; the seed is fixed.

    Both runs are no PASS, and none of them may become one. What shows as a finding or a typed error is no traceback.
    """
    dice = random.Random("hostile evidence")
    for recorded in (RECORDED, ON_A_CARD):
        root = tmp_path / recorded.name
        shutil.copytree(recorded, root, ignore=shutil.ignore_patterns("report", "comparisons", "verdict.json"))
        paths = sorted(root.rglob("*.json"))
        held = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for _ in range(30):
            path = dice.choice(paths)
            document = json.loads(held[path])
            # Rows are many and alike, so a table is picked first and then a place in it.
            places = list(scalars(document))
            kinds = sorted({tuple(part for part in each if isinstance(part, str)) for each in places})
            kind = dice.choice(kinds)
            place = dice.choice([each for each in places if tuple(part for part in each if isinstance(part, str)) == kind])
            value = dice.choice(ODD)
            twin = Path(str(path).replace("/candidate/", "/baseline/"))
            for each in {path, twin} if dice.random() < 0.5 else {path}:
                changed = json.loads(held[each])
                try:
                    target = changed
                    for part in place[:-1]:
                        target = target[part]
                    target[place[-1]] = value
                except (LookupError, TypeError):
                    continue
                each.write_text(json.dumps(changed))
                if each.name == "plan.json":
                    bind(root, changed)
            try:
                run = RunDirectory.open(root)
                run.write_checksums()
                verdict = pipeline.compare(run)
                pipeline.report(run)
                assert verdict.outcome is not Outcome.PASS, (path, place, value)
            except ServegateError:
                pass
            except Exception as error:
                raise AssertionError(f"{path}: {place} = {str(value)[:80]!r}") from error
            for each, content in held.items():
                each.write_bytes(content)
            for product in ("report", "comparisons"):
                shutil.rmtree(root / product, ignore_errors=True)
    assert ARMS == ("baseline", "candidate")
