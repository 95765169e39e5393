"""The run directory keeps what it is given, refuses what it cannot trust, and never shows half a file."""

from __future__ import annotations

import errno
import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servegate.artifacts import RunDirectory, boot_id, dump, load
from servegate.domain.evidence import Measurement, NotMeasured, Reason
from servegate.domain.judgement import Comparison
from servegate.domain.plan import fingerprint_of
from servegate.domain.records import Json, Record
from servegate.errors import RunDirectoryError, StorageError
from tests.unit.samples import engine_facts, plan

TEXTS = st.text(st.characters(exclude_categories=())) | st.sampled_from(("\ud83d", '"\\u', "\x00\u2028", "</script>"))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner),
    max_leaves=20,
)


class Answer(Record):
    text: str
    first_row: int | None = None


class Answers(Measurement):
    SAMPLES = ("answers",)
    cap: int
    answers: tuple[Answer, ...]


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run")


def answers(text: str = "a", rows: int = 2) -> Answers:
    return Answers(cap=1, answers=(Answer(text=text, first_row=0),), columns={"token_id": np.arange(rows, dtype="<i4")})


def test_a_measurement_comes_back_with_its_columns(run: RunDirectory) -> None:
    run.write_measurement(plan(), "baseline", "prompts", answers("x\ud800\u2028<b>"), 1.5)
    back = run.read_measurement("baseline", "prompts", Answers)
    assert isinstance(back, Answers)
    assert back.answers[0].text == "x\ud800\u2028<b>"
    assert back.columns["token_id"].tolist() == [0, 1]
    assert back.partial is None


def test_json_is_ascii_sorted_and_ends_with_one_newline(run: RunDirectory) -> None:
    run.write_measurement(plan(), "baseline", "prompts", answers("é"), 1.5)
    raw = (run.root / "arms/baseline/prompts.json").read_bytes()
    assert raw.isascii()
    assert raw.endswith(b"}\n")
    assert list(json.loads(raw)) == sorted(json.loads(raw))


@given(JSON_VALUES)
def test_json_has_the_bytes_of_the_standard_library(value: Json) -> None:
    """Lone surrogates are among the texts: they take another way to the same bytes."""
    assert dump(value) == (json.dumps(value, ensure_ascii=True, sort_keys=True, allow_nan=False, indent=1) + "\n").encode()


def test_json_that_nests_deeply_has_the_same_bytes() -> None:
    value: Json = [{}, [], ""]
    for _ in range(400):
        value = {"a": [value]}
    assert dump(value) == (json.dumps(value, indent=1) + "\n").encode()


def test_a_partial_measurement_keeps_its_reason(run: RunDirectory) -> None:
    reason = Reason(code="engine_failed", message="died")
    run.write_measurement(plan(), "baseline", "prompts", answers().model_copy(update={"partial": reason}), 1)
    back = run.read_measurement("baseline", "prompts", Answers)
    assert isinstance(back, Answers)
    assert back.partial == reason


def test_what_was_not_measured_has_a_reason_and_so_has_what_is_absent(run: RunDirectory) -> None:
    reason = Reason(code="x", message="why")
    run.write_measurement(plan(), "baseline", "prompts", NotMeasured(reason=reason), 0)
    assert run.read_measurement("baseline", "prompts", Answers) == NotMeasured(reason=reason)
    absent = run.read_measurement("candidate", "prompts", Answers)
    assert isinstance(absent, NotMeasured)
    assert absent.reason.code == "absent"


def test_joining_steps_shifts_rows(run: RunDirectory) -> None:
    joined = answers("a", 2).joined(answers("b", 3)).joined(answers("c", 1))
    assert [answer.first_row for answer in joined.answers] == [0, 2, 5]
    assert len(joined.columns["token_id"]) == 6


def test_joining_steps_of_different_workloads_is_refused() -> None:
    with pytest.raises(ValueError, match="cap"):
        answers().joined(answers().model_copy(update={"cap": 2}))


def test_changed_columns_are_noticed(run: RunDirectory) -> None:
    run.write_measurement(plan(), "baseline", "prompts", answers(), 1)
    path = run.root / "arms/baseline/prompts.npz"
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(RunDirectoryError, match="changed after it was measured"):
        run.read_measurement("baseline", "prompts", Answers)


