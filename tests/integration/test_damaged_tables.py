"""Tables that somebody cut, copied or edited by hand: one typed error, or a check that is no PASS; never a traceback.

Each check's own example (identical arms, which pass) is written into a run directory, damaged without its seals, and judged
again. Rows that are missing from both arms pair perfectly, so only the plan and the inputs can tell.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from servegate import pipeline
from servegate.artifacts import RunDirectory
from servegate.checks import discovered
from servegate.domain.judgement import Outcome
from servegate.domain.plan import Step
from servegate.errors import ServegateError
from tests.unit.checks.examples import EXAMPLES
from tests.unit.samples import manifest

ARMS = ("baseline", "candidate")
MEASURED = sorted(name for name, check in discovered().items() if check.measurement is not None)
STEPS = dict.fromkeys(MEASURED, 2)
VALUES: tuple[Any, ...] = (None, "", "x", -1, 0, 10**12, 1.5, True, [], {}, [None], "\ud800")


def write(root: Path, name: str) -> Path:
    """Write the check's example as both arms of a run whose plan holds its steps."""
    example = EXAMPLES[name]()
    schedule = tuple(Step(session=0, arm=arm, check=name, step=step) for arm in ARMS for step in range(STEPS[name]))
    plan = example.plan.model_copy(update={"checks": {name: example.settings.to_json()}, "schedule": schedule, "rounds": 2})
    run = RunDirectory.create(root)
    run.write_plan(plan)
    if example.inputs is not None:
        run.write_inputs(plan, name, example.inputs)
    for arm in ARMS:
        run.write_engine(plan, arm, example.facts(arm))
        run.write_manifest(plan, arm, manifest())
        run.write_measurement(plan, arm, name, example.measurement, 1.0)
    run.write_run("complete", {"stages": []}, gate=plan.gate, plan=plan.fingerprint())
    return root


