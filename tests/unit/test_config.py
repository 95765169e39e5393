"""The gate config: every value has a source, every fault a place, and nothing is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servegate.config import Overrides, Resolved, checks_of, load, resolve, settings_of
from servegate.domain.plan import Plan
from servegate.errors import UsageError

GATE = """\
version: 1
gate: demo
arms:
  baseline: {config: old.yaml}
  candidate: {config: new.yaml}
checks:
  prompts: {file: prompts.jsonl, max_tokens: 32}
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "old.yaml").write_text("model: org/m\n")
    (tmp_path / "new.yaml").write_text("model: org/m\nquantization: fp8\n")
    (tmp_path / "prompts.jsonl").write_text('{"id": "a", "category": "math", "prompt": "1 + 1?"}\n')
    (tmp_path / "servegate.yaml").write_text(GATE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def gate(here: Path, text: str = GATE, **overrides: object) -> Resolved:
    (here / "servegate.yaml").write_text(text)
    return resolve(load(None, Overrides(**overrides)))  # type: ignore[arg-type]


def test_a_plan_names_arms_knobs_inputs_and_steps(here: Path) -> None:
    plan = gate(here).plan
    assert plan.arms["candidate"].argv == ("vllm", "serve", "org/m", "--quantization=fp8")
    assert [(knob.name, knob.baseline, knob.candidate) for knob in plan.knobs] == [("quantization", None, "fp8")]
    assert list(plan.inputs) == ["prompts.jsonl"]
    assert [(step.arm, step.check, step.step) for step in plan.schedule] == [
        ("baseline", "prompts", 0), ("baseline", "prompts", 1), ("candidate", "prompts", 0), ("candidate", "prompts", 1),
    ]  # fmt: skip


def test_every_setting_has_a_source(here: Path) -> None:
    settings = gate(here, rounds=3, engine="/opt/vllm").plan.settings
    assert settings["rounds"].source == "--rounds"
    assert settings["engine.executable"].source == "--engine"
    assert settings["checks.prompts.max_tokens"].source == "servegate.yaml:7"
    assert settings["checks.prompts.max_tokens"].value == 32
    assert settings["engine.start_timeout_s"].source == "default"


def test_planning_writes_nothing(here: Path) -> None:
    before = sorted(path.name for path in here.rglob("*"))
    gate(here)
    assert sorted(path.name for path in here.rglob("*")) == before


def test_a_plan_survives_json(here: Path) -> None:
    plan = gate(here).plan
    again = Plan.model_validate(json.loads(json.dumps(plan.to_json())))
    assert again.fingerprint() == plan.fingerprint()
    assert settings_of(again) == gate(here).settings
    assert list(checks_of(again)) == ["prompts"]


def test_limits_change_the_policy_and_not_the_workload(here: Path) -> None:
    first = gate(here).plan.fingerprints
    name = next(iter(gate(here).plan.checks["prompts"]["limits"]))
    value = gate(here).plan.checks["prompts"]["limits"][name]
    other = json.dumps(value + 1 if isinstance(value, int | float) and not isinstance(value, bool) else value)
    changed = gate(here, GATE.replace("max_tokens: 32", f"max_tokens: 32, limits: {{{name}: {other}}}")).plan.fingerprints
    assert changed.workload == first.workload
    assert changed.policy != first.policy
    assert gate(here, GATE.replace("32", "33")).plan.fingerprints.workload != first.workload


def test_two_serving_configs_are_enough(here: Path) -> None:
    (here / "servegate.yaml").unlink()
    plan = resolve(load(None, Overrides(baseline="old.yaml", candidate="new.yaml"))).plan
    assert plan.gate == "new"
    assert list(plan.checks) == ["engagement", "prompts", "accuracy", "throughput"]
    assert plan.checks["accuracy"]["tasks"][0]["name"] == "gsm8k"
    assert list(plan.inputs) == ["bundled:prompts.jsonl"]


def test_a_serving_config_given_on_the_command_line_starts_from_the_working_directory(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "sub").mkdir()
    (here / "sub" / "third.yaml").write_text("model: org/m\nkv-cache-dtype: fp8\n")
    monkeypatch.chdir(here / "sub")
    plan = resolve(load(Path("../servegate.yaml"), Overrides(candidate="third.yaml"))).plan
    assert plan.knobs[0].name == "kv-cache-dtype"


def test_equal_arms_are_a_warning(here: Path) -> None:
    found = gate(here, candidate="old.yaml")
    assert found.plan.knobs == ()
    assert any("arms are equal" in warning for warning in found.warnings)


def test_each_arm_may_have_its_own_engine_and_environment(here: Path) -> None:
    text = GATE.replace("{config: new.yaml}", "{config: new.yaml, engine: {executable: /next/vllm}, environment: {A: b}}")
    plan = gate(here, text).plan
    assert plan.arms["candidate"].argv[0] == "/next/vllm"
    assert {knob.name for knob in plan.knobs} == {"engine.executable", "quantization", "environment.A"}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("gate: demo", "gatee: demo", ["servegate.yaml:2", "unknown key 'gatee'", "did you mean 'gate'"]),
        ("gate: demo", "gate: Demo", ["servegate.yaml:2", "'Demo'"]),
        ("gate: demo", "gate: demo\ngate: demo", ["servegate.yaml:3", "gate"]),
        ("version: 1", "version: 2", ["servegate.yaml:1", "version"]),
        ("version: 1\n", "", ["'version' is missing"]),
        ("version: 1", "version: '1'", ["servegate.yaml:1", "'1'"]),
        ("max_tokens: 32", "max_tokens: many", ["servegate.yaml:7", "checks.prompts.max_tokens", "'many'"]),
        ("max_tokens: 32", "max_token: 32", ["servegate.yaml:7", "did you mean 'max_tokens'"]),
        ("max_tokens: 32", "max_tokens: -1", ["servegate.yaml:7", "-1"]),
        ("  prompts:", "  prompt:", ["servegate.yaml:7", "'prompt'", "did you mean 'prompts'"]),
        ("new.yaml", "nwe.yaml", ["nwe.yaml does not exist"]),
        ("prompts.jsonl", "prompt.jsonl", ["prompt.jsonl does not exist"]),
        ("version: 1", "version: 1\nrounds: 0", ["servegate.yaml:2", "rounds"]),
        ("{config: old.yaml}", "{}", ["arms.baseline.config", "missing"]),
        ("version: 1", "policy: loose\nversion: 1", ["servegate.yaml:1", "'loose'", "standard"]),
        ("arms:", "arms: [", ["servegate.yaml"]),
    ],
)
def test_bad_input_is_named(here: Path, old: str, new: str, expected: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        gate(here, GATE.replace(old, new))
    for part in expected:
        assert part in f"{caught.value.what} {caught.value.advice}"


def test_a_missing_file_suggests_a_near_one(here: Path) -> None:
    with pytest.raises(UsageError) as caught:
        gate(here, GATE.replace("new.yaml", "nwe.yaml"))
    assert "Did you mean new.yaml" in caught.value.advice


def test_several_faults_are_listed_together(here: Path) -> None:
    with pytest.raises(UsageError) as caught:
        gate(here, GATE.replace("gate: demo", "gate: Demo\nround: 3"))
    assert "round" in caught.value.what + caught.value.why
    assert "Demo" in caught.value.what + caught.value.why


def test_no_config_and_no_arms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"no servegate\.yaml here"):
        load(None, Overrides())