def test_missing_columns_are_noticed(run: RunDirectory) -> None:
    run.write_measurement(plan(), "baseline", "prompts", answers(), 1)
    (run.root / "arms/baseline/prompts.npz").unlink()
    with pytest.raises(RunDirectoryError, match="missing"):
        run.read_measurement("baseline", "prompts", Answers)


@pytest.mark.parametrize("name", ["../../../etc/passwd", "/etc/passwd", "x.npz/..", "", 3])
def test_a_column_file_elsewhere_is_refused(run: RunDirectory, name: object) -> None:
    run.write_measurement(plan(), "baseline", "prompts", answers(), 1)
    path = run.root / "arms/baseline/prompts.json"
    document = json.loads(path.read_text())
    document["columns"]["file"] = name
    path.write_text(json.dumps(document))
    with pytest.raises(RunDirectoryError, match="no readable column file"):
        run.read_measurement("baseline", "prompts", Answers)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' is repeated"),
        ('{"a": NaN}', "NaN"),
        ('{"a": -Infinity}', "-Infinity"),
        ('{"a": 1e400}', "out of range"),
        ("{", "strict JSON"),
        ("[" * 100_000, "strict JSON"),
        ("\xff", "strict JSON"),
    ],
)
def test_json_that_is_not_strict_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(RunDirectoryError, match=message):
        load(path)


def test_nan_is_never_written() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        dump({"a": float("nan")})


def test_a_newer_schema_is_refused_with_the_version_that_wrote_it(run: RunDirectory) -> None:
    run.write_plan(plan())
    path = run.root / "plan.json"
    document = json.loads(path.read_text())
    path.write_text(json.dumps({**document, "schema_version": 2, "servegate": "9.9"}))
    with pytest.raises(RunDirectoryError, match="schema version 2") as caught:
        run.read_plan()
    assert "9.9" in caught.value.advice


def test_a_file_of_another_kind_is_refused(run: RunDirectory) -> None:
    run.write_plan(plan())
    (run.root / "verdict.json").write_bytes((run.root / "plan.json").read_bytes())
    with pytest.raises(RunDirectoryError, match="kind 'plan'"):
        run.read_verdict()


def test_unknown_fields_are_ignored_so_that_newer_optional_ones_can_be_read(run: RunDirectory) -> None:
    run.write_plan(plan())
    path = run.root / "plan.json"
    document = json.loads(path.read_text())
    document["data"]["later"] = 1
    path.write_text(json.dumps({**document, "plan": fingerprint_of(document["data"])}))
    assert run.read_plan() == plan()


def test_engine_facts_come_back(run: RunDirectory) -> None:
    run.write_engine(plan(), "candidate", engine_facts("candidate"))
    assert run.read_engine("candidate") == engine_facts("candidate")
    assert run.read_engine("baseline") is None


def test_comparisons_come_back(run: RunDirectory) -> None:
    made = Comparison(candidate={"identical": 3}, noise=None, noise_reason="one round", n=3)
    run.write_comparison(plan(), "prompts", made)
    assert run.read_comparison("prompts") == made


@pytest.mark.parametrize(
    ("pid", "boot", "status"), [(1, "same", "running"), (2**22 + 5, "same", "interrupted"), (1, "another", "interrupted")]
)
def test_a_run_whose_process_is_gone_reads_as_interrupted(run: RunDirectory, pid: int, boot: str, status: str) -> None:
    data = {"pid": pid, "host_boot_id": boot_id() if boot == "same" else boot}
    run.write_run("running", data, gate="g", plan=None)
    assert run.read_run().status == status


def test_a_directory_that_holds_something_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    with pytest.raises(RunDirectoryError, match="already holds files"):
        RunDirectory.create(tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "x"


def test_something_else_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="not a run directory"):
        RunDirectory.open(tmp_path)


