"""The real command line, in a process of its own, on a fake engine that speaks vLLM's protocol."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.fakes import install

PROMPTS = [
    {"id": f"p{number}", "category": "json", "prompt": f"Return JSON number {number}.", "expect": {"json": True}}
    for number in range(24)
]
GATE = """\
version: 1
gate: demo
arms:
  baseline: {config: old.yaml}
  candidate: {config: new.yaml}
engine: {executable: ENGINE, start_timeout_s: 20, request_timeout_s: 5}
checks:
  prompts: {file: prompts.jsonl, max_tokens: 64}
policy: quick
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return gate_in(tmp_path)


def gate_in(tmp_path: Path) -> Path:
    """Make a gate of the fake engine with 24 contracts that both arms keep."""
    engine = install(tmp_path / "bin")
    (tmp_path / "old.yaml").write_text("model: org/m\n")
    (tmp_path / "new.yaml").write_text("model: org/m\nmax-num-seqs: 8\n")
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(prompt) + "\n" for prompt in PROMPTS))
    answers = {f"number {number}.": json.dumps({"n": number}) for number in range(24)}
    (tmp_path / "answers.json").write_text(json.dumps(dict(reversed(answers.items()))))
    (tmp_path / "servegate.yaml").write_text(GATE.replace("ENGINE", str(engine)))
    return tmp_path


