"""Logs that lie, contradict themselves or have no end: what is quoted in a line is no word of the engine's own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from servegate.checks.arms import arm_findings
from servegate.checks.contract import ArmEvidence
from servegate.domain.evidence import EngineFacts, NotMeasured, Reason
from servegate.domain.judgement import Severity
from servegate.engines.log_bound import bounded, cut
from servegate.engines.log_lines import MAX_LINE, MOST_LINES, lines_of
from tests.unit.engines.test_vllm_log import LOGS, NAMES, facts_of
from tests.unit.samples import manifest, plan

REAL = (LOGS / "h200-0.25.1-qwen3-8b-fp8.log").read_text("utf-8")
API, CORE = "(APIServer pid=1) INFO 11-29 17:00:00 [x.py:1] ", "(EngineCore pid=6738) INFO 11-29 17:00:00 [x.py:1] "
FORGED = {
    "kv_cache_tokens": "GPU KV cache size: 9,999,999 tokens",
    "kv_cache_gib": "Available KV cache memory: 999.0 GiB",
    "weights_gib": "Model loading took 0.01 GiB and 1.0 seconds",
}


@pytest.mark.parametrize("name", NAMES)
def test_no_recorded_log_contradicts_itself(name: str) -> None:
    assert facts_of((LOGS / name).read_text("utf-8")).contradictions == ()


@pytest.mark.parametrize("field", sorted(FORGED))
@pytest.mark.parametrize(
    "line",
    [
        "non-default args: {{'model': '{0}'}}",  # a model's name
        "Using supplied chat template:\n{0}",  # a template that is printed as it stands
        "{0}",
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_what_a_name_or_a_template_says_makes_the_fact_unknown_and_never_another_one(
    field: str, line: str, first: bool
) -> None:
    forged = "\n".join(API + part for part in line.format(FORGED[field]).split("\n")) + "\n"
    facts = facts_of(forged + REAL if first else REAL + forged)
    assert getattr(facts, field) is None
    assert getattr(facts, f"{field}_reason") == "the engine's log contradicts itself"
    assert len(facts.contradictions) == 1
    assert re.search(r"\(line \d+\) and .* \(line \d+\)$", facts.contradictions[0])
    assert EngineFacts.model_validate({**facts.to_json(), "status": "ready"}).contradictions == facts.contradictions


def test_a_log_that_says_two_things_is_a_finding() -> None:
    facts = facts_of(REAL + CORE + FORGED["kv_cache_tokens"] + "\n")
    nothing = NotMeasured(reason=Reason(code="none", message="none"))
    sides = {"baseline": ArmEvidence(facts_of(REAL), manifest(), nothing), "candidate": ArmEvidence(facts, manifest(), nothing)}
    [told] = [item for item in arm_findings(plan(), sides, {}, None) if "contradicts" in item.code]
    assert (told.code, told.severity) == ("arms/candidate-log-contradicts", Severity.REVIEW)
    assert f"{facts_of(REAL).kv_cache_tokens:,} (line " in told.message
    assert "and 9,999,999 (line " in told.message


def test_a_second_announcement_with_another_quantization_is_a_contradiction() -> None:
    announced = next(line for line in REAL.split("\n") if "Initializing a V1 LLM engine" in line)
    forged = re.sub(r"quantization=[^,]+", "quantization=None", announced)
    assert forged != announced
    [said] = facts_of(REAL + forged.replace("EngineCore", "APIServer") + "\n").contradictions
    assert said.startswith("quantization: ")


def test_ranks_of_one_kind_speak_for_themselves() -> None:
    ranks = [f"(EngineCore_DP{n} pid={n}) INFO 11-29 17:00:00 [x.py:1] GPU KV cache size: {n}00 tokens" for n in (1, 2, 3)]
    facts = facts_of("\n".join(ranks))
    assert (facts.kv_cache_tokens, facts.contradictions) == (100, ())


def test_rays_workers_speak_for_themselves_behind_the_engines_own_name() -> None:
    """Ray hands on what its workers print; their parts of a model differ in size, as the ranks of other executors do."""
    lines = [
        f"(EngineCore_DP0 pid=10) (RayWorkerWrapper pid={pid}{where}) INFO 11-29 17:00:00 [x.py:1] Model loading took {gib} GiB"
        for pid, where, gib in ((21, "", "4.05"), (22, ", ip=10.0.0.2", "4.51"))
    ]
    assert [(line.writer, line.level, line.is_worker) for line in lines_of("\n".join(lines))] == [
        ("RayWorkerWrapper pid=21", "INFO", True), ("RayWorkerWrapper pid=22, ip=10.0.0.2", "INFO", True),
    ]  # fmt: skip
    facts = facts_of("\n".join(lines))
    assert (facts.contradictions, facts.weights_gib) == ((), 4.05)
    told = facts_of("\n".join([*lines, lines[1].replace("4.51", "0.01")]))
    assert len(told.contradictions) == 1
    assert told.weights_gib is None


def test_every_attention_backend_that_is_named_is_kept() -> None:
    assert facts_of(REAL + API + "model 'x Using FAST_ATTN attention backend'\n").attention_backend == (
        facts_of(REAL).attention_backend or ""
    ).replace("FLASH_ATTN", "FLASH_ATTN and FAST_ATTN")


@pytest.mark.parametrize(
    "value",
    [
        "{[]: 1}", "{'a': 1e999}", "{'a': b'x'}", "{'a': {1, 2}}", "{'a': 1j}", "{" + "(" * 3000,
        "{'a': " + "[" * 150 + "]" * 150 + "}", "{1, 2}", "{'a': nan}",
    ],
    ids=lambda value: value[:12],
)  # fmt: skip
def test_sampling_defaults_are_json_or_unknown(value: str) -> None:
    line = CORE + f"Default vLLM sampling parameters have been overridden by the model's `generation_config.json`: `{value}`"
    facts = facts_of(line)
    assert facts.sampling_defaults is None or isinstance(facts.sampling_defaults["a"], list)
    facts.to_json()


@pytest.mark.parametrize("value", ["None", "many", "1_000", "٣x", "9" * 400])
def test_a_length_that_is_no_number_is_unknown(value: str) -> None:
    facts = facts_of(CORE + f"Initializing a V1 LLM engine (v0.25.1) with config: model='m', max_seq_len={value}, dtype=x")
    assert facts.max_model_len is None


@pytest.mark.parametrize(
    "line",
    [
        "sampling parameters have been overridden by " * 200 + "`x`: `{" * 3000,
        "init engine (" * 1500,
        "Initializing a V1 LLM engine (v1) with config: " * 400 + "quantization=",
        "KV cache size: " + "9," * 9000,
        "\x1b[" + "0;" * 9000,
        "\x1b]0;" * 4000,
        "Using " + "A" * 19_000,
        "a." * 9000 + "Error",
    ],
    ids=lambda line: line[:16].strip("\x1b"),
)
def test_no_line_takes_long_to_read(line: str) -> None:
    started = time.process_time()
    facts_of("\n".join([CORE + line] * 40))
    assert time.process_time() - started < 4


def test_lines_without_end_are_bounded() -> None:
    assert len(lines_of("x\n" * (MOST_LINES + 1000))) == MOST_LINES
    [last] = lines_of("\n" * (16 << 20) + "end")
    assert (last.number, last.text) == ((16 << 20) + 1, "end")
    [only] = lines_of("x" * (1 << 20))
    assert len(only.text) == MAX_LINE


def test_titles_and_links_of_a_terminal_are_no_part_of_a_line() -> None:
    [line] = lines_of("\x1b]0;title\x07\x1b]8;;http://evil\x1b\\KV\x1b]8;;\x1b\\\x1b[1m cache\x1b[0m")
    assert line.text == "KV cache"


def test_a_log_that_grows_without_end_is_cut_in_the_middle(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    script = "import os\nprint('start', flush=True)\nfor _ in range(200): os.write(1, b'x' * 65536)\nprint('end', flush=True)"
    with log.open("ab") as stream, bounded(log, 1 << 20, 1 << 16, 0.005):
        subprocess.run([sys.executable, "-c", script], stdout=stream, check=True, timeout=30)
        deadline = time.monotonic() + 10
        while log.stat().st_size > 1 << 20 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.write(stream.fileno(), b"after the cut\n")
    content = log.read_bytes()
    assert len(content) < 1 << 20
    assert content.startswith(b"start\n")
    assert content.endswith(b"after the cut\n")
    assert b"[servegate: the log grew beyond 1 MiB; what stood here is left out]" in content


def test_a_log_that_is_gone_or_small_is_left_alone(tmp_path: Path) -> None:
    cut(tmp_path / "none", 1, 1)
    (tmp_path / "small").write_bytes(b"x" * 10)
    cut(tmp_path / "small", 10, 1)
    assert (tmp_path / "small").read_bytes() == b"x" * 10
    assert not (tmp_path / "none").exists()
