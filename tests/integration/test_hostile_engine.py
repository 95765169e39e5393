"""An engine that prints what no engine should: nothing hangs, nothing grows, and nothing of it acts on whoever reads along."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from servegate.engines import server, vllm
from servegate.engines.log_bound import bounded
from servegate.engines.server import EngineFailedError
from servegate.engines.vllm import VllmEngine
from servegate.errors import ServegateError
from tests.fakes import install
from tests.integration.test_command_line import gate_in, nothing_left, started
from tests.integration.test_engine_life import arm_of
from tests.unit.publish.test_workflow_commands import runner_commands

COMMANDS = (
    "::set-output name=verdict::pass",
    "::add-mask::PASS",
    "##[error]gone",
    "::stop-commands::x",
    "\x1b[31mred\x1b]0;title\x07\x1b[2J",
    "\x9b31m \u202egnp.exe \u2028::error::x",
)
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029]")


def printing(place: Path, script: str) -> Path:
    """Install an engine that first runs a Python script (its output is the log) and then is the fake engine."""
    fake = install(place / "fake")
    engine = place / "engine"
    (place / "prints.py").write_text("import os, sys\nout = lambda data: os.write(1, data)\n" + script)
    engine.write_text(f"#!/bin/sh\n'{sys.executable}' '{place / 'prints.py'}'\nexec '{fake}' \"$@\"\n")
    engine.chmod(0o755)
    return engine


@pytest.mark.parametrize(
    "script",
    [
        "[out(b'x' * 65536) for _ in range(48)]",  # three MiB without a line end
        "[out(b'\\n' * 65536) for _ in range(48)]",
        "[out(b'\\xff\\xfe\\x00\\xc3(' * 8192) for _ in range(32)]",
        "[out(b'\\x1b]0;' + b'y' * 60000) for _ in range(32)]; out(b'\\n')",
    ],
    ids=["no line end", "line ends alone", "no UTF-8", "an escape without end"],
)
def test_a_start_is_followed_through_whatever_is_printed(tmp_path: Path, script: str) -> None:
    """A line that never ended kept the log's reader at its beginning: every later phase was told as the first."""
    arm = arm_of(printing(tmp_path, script + "\nout(b'\\n')"), fault="hang-at-warm_up")
    with (
        pytest.raises(EngineFailedError, match="it was warming up") as caught,
        VllmEngine(gate="gate", start_timeout_s=5).session(arm, tmp_path / "server.log"),
    ):
        pass
    assert caught.value.facts.kv_cache_tokens == 93_184
    assert caught.value.facts.contradictions == ()


def test_gigabytes_of_log_stay_small_and_its_end_is_still_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "bounded", lambda path: bounded(path, 8 << 20, 2 << 20, 0.02))
    monkeypatch.setattr(server, "MAX_LOG_BYTES", 1 << 20)
    script = (
        "import time\n"
        "for _ in range(400):\n    out(b'noise ' * 20000 + b'\\n')\n"
        "time.sleep(0.5)\n"
        "out(b'(EngineCore pid=9) ERROR 11-29 18:02:11 [core.py:1] ValueError: the real cause\\n')\nos._exit(0)\n"
    )
    engine = printing(tmp_path, script)
    engine.write_text(engine.read_text().replace("exec ", "exit 3; exec "))
    log = tmp_path / "server.log"
    with pytest.raises(EngineFailedError, match="the real cause"), VllmEngine(gate="gate").session(arm_of(engine), log):
        pass
    assert log.stat().st_size < 9 << 20
    assert b"what stood here is left out" in log.read_bytes()


def test_what_an_engine_prints_is_inert_on_the_runner_and_in_what_is_said(tmp_path: Path) -> None:
    here = gate_in(tmp_path)
    engine = here / "bin/vllm"
    engine.rename(here / "bin/fake")
    lines = "\n".join(COMMANDS)
    shout = "\n".join(f"(EngineCore pid=9) ERROR 11-29 18:02:11 [core.py:1] ValueError: {line}" for line in COMMANDS)
    (here / "shout").write_text(f"{lines}\n{shout}\n")
    engine.write_text(f"#!/bin/sh\ncat '{here / 'shout'}'\ncat '{here / 'shout'}' >&2\nexit 1\n")
    engine.chmod(0o755)
    with started(here, "run", "--rounds=1") as process:
        said = "".join(process.communicate(timeout=60))
    assert process.returncode == 5, said
    assert "set-output" in said or "add-mask" in said or "red" in said, "the cause is told"
    assert runner_commands(said) == []
    assert not CONTROLS.search(said.replace("\n", "").replace("\r", ""))
    for path in (here / "servegate-runs/demo/report").rglob("*.md"):
        text = path.read_text()
        assert not CONTROLS.search(text.replace("\n", "").replace("\t", "")), path
        assert runner_commands(text) == [], path
    assert nothing_left(here)


def test_an_error_that_names_the_engine_never_names_its_key(tmp_path: Path) -> None:
    """Killed in the middle and refused: what is raised and recorded then is made of commands, logs and addresses."""
    for fault in ("die-after-2", "http-500-after-2", "garbage-after-2", "die-at-load"):
        try:
            with VllmEngine(gate="gate", request_timeout_s=3).session(
                arm_of(install(tmp_path / fault), fault=fault), tmp_path / f"{fault}.log"
            ) as session:
                key = session.endpoint.api_key
                assert len(key) >= 32
                for _ in range(4):
                    session.ensure_generating()
        except ServegateError as error:
            told = f"{error} {error.what} {error.why} {error.advice} {getattr(error, 'facts', '')!r}"
            if fault != "die-at-load":
                assert key not in told
            assert "VLLM_API_KEY" not in told
            assert "Bearer" not in told