def started(here: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    variables = {**os.environ, "FAKE_VLLM_ANSWERS": str(here / "answers.json"), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-m", "servegate", *arguments],
        cwd=here,
        env={**variables, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def servegate(here: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    with started(here, *arguments, **environment) as process:
        out, err = process.communicate(timeout=90)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def candidate(here: Path, fault: str, variable: str = "FAKE_VLLM_FAULT") -> None:
    """Give the candidate alone a fault."""
    text = (here / "servegate.yaml").read_text()
    line = f"{{config: new.yaml, environment: {{{variable}: {fault}}}}}"
    (here / "servegate.yaml").write_text(text.replace("{config: new.yaml}", line))


def nothing_left(here: Path) -> bool:
    """No process of the fake engine that this test installed is alive."""
    script = str(here / "bin")
    alive = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        environment = process.info["environ"] or {}
        if environment.get("FAKE_VLLM_ANSWERS", "").startswith(str(here)) or script in " ".join(process.info["cmdline"] or ()):
            alive.append(process)
    return alive == []


def run_json(here: Path, name: str) -> dict:
    return json.loads((here / "servegate-runs/demo" / name).read_text())


def test_a_harmless_change_passes_and_leaves_a_whole_run_directory(here: Path) -> None:
    done = servegate(here, "run")
    assert done.returncode == 0, done.stdout + done.stderr
    run = here / "servegate-runs/demo"
    assert re.search(r"report: servegate-runs/demo/report/report\.html", done.stdout)
    for name in (
        "plan.json", "inputs/prompts.json", "verdict.json", "comparisons/prompts.json", "checksums.sha256",
        "report/report.html", "report/report.md", "report/comment.md", "report/summary.md", "report/environment.json",
        "arms/baseline/serving.yaml", "arms/baseline/engine.json", "arms/candidate/manifest.json",
        "arms/candidate/server.log", "arms/candidate/prompts.json", "arms/candidate/prompts.npz",
    ):  # fmt: skip
        assert (run / name).is_file(), name
    assert run_json(here, "run.json")["status"] == "complete"
    assert run_json(here, "verdict.json")["data"]["outcome"] == "pass"
    assert servegate(here, "verify", "servegate-runs/demo").returncode == 0
    assert nothing_left(here)


def with_engagement(here: Path, settings: str = "{}") -> None:
    text = (here / "servegate.yaml").read_text()
    (here / "servegate.yaml").write_text(text.replace("checks:\n", f"checks:\n  engagement: {settings}\n"))


def test_what_was_served_is_read_and_takes_no_step(here: Path) -> None:
    with_engagement(here, "{expect: {quantization: none}, limits: {may_differ: [max-num-seqs]}}")
    done = servegate(here, "run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert run_json(here, "verdict.json")["data"]["checks"]["engagement"] == {"outcome": "pass", "required": True}
    assert not (here / "servegate-runs/demo/arms/baseline/engagement.json").exists()
    assert "What was really served?" in (here / "servegate-runs/demo/report/report.md").read_text()


def test_what_was_served_is_told_although_the_candidate_never_started(here: Path) -> None:
    with_engagement(here)
    candidate(here, "die-at-start")
    done = servegate(here, "run")
    assert done.returncode == 5, done.stdout + done.stderr
    reading = run_json(here, "comparisons/engagement.json")["data"]["candidate"]
    assert (reading["baseline"]["served"], reading["candidate"]["served"]) == (True, False)
    assert "candidate was not served" in (here / "servegate-runs/demo/report/report.md").read_text()


def test_an_expectation_that_the_engine_does_not_meet_is_not_comparable(here: Path) -> None:
    with_engagement(here, "{expect: {quantization: fp8}}")
    done = servegate(here, "run")
    assert done.returncode == 4, done.stdout + done.stderr
    assert "its log says 'none'" in run_json(here, "verdict.json")["data"]["headline"]


def test_comparing_and_reporting_again_gives_the_same_bytes_without_an_engine(here: Path) -> None:
    servegate(here, "run")
    run = here / "servegate-runs/demo"

    def products() -> dict[str, bytes]:
        found = [*run.glob("comparisons/*"), run / "verdict.json", *run.glob("report/**/*"), run / "checksums.sha256"]
        return {str(path.relative_to(run)): path.read_bytes() for path in found if path.is_file()}

    before = products()
    (here / "bin/vllm").unlink()
    for name in before:
        (run / name).unlink()
    assert servegate(here, "compare", "servegate-runs/demo").returncode == 0
    assert servegate(here, "report", "servegate-runs/demo").returncode == 0
    assert products() == before


def test_broken_answers_fail_and_name_a_prompt(here: Path) -> None:
    (here / "broken.json").write_text(json.dumps({"number 7.": "n is 7", "number": '{"n": 0}'}))
    candidate(here, str(here / "broken.json"), "FAKE_VLLM_ANSWERS")
    done = servegate(here, "run")
    assert done.returncode == 1, done.stdout + done.stderr
    findings = run_json(here, "verdict.json")["data"]["findings"]
    assert [ref["id"] for item in findings if item["severity"] == "fail" for ref in item["evidence"]] == ["p7"]
    assert nothing_left(here)


def test_an_engine_that_dies_at_start_is_an_error_with_its_first_exception(here: Path) -> None:
    candidate(here, "die-at-start")
    done = servegate(here, "run")
    assert done.returncode == 5, done.stdout + done.stderr
    engine = run_json(here, "arms/candidate/engine.json")
    assert engine["status"] == "failed"
    exception = engine["data"]["diagnosis"]["exception"]
    assert exception
    assert exception in run_json(here, "verdict.json")["data"]["headline"]
    assert "arms/candidate/server.log" in done.stderr
    assert (here / "servegate-runs/demo/report/report.html").is_file()
    assert run_json(here, "arms/baseline/prompts.json")["status"] == "measured"
    assert nothing_left(here)


def test_a_baseline_that_does_not_start_ends_the_run_before_the_candidate(here: Path) -> None:
    done = servegate(here, "run", FAKE_VLLM_FAULT="die-at-start")
    assert done.returncode == 5
    assert not (here / "servegate-runs/demo/arms/candidate/engine.json").exists()
    reason = run_json(here, "arms/candidate/prompts.json")["reason"]
    assert reason["code"] == "engine_failed"


@pytest.mark.parametrize("fault", ["die-after-10", "hang-after-10", "http-500-after-10"])
def test_trouble_in_the_middle_is_never_a_pass(here: Path, fault: str) -> None:
    candidate(here, fault)
    done = servegate(here, "run")
    assert done.returncode in {3, 5}, done.stdout + done.stderr
    assert run_json(here, "run.json")["status"] == "complete"
    assert nothing_left(here)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@pytest.mark.parametrize("moment", ["start", "measure"])
def test_a_signal_leaves_no_child_and_a_readable_run(here: Path, number: signal.Signals, code: int, moment: str) -> None:
    candidate(here, "never-ready" if moment == "start" else "hang-after-3")
    with started(here, "run") as process:
        run = here / "servegate-runs/demo/arms/candidate"
        deadline = time.monotonic() + 60
        while not (run / ("server.log" if moment == "start" else "engine.json")).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == code, out + err
    assert nothing_left(here)
    assert run_json(here, "run.json")["status"] == "cancelled"
    assert servegate(here, "report", "servegate-runs/demo").returncode == 0
    assert run_json(here, "verdict.json")["data"]["outcome"] in {"review", "error"}


def test_one_arm_after_the_other_joins_one_run_directory(here: Path) -> None:
    assert servegate(here, "measure", "--arm", "baseline").returncode == 0
    assert servegate(here, "measure", "--arm", "candidate").returncode == 0
    assert servegate(here, "compare", "servegate-runs/demo").returncode == 0
    stages = {(stage["arm"], stage["check"]) for stage in run_json(here, "run.json")["data"]["stages"]}
    assert {("baseline", "prompts"), ("candidate", "prompts")} <= stages


def test_a_candidate_alone_is_refused_before_anything_starts(here: Path) -> None:
    done = servegate(here, "measure", "--arm", "candidate")
    assert done.returncode == 2
    assert "Measure the baseline first" in done.stderr
    assert not (here / "servegate-runs").exists()


@pytest.mark.parametrize("name", ["arms/candidate/prompts.json", "inputs/prompts.json", "arms/baseline/server.log"])
def test_evidence_that_was_touched_is_neither_judged_nor_sealed_again(here: Path, name: str) -> None:
    servegate(here, "run")
    path = here / "servegate-runs/demo" / name
    path.write_bytes(path.read_bytes().replace(b"7", b"8"))
    for verb in ("compare", "report"):
        done = servegate(here, verb, "servegate-runs/demo")
        assert done.returncode == 2
        assert f"{name}: changed" in done.stderr
    assert servegate(here, "verify", "servegate-runs/demo").returncode == 2


def test_limits_edited_in_the_plan_are_noticed(here: Path) -> None:
    servegate(here, "run")
    run = here / "servegate-runs/demo"
    (run / "checksums.sha256").unlink()
    text = (run / "plan.json").read_text()
    assert '"contract_breaks": 0' in text
    (run / "plan.json").write_text(text.replace('"contract_breaks": 0', '"contract_breaks": 9', 1))
    done = servegate(here, "compare", "servegate-runs/demo")
    assert done.returncode == 2
    assert "plan.json was changed" in done.stderr


def test_an_arm_of_another_plan_is_not_judged(here: Path) -> None:
    servegate(here, "run")
    servegate(here, "run", "--output", "other", "--rounds", "3")
    for path in (here / "other/demo/arms/candidate").glob("prompts.*"):
        (here / "servegate-runs/demo/arms/candidate" / path.name).write_bytes(path.read_bytes())
    (here / "servegate-runs/demo/checksums.sha256").unlink()
    done = servegate(here, "compare", "servegate-runs/demo")
    assert done.returncode == 2
    assert "belongs to another plan" in done.stderr


def test_a_secret_in_the_gate_config_is_refused_and_never_recorded(here: Path) -> None:
    candidate(here, "hf_abc", "HF_TOKEN")
    done = servegate(here, "run")
    assert done.returncode == 2
    assert "'HF_TOKEN' sounds like a secret" in done.stderr
    assert "hf_abc" not in done.stdout + done.stderr
    assert not (here / "servegate-runs").exists()


def test_a_reader_that_leaves_does_not_change_the_exit_code(here: Path) -> None:
    servegate(here, "run")
    with started(here, "compare", "servegate-runs/demo") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=60) == 0


def test_an_earlier_run_is_never_overwritten_by_accident(here: Path) -> None:
    servegate(here, "run")
    again = servegate(here, "run")
    assert again.returncode == 2
    assert "--force" in again.stderr
    assert servegate(here, "run", "--force").returncode == 0


def test_force_removes_only_run_directories(here: Path) -> None:
    (here / "servegate-runs/demo").mkdir(parents=True)
    (here / "servegate-runs/demo/thesis.txt").write_text("mine")
    done = servegate(here, "run", "--force")
    assert done.returncode == 2
    assert (here / "servegate-runs/demo/thesis.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("rnu",), "Did you mean 'run'"),
        (("run", "--config", "servegat.yaml"), "Did you mean servegate.yaml"),
        (("run", "--engine", "/nowhere/vllm"), "engine not found"),
        (("run", "--candidate", "nwe.yaml"), "Did you mean new.yaml"),
        (("run", "--gate", "No Gate"), "--gate"),
        (("compare", "nowhere"), "not a run directory"),
        (("run", "--round", "2"), "--rounds"),
    ],
)
def test_usage_errors_are_exit_2_name_the_fault_and_write_nothing(
    here: Path, arguments: tuple[str, ...], expected: str
) -> None:
    done = servegate(here, *arguments)
    assert done.returncode == 2, done.stdout + done.stderr
    assert expected in done.stderr
    assert not (here / "servegate-runs").exists()


def test_a_prompt_longer_than_the_context_is_named(here: Path) -> None:
    long = {"id": "the-long-one", "category": "x", "prompt": "word " * 9000}
    with (here / "prompts.jsonl").open("a") as stream:
        stream.write(json.dumps(long) + "\n")
    done = servegate(here, "run")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "the-long-one" in done.stderr
    assert nothing_left(here)


def test_help_and_plan_are_quiet_about_the_world(here: Path) -> None:
    assert "Exit codes" in servegate(here, "--help").stdout
    plan = servegate(here, "plan")
    assert plan.returncode == 0
    assert "max-num-seqs" in plan.stdout
    assert json.loads(servegate(here, "plan", "--json").stdout)["gate"] == "demo"
    assert not (here / "servegate-runs").exists()


def test_plan_begins_with_whether_a_pass_is_in_reach_and_how_long_it_took_before(here: Path) -> None:
    plan = servegate(here, "plan").stdout
    assert "PASS is out of reach" not in plan
    assert "requests to each arm: prompts 48" in plan
    assert "last time" not in plan
    gate = here / "servegate.yaml"
    gate.write_text(gate.read_text().replace("policy: quick", "policy: standard"))
    plan = servegate(here, "plan").stdout
    assert plan.splitlines()[1].startswith("PASS is out of reach")
    assert "accuracy was not checked, and policy standard" in plan
    done = servegate(here, "run")
    assert done.returncode == 3, done.stdout + done.stderr
    plan = servegate(here, "plan").stdout
    assert re.search(r"^last time: [0-9,]+ s \(starts [0-9,]+, prompts [0-9,]+", plan, re.MULTILINE), plan
    assert "under another plan" not in plan
    gate.write_text(gate.read_text().replace("policy: standard", "policy: quick"))
    assert ", under another plan" in servegate(here, "plan").stdout


def test_log_lines_in_ci_never_start_a_workflow_command(here: Path) -> None:
    (here / "prompts.jsonl").write_text('{"id": "::error::x", "category": "c", "prompt": "x"}\n' * 2)
    done = servegate(here, "run")
    assert done.returncode == 2
    assert not any(line.lstrip().startswith("::") for line in (done.stdout + done.stderr).splitlines())


EXAMPLE = str(Path(__file__).parents[2] / "examples" / "fp8-qwen3-8b" / "servegate.yaml")
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "COLUMNS": "200"}


def test_plan_predicts_capacity_for_a_card_that_is_not_here(tmp_path: Path) -> None:
    shown = servegate(tmp_path, "plan", "--config", EXAMPLE, "--card", "H200", **NO_GPU)
    assert (shown.returncode, shown.stderr) == (0, "")
    rows = {line.split("  ")[0]: line for line in shown.stdout.partition("Capacity, predicted")[2].splitlines()}
    assert "15.26 GiB, 16-bit" in rows["weights"]
    assert "8.79 GiB, fp8 per channel" in rows["weights"]
    assert "at most 825,456" in rows["tokens in the KV cache"]
    assert "at most 872,512" in rows["tokens in the KV cache"]
    assert "tok/s" in rows["decode ceiling"]
    assert sorted(tmp_path.iterdir()) == []


def test_plan_predicts_for_memory_alone_without_a_speed(tmp_path: Path) -> None:
    shown = servegate(tmp_path, "plan", "--config", EXAMPLE, "--vram", "24", **NO_GPU)
    assert "at most 49,680" in shown.stdout
    assert "no bandwidth is known" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--card", "H20"), "did you mean 'H200'"),
        (("--vram", "0"), "not a size of a card"),
        (("--vram", "nan"), "not a size of a card"),
    ],
)
def test_plan_refuses_a_card_that_is_none(tmp_path: Path, arguments: tuple[str, ...], said: str) -> None:
    shown = servegate(tmp_path, "plan", "--config", EXAMPLE, *arguments, **NO_GPU)
    assert shown.returncode == 2
    assert said in shown.stderr


