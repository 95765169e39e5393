"""Numbers and files that people get wrong: odd values of budgets and limits, loads that cannot be, marks before a text.

Each is one clear error before anything starts: where, which key, its value, what is allowed, and what was perhaps meant.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from servegate.cli.accept import _form
from servegate.cli.clean import command as clean
from servegate.config import Overrides, Resolved, load, resolve
from servegate.config.files import read_calibration, read_ledger, read_text
from servegate.config.release import read_release_policy
from servegate.domain.calibration import ValidFor
from servegate.errors import UsageError

GATE: dict[str, Any] = {
    "version": 1,
    "gate": "demo",
    "arms": {"baseline": {"config": "old.yaml"}, "candidate": {"config": "new.yaml"}},
    "checks": {"prompts": {"file": "prompts.jsonl"}},
}
PROMPTS = '{"id": "a", "category": "math", "prompt": "1 + 1?"}\n'
TASK = json.dumps({"fewshot": [], "test": [{"question": "1 + 1?", "answer": "#### 2"}]})
CALIBRATION = json.dumps({
    "kind": "calibration", "schema_version": 1, "servegate": "0", "gate": "demo", "made_on": "2026-03-01",
    "valid_for": dict.fromkeys(ValidFor.model_fields, "x"), "restart": None, "effects": [],
    **{key: {"alarms": 0, "runs": 0, "upper": None, "reason": "none"} for key in ("false_alarms", "conditional")},
})  # fmt: skip


def gate(here: Path, place: str = "", value: Any = None) -> Resolved:
    """Plan a gate in which one setting (dotted) has a value."""
    config = json.loads(json.dumps(GATE))
    target = config
    *inner, last = place.split(".") if place else ["version"]
    for part in inner:
        target = target.setdefault(part, {})
    target[last] = value if place else 1
    (here / "old.yaml").write_text("model: org/m\nmax-model-len: 2048\n")
    (here / "new.yaml").write_text("model: org/m\nmax-model-len: 2048\nquantization: fp8\n")
    (here / "prompts.jsonl").write_text(PROMPTS)
    (here / "servegate.yaml").write_text(yaml.safe_dump(config))
    return resolve(load(here / "servegate.yaml", Overrides()))


@pytest.mark.parametrize(
    "place",
    [
        "engine.start_timeout_s", "engine.request_timeout_s", "engine.wait_minutes", "changes.budget_minutes",
        "changes.max_pairs", "rounds", "checks.prompts.max_tokens", "checks.prompts.concurrency",
        "checks.throughput.input_tokens", "checks.throughput.windows", "checks.throughput.requests_per_window",
        "checks.throughput.seed", "checks.accuracy.seed", "checks.prompts.limits.fewest_prompts",
        "checks.capacity.price_per_gpu_hour_usd",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "value", [-1, 1e18, 10**300, "soon", "10", True, [1], {"a": 1}, -0.5], ids=lambda value: str(value)[:9]
)
def test_an_odd_value_of_a_budget_or_a_limit_is_one_clear_error(tmp_path: Path, place: str, value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        gate(tmp_path, place, value)
    assert re.search(rf"servegate\.yaml:\d+: '{re.escape(place)}(\.a)?'", caught.value.what), caught.value.what
    assert len(caught.value.what) < 400
    assert "\n" not in caught.value.what


@pytest.mark.parametrize("place", ["engine.start_timeout_s", "engine.wait_minutes", "changes.budget_minutes"])
@pytest.mark.parametrize("value", [".nan", ".inf", "-.inf"])
def test_what_is_no_number_is_refused_where_it_stands(tmp_path: Path, place: str, value: str) -> None:
    gate(tmp_path)
    path = tmp_path / "servegate.yaml"
    part, name = place.split(".")
    path.write_text(path.read_text() + f"{part}:\n  {name}: {value}\n")
    with pytest.raises(UsageError, match=rf"servegate\.yaml:\d+:\d+: '{re.escape(place)}'"):
        load(path, Overrides())


@pytest.mark.parametrize(
    ("place", "value"), [("engine.start_timeout_s", 0), ("changes.max_pairs", 0), ("changes.max_pairs", 2.5)]
)
def test_zero_and_fractions_where_they_mean_nothing(tmp_path: Path, place: str, value: Any) -> None:
    with pytest.raises(UsageError, match=re.escape(f"'{place}' is {value}")):
        gate(tmp_path, place, value)


def test_no_wait_is_a_wait_of_zero(tmp_path: Path) -> None:
    assert gate(tmp_path, "engine.wait_minutes", 0).engine.wait_minutes == 0


@pytest.mark.parametrize(
    ("load_of", "said"),
    [
        (
            {"judged_at": 16},
            "'checks.throughput.judged_at' is 16, which is none of `concurrency` (allowed: 32), did you mean 32?",
        ),
        (
            {"concurrency": [1, 8, 64], "judged_at": 60},
            "'checks.throughput.judged_at' is 60, which is none of `concurrency` (allowed: 1, 8, 64), did you mean 64?",
        ),
        ({"concurrency": [8, 8]}, "'checks.throughput.concurrency' holds 8 twice: each number in flight is one load"),
        ({"concurrency": [0, 32]}, "'checks.throughput.concurrency' holds 0: allowed are whole numbers from 1 to 65,536"),
        ({"concurrency": []}, "'checks.throughput.concurrency' is (): "),
        ({"concurrency": 8}, "'checks.throughput.concurrency' is 8: it must be a list, such as [8]"),
        (
            {"requests_per_window": 4},
            "'checks.throughput.requests_per_window' is 4, so the 32 of `concurrency` would never be in flight: it must",
        ),
        ({"input_tokens": 4000}, "'checks.throughput.input_tokens'"),
        ({"concurency": [8]}, "unknown key 'checks.throughput.concurency', did you mean 'concurrency'?"),
    ],
)
def test_a_load_that_cannot_be_is_told_by_place_value_allowed_and_near_name(
    tmp_path: Path, load_of: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        gate(tmp_path, "checks.throughput", load_of)
    assert said in caught.value.what
    assert re.match(r"\S*servegate\.yaml:\d+: ", caught.value.what)
    assert "{" not in caught.value.what, "no mapping of Python's is printed"


@pytest.mark.parametrize("option", ["--days", "--gib"])
@pytest.mark.parametrize("value", ["nan", "inf", "-1", "x"])
def test_what_compares_with_nothing_removes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, value: str
) -> None:
    """`--gib nan` was "more than fits" for every entry, and removed them all."""
    monkeypatch.setenv("SERVEGATE_CACHE_DIR", str(tmp_path))
    kept = tmp_path / "compiled" / ("a" * 16)
    kept.mkdir(parents=True)
    done = CliRunner().invoke(clean, [option, value])
    assert (done.exit_code, kept.exists()) == (2, True)


def _prompts(here: Path, content: bytes) -> object:
    gate(here)
    (here / "prompts.jsonl").write_bytes(content)
    return resolve(load(here / "servegate.yaml", Overrides())).plan


def _named(check: str, setting: Any) -> Callable[[Path, bytes], object]:
    def read(here: Path, content: bytes) -> object:
        (here / "given.txt").write_bytes(content)
        return gate(here, f"checks.{check}", setting).plan

    return read


def _serving(here: Path, content: bytes) -> object:
    gate(here)
    (here / "old.yaml").write_bytes(content)
    return resolve(load(here / "servegate.yaml", Overrides())).plan


def _config(here: Path, content: bytes) -> object:
    gate(here)
    (here / "servegate.yaml").write_bytes(content)
    return load(here / "servegate.yaml", Overrides()).config


def _file(read: Callable[[Path], object]) -> Callable[[Path, bytes], object]:
    def reading(here: Path, content: bytes) -> object:
        (here / "given.txt").write_bytes(content)
        return read(here / "given.txt")

    return reading


GIVEN: dict[str, tuple[str, Callable[[Path, bytes], object]]] = {
    "gate config": (yaml.safe_dump(GATE), _config),
    "serving config": ("model: org/m\nmax-model-len: 2048\n", _serving),
    "prompts": (PROMPTS, _prompts),
    "corpus": ("one two three\n", _named("logprobs", {"corpus": {"file": "given.txt"}})),
    "task": (TASK, _named("accuracy", {"tasks": [{"file": "given.txt", "shots": 0}]})),
    "release policy": ("version: 1\ncards: [cpu]\n", _file(read_release_policy)),
    "accepted differences": ("version: 1\naccepted: []\n", _file(lambda path: read_ledger(path, required=True))),
    "calibration": (CALIBRATION, _file(lambda path: read_calibration(path, required=True))),
    "reviews": ("reviews: []\n", _file(lambda path: _form(path, path))),
    "template": ("{{ verdict }}, and so on and on\n", _file(read_text)),
}
"""Every kind of text file that a person gives: one that is right, and what reads it."""


@pytest.mark.parametrize("kind", sorted(GIVEN))
def test_a_byte_order_mark_changes_nothing(tmp_path: Path, kind: str) -> None:
    text, read = GIVEN[kind]

    def meaning(content: bytes) -> str:
        return re.sub(r"[0-9a-f]{64}", "", str(read(tmp_path, content)))  # hashes of bytes may differ

    assert meaning(text.encode("utf-8-sig")) == meaning(text.encode())


@pytest.mark.parametrize("kind", sorted(GIVEN))
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_another_encoding_is_one_error_that_names_utf_8(tmp_path: Path, kind: str, encoding: str) -> None:
    text, read = GIVEN[kind]
    content = text.encode(encoding) if encoding != "latin-1" else text.replace("e", "é").encode(encoding)
    with pytest.raises(UsageError) as caught:
        read(tmp_path, content)
    told = f"{caught.value.what} {caught.value.why} {caught.value.advice}".lower()
    assert "utf-8" in told or "u+0000" in told or "not yaml" in told or "json" in told, told
    assert re.search(r"given\.txt|prompts\.jsonl|servegate\.yaml|old\.yaml", told)
    assert codecs.BOM_UTF8 not in content