def test_verify_names_what_changed(run: RunDirectory) -> None:
    run.write_plan(plan())
    run.write_products({"report.html": b"x", "tables/a.csv": b"y"})
    run.write_checksums()
    assert run.verify() == ()
    (run.root / "report/report.html").write_bytes(b"z")
    (run.root / "report/tables/a.csv").unlink()
    (run.root / "new").write_text("n")
    assert run.verify() == ("new: added", "report/report.html: changed", "report/tables/a.csv: missing")


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x"])
def test_products_stay_inside(run: RunDirectory, name: str) -> None:
    with pytest.raises(ValueError, match="may not leave"):
        run.write_products({name: b""})


@pytest.mark.parametrize("name", ["../evil", "candidate.", "candidate.UP", "third", "candidate/../x"])
def test_arm_names_are_never_user_text(run: RunDirectory, name: str) -> None:
    with pytest.raises(ValueError, match="not the name of an arm"):
        run.server_log(name)


# -- what a stranger may put into one -------------------------------------------------------------------------------


def test_links_pipes_and_hidden_checksums_are_told_and_never_read(run: RunDirectory, tmp_path: Path) -> None:
    run.write_run("complete", {}, gate="g", plan=None)
    run.write_checksums()
    secret = tmp_path / "secret"
    secret.write_text("canary")
    (run.root / "arms").mkdir(exist_ok=True)
    (run.root / "arms/link.json").symlink_to(secret)
    (run.root / "arms/folder").symlink_to(tmp_path)
    os.mkfifo(run.root / "arms/pipe")
    (run.root / "arms/checksums.sha256").write_text("an unlisted file of the same name")
    assert run.verify() == (
        "arms/folder: a link",
        "arms/link.json: a link",
        "arms/pipe: a named pipe",
        "arms/checksums.sha256: added",
    )
    with pytest.raises(RunDirectoryError, match="files of evidence"):
        run.ensure_untouched()
    with pytest.raises(RunDirectoryError, match=r"holds a (link|named pipe)"):
        RunDirectory.open(run.root)


def test_a_directory_of_endless_files_is_not_opened(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    run.write_run("complete", {}, gate="g", plan=None)
    monkeypatch.setattr("servegate.artifacts.intake.MOST_FILES", 3)
    for number in range(4):
        (run.root / f"{number}").write_text("x")
    with pytest.raises(RunDirectoryError, match="more than 3 files"):
        RunDirectory.open(run.root)


@pytest.mark.parametrize("version", [True, "1", 1.5, None, 2])
def test_a_schema_version_is_the_number_one(run: RunDirectory, version: object) -> None:
    run.write_run("complete", {}, gate="g", plan=None)
    path = run.root / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": version}))
    with pytest.raises(RunDirectoryError, match="schema version"):
        run.read_run()


def test_a_full_disk_is_one_clear_error_and_leaves_the_old_file(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    run.write_run("running", {}, gate="g", plan=None)
    before = (run.root / "run.json").read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("servegate.artifacts.durable.os.fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        run.write_run("complete", {}, gate="g", plan=None)
    assert (run.root / "run.json").read_bytes() == before
    assert [path.name for path in run.root.iterdir()] == ["run.json"]


@pytest.mark.parametrize("settled_ns", [0, 1 << 60])
def test_a_file_that_changes_while_it_is_judged_gets_another_digest(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, settled_ns: int
) -> None:
    monkeypatch.setattr("servegate.artifacts.run_directory.SETTLED_NS", settled_ns)
    run.write_measurement(plan(), "baseline", "prompts", answers("a"), 1.5)
    path = run.root / "arms/baseline/prompts.json"
    os.utime(path, ns=(10**18, 10**18))
    run.write_checksums()
    run.ensure_untouched()
    time.sleep(0.05)  # longer than a tick of the kernel's clock
    path.write_bytes(path.read_bytes().replace(b'"a"', b'"b"'))
    with pytest.raises(RunDirectoryError, match="not what was measured"):
        run.ensure_untouched()


def test_a_digest_is_computed_once_for_a_file_that_stays(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servegate.artifacts.run_directory.SETTLED_NS", 0)
    run.write_measurement(plan(), "baseline", "prompts", answers("a"), 1.5)
    run.write_checksums()
    monkeypatch.setattr("servegate.artifacts.run_directory.sha256_of_file", lambda _: pytest.fail("hashed again"))
    run.ensure_untouched()