def test_a_model_config_that_is_not_there_names_its_line(here: Path) -> None:
    text = (here / "servegate.yaml").read_text()
    (here / "servegate.yaml").write_text(text.replace("engine: {", "engine: {model_config: shape.json, "))
    shown = servegate(here, "plan", "--vram", "24")
    assert shown.returncode == 2
    assert "servegate.yaml:6: 'engine.model_config': shape.json does not exist" in shown.stderr
    (here / "shape.json").write_text('{"model_type": "of tomorrow"}')
    unknown = servegate(here, "plan", "--vram", "24")
    assert unknown.returncode == 0
    assert "not predicted: the layers of model_type 'of tomorrow' are not known" in unknown.stdout


def test_an_option_that_only_the_engine_knows_is_told_and_can_be_passed_on(here: Path) -> None:
    (here / "new.yaml").write_text("model: org/m\nbrand-new-option: 7\n")
    helped = {"FAKE_VLLM_HELP": "  --brand-new-option N\n  --brand-newer X\n"}
    told = servegate(here, "plan", **helped)
    assert told.returncode == 2
    assert "new.yaml:2: option 'brand-new-option' is no option of vLLM 0.32.0" in told.stderr
    assert "bin/vllm' has it" in told.stderr
    assert "engine: {also_known: [brand-new-option]}" in told.stderr
    unknown = servegate(here, "plan", FAKE_VLLM_HELP="  --brand-new-option-2 N\n")
    assert unknown.returncode == 2
    assert "has it" not in unknown.stderr
    text = (here / "servegate.yaml").read_text()
    (here / "servegate.yaml").write_text(text.replace("engine: {", "engine: {also_known: [brand-new-option], "))
    passed = servegate(here, "plan")
    assert passed.returncode == 0, passed.stderr
    assert "--brand-new-option=7" in passed.stdout