def test_a_check_that_is_not_named_is_off_and_none_is_an_error(here: Path) -> None:
    with pytest.raises(UsageError, match="names no check"):
        gate(here, GATE.replace("  prompts: {file: prompts.jsonl, max_tokens: 32}\n", "  {}\n"))


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"", b"- a\n", b"version: 1\n---\nversion: 1\n"])
def test_files_that_are_no_config(here: Path, content: bytes) -> None:
    (here / "servegate.yaml").write_bytes(content)
    with pytest.raises(UsageError, match=r"servegate\.yaml"):
        load(None, Overrides())


def test_the_arms_differ_in_a_dozen_places_and_each_is_a_knob(here: Path) -> None:
    (here / "new.yaml").write_text("model: org/other\nmax-model-len: 4096\nkv-cache-dtype: fp8\n")
    assert {knob.name for knob in gate(here).plan.knobs} == {"model", "max-model-len", "kv-cache-dtype"}


def test_a_variable_that_vllm_does_not_read_is_told_before_anything_runs(here: Path) -> None:
    text = GATE.replace("{config: new.yaml}", "{config: new.yaml, environment: {LLM_DISABLED_KERNELS: X}}")
    assert any("did you mean VLLM_DISABLED_KERNELS?" in line for line in gate(here, text).warnings)