class Table:
    """One check's run directory, whose files a test damages; `restore` puts everything back."""

    def __init__(self, root: Path, name: str) -> None:
        self.root, self.name = write(root, name), name
        self.files = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}

    def restore(self) -> None:
        for path, content in self.files.items():
            path.write_bytes(content)
        (self.root / "checksums.sha256").unlink(missing_ok=True)

    def edit(self, change: Callable[[dict[str, Any]], None], arms: tuple[str, ...] = ARMS) -> None:
        """Change the stored data of the arms."""
        for arm in arms:
            path = self.root / "arms" / arm / f"{self.name}.json"
            document = json.loads(path.read_text())
            change(document["data"])
            path.write_text(json.dumps(document))

    def columns(self, change: Callable[[dict[str, Any]], dict[str, Any]], arms: tuple[str, ...] = ARMS) -> None:
        """Change the stored columns of the arms, with a hash that fits."""
        for arm in arms:
            path = self.root / "arms" / arm / f"{self.name}.npz"
            with np.load(path) as archive:
                held = {key: archive[key] for key in archive.files}
            with path.open("wb") as stream:
                np.savez(stream, **change(held))
            document = json.loads(path.with_suffix(".json").read_text())
            document["columns"]["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
            document["columns"]["bytes"] = path.stat().st_size
            path.with_suffix(".json").write_text(json.dumps(document))

    def outcome(self) -> Outcome | None:
        """Return the check's outcome; None for a typed error. Anything else that is raised fails the test."""
        try:
            run = RunDirectory.open(self.root)
            verdict = pipeline.compare(run)
        except ServegateError:
            return None
        told = any(one.code == f"{self.name}/planned-missing" for one in verdict.findings)
        if told and not verdict.checks[self.name].required:
            return Outcome.REVIEW  # a check that only informs says so, and its outcome counts for nothing
        return verdict.checks[self.name].outcome


@pytest.fixture(scope="module", params=MEASURED)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    made = Table(tmp_path_factory.mktemp("runs") / "run", request.param)
    assert made.outcome() is Outcome.PASS, "the example passes, or a damaged one that does not shows nothing"
    return made


def lists_of(data: dict[str, Any]) -> list[str]:
    """Return the names of the sample tables."""
    return sorted(key for key, value in data.items() if isinstance(value, list) and value and isinstance(value[0], dict))


def stored(table: Table) -> dict[str, Any]:
    data = json.loads(table.files[table.root / "arms" / "baseline" / f"{table.name}.json"])["data"]
    assert isinstance(data, dict)
    return data


# Not shrunk: an example is a run that is compared and reported, and the table, column and value are the whole story.
phases = (Phase.explicit, Phase.reuse, Phase.generate)
fuzz = settings(max_examples=8, deadline=None, phases=phases, suppress_health_check=list(HealthCheck))


@fuzz
@given(data=st.data())
def test_rows_removed_from_both_arms_never_pass(table: Table, data: st.DataObject) -> None:
    table.restore()
    # What a table of a person's interest alone holds (documents, passes) is judged by nothing.
    names = [name for name in lists_of(stored(table)) if name not in ("documents", "passes")]
    name = data.draw(st.sampled_from(names))
    rows = len(stored(table)[name])
    gone = data.draw(st.sets(st.integers(0, rows - 1), min_size=1, max_size=min(rows, 20)))
    table.edit(lambda held: held.update({name: [row for place, row in enumerate(held[name]) if place not in gone]}))
    assert table.outcome() is not Outcome.PASS


def test_a_whole_round_removed_from_both_arms_never_passes(table: Table) -> None:
    for step in range(STEPS[table.name]):
        table.restore()

        def without(held: dict[str, Any], step: int = step) -> None:
            for name in lists_of(held):
                held[name] = [row for row in held[name] if row.get("round", row.get("block")) != step]

        table.edit(without)
        assert table.outcome() is not Outcome.PASS


@fuzz
@given(data=st.data())
def test_values_of_another_type_are_an_error_or_judged_and_never_a_traceback(table: Table, data: st.DataObject) -> None:
    table.restore()
    held = stored(table)
    name = data.draw(st.sampled_from([*lists_of(held), ""]))
    value = copy.deepcopy(data.draw(st.sampled_from(VALUES)))
    place = data.draw(st.integers(0, len(held[name]) - 1)) if name else 0
    key = data.draw(st.sampled_from(sorted(held[name][place]) if name else sorted(held)))
    drop = data.draw(st.booleans())
    arms = data.draw(st.sampled_from((("baseline",), ("candidate",), ARMS)))

    def change(whole: dict[str, Any]) -> None:
        target = whole[name][place] if name else whole
        if drop:
            del target[key]
        else:
            target[key] = value

    table.edit(change, arms)
    table.outcome()


@fuzz
@given(data=st.data())
def test_columns_of_another_shape_or_type_are_an_error_or_no_pass(table: Table, data: st.DataObject) -> None:
    if not list(table.root.glob("arms/*/*.npz")):
        pytest.skip("this check stores no columns")
    table.restore()
    with np.load(table.root / "arms" / "baseline" / f"{table.name}.npz") as archive:
        name = data.draw(st.sampled_from(sorted(archive.files)))
        if not archive[name].size:
            pytest.skip("the example has no rows of columns")
    damage: dict[str, Callable[[Any], Any]] = {
        "absent": lambda _column: None,
        "text": lambda column: column.astype("<U12"),
        "bool": lambda column: column.astype(bool),
        "complex": lambda column: column.astype(complex),
        "shorter": lambda column: column[:-1],
        "another axis": lambda column: column[..., None],
        "flat": lambda column: column.reshape(-1)[: len(column)] if column.ndim > 1 else column[:, None],
        "scalar": lambda column: column.reshape(-1)[0],
    }
    kind = data.draw(st.sampled_from(sorted(damage)))

    def change(held: dict[str, Any]) -> dict[str, Any]:
        held[name] = damage[kind](held[name])
        return {key: column for key, column in held.items() if column is not None}

    table.columns(change, data.draw(st.sampled_from((("candidate",), ARMS))))
    assert table.outcome() is not Outcome.PASS