def test_an_arm_that_starts_only_with_a_fallback_is_a_review_that_names_it(here: Path) -> None:
    candidate(here, "die-at-load")
    text = (here / "servegate.yaml").read_text()
    fallback = "fallbacks: [{name: other_kernel, environment: {FAKE_VLLM_FAULT: none}}], "
    (here / "servegate.yaml").write_text(text.replace("engine: {", f"engine: {{{fallback}"))
    done = servegate(here, "run")
    assert done.returncode == 3, done.stdout + done.stderr
    verdict = run_json(here, "verdict.json")["data"]
    assert "candidate with fallback other_kernel (FAKE_VLLM_FAULT=none)" in verdict["scope"]["engine"]
    assert "does not start as its serving config says (RuntimeError: rehearsed" in verdict["headline"]
    arm = here / "servegate-runs/demo/arms/candidate"
    assert "Traceback" in (arm / "server.failed-1.log").read_text()
    assert json.loads((arm / "manifest.json").read_text())["data"]["card_guard_reason"].startswith("no card was locked")
    script = (here / "servegate-runs/demo/report/reproduce.sh").read_text()
    assert "exec env FAKE_VLLM_FAULT=none" in script
    assert servegate(here, "verify", "servegate-runs/demo").returncode == 0


def test_one_compile_cache_for_both_arms_is_told(here: Path) -> None:
    text = (here / "servegate.yaml").read_text()
    (here / "servegate.yaml").write_text(text.replace("engine: {", "engine: {environment: {VLLM_CACHE_ROOT: /one}, "))
    assert "both arms are given one VLLM_CACHE_ROOT, /one" in " ".join(servegate(here, "plan").stdout.split())


def test_doctor_says_by_its_exit_code_that_there_is_no_engine(here: Path) -> None:
    missing = servegate(here, "doctor", "--engine", str(here / "no-vllm"))
    assert missing.returncode == 2
    assert "there is no engine" in missing.stderr
    assert "lm-eval" in missing.stdout, "the table comes all the same"
    assert servegate(here, "doctor", "--engine", str(here / "bin/vllm")).returncode == 0
    broken = here / "broken"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    assert servegate(here, "doctor", "--engine", str(broken)).returncode == 2


def test_doctor_refuses_a_requirement_that_nobody_knows(tmp_path: Path) -> None:
    shown = servegate(tmp_path, "doctor", "--require", "fp8native")
    assert shown.returncode == 2
    assert "did you mean 'fp8-native'" in shown.stderr
