"""The script is run by a real shell with a stand-in for the engine that prints what it was given."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from servegate.domain.evidence import Diagnosis, FallbackUsed
from servegate.domain.plan import Setting
from servegate.report.reproduce import as_served, quoted, script, serve_words
from tests.unit import samples
from tests.unit.report.report_samples import NASTY, hostile, plan

WORDS = tuple(text for text in NASTY if "\x00" not in text)
AGAIN = ("--output=servegate-again",)
ECHO = f"""#!{sys.executable}
import json, os, sys
print(json.dumps([sys.argv[1:], dict(os.environ)]))
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    for name in ("vllm", "servegate"):
        path = tmp_path / name
        path.write_text(ECHO)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return tmp_path


def run(content: bytes, tools: Path, word: str) -> tuple[list[str], dict[str, str]]:
    path = tools / "reproduce.sh"
    path.write_bytes(content)
    done = subprocess.run(
        ["sh", str(path), word],
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        check=True,
    )
    argv, environment = json.loads(done.stdout)
    return argv, environment


def test_each_arm_is_served_with_its_own_words_and_environment(tools: Path) -> None:
    made = plan()
    for name, arm in made.arms.items():
        argv, environment = run(script(made), tools, name)
        assert argv == [*arm.argv[1:], "--host=127.0.0.1", "--port=8000"]
        assert environment["VLLM_LOGGING_LEVEL"] == "INFO"


def test_a_gate_with_a_config_is_repeated_with_it(tools: Path) -> None:
    made = plan()
    settings = {
        **made.settings,
        "arms.candidate.config": Setting(value="b.yaml", source="--candidate"),
        "rounds": Setting(value=4, source="--rounds"),
    }
    argv, _ = run(script(made.model_copy(update={"settings": settings})), tools, "gate")
    assert argv == ["run", "--config=servegate.yaml", "--candidate=serving/qwen3-8b-fp8.yaml", "--rounds=4", *AGAIN]


def test_a_gate_without_a_config_is_repeated_from_its_two_serving_configs(tools: Path) -> None:
    made = plan().model_copy(update={"settings": {"gate": Setting(value="nightly", source="--gate")}})
    argv, _ = run(script(made), tools, "gate")
    assert argv == [
        "run",
        "--baseline=serving/qwen3-8b.yaml",
        "--candidate=serving/qwen3-8b-fp8.yaml",
        "--gate=nightly",
        *AGAIN,
    ]


def test_hostile_words_arrive_unchanged_and_run_nothing(tools: Path) -> None:
    made = hostile(*WORDS).plan
    content = script(made)
    argv, environment = run(content, tools, "candidate")
    assert argv == [*made.arms["candidate"].argv[1:], "--host=127.0.0.1", "--port=8000"]
    assert environment["VLLM_X"] == made.arms["candidate"].environment["VLLM_X"]
    text = content.decode()
    assert not [character for character in text if not character.isprintable() and character != "\n"]


def test_a_word_without_need_is_not_quoted() -> None:
    assert quoted("--max-model-len=8192") == "--max-model-len=8192"
    assert quoted("a b") == "'a b'"
    assert quoted("a\x1bb") == "a\"$(printf '\\033')\"b"
    assert quoted("\udcff") == "\"$(printf '\\377')\""


def test_unknown_words_get_the_usage(tools: Path) -> None:
    path = tools / "reproduce.sh"
    path.write_bytes(script(plan()))
    done = subprocess.run(["sh", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "usage: sh reproduce.sh gate|baseline|candidate\n"


def test_an_arm_that_was_served_with_a_fallback_is_repeated_with_it() -> None:
    made = samples.plan()
    used = FallbackUsed(
        name="other", environment={"VLLM_USE_DEEP_GEMM": "0"}, options={"max-num-seqs": 4}, failed_log="server.failed-1.log",
        instead_of=Diagnosis(code="x", exception="RuntimeError: x", line=1),
    )  # fmt: skip
    argv = ("/opt/bin/vllm", "serve", "m", "--max-num-seqs=4", "--host=127.0.0.1", "--port=9", "--served-model-name=n")
    served = as_served(
        made, {"baseline": samples.engine_facts(), "candidate": samples.engine_facts("candidate", argv=argv, fallback=used)}
    )
    assert served.arms["baseline"] == made.arms["baseline"]
    assert serve_words(served.arms["candidate"], 200) == (
        "env", "VLLM_USE_DEEP_GEMM=0", "vllm", "serve", "m", "--max-num-seqs=4", "--host=127.0.0.1", "--port=8000",
    )  # fmt: skip
