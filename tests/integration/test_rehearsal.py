"""Every bad ending that the fake engine can rehearse, by `servegate run`: outcome, exit code, message, nobody left.

The candidate alone has the fault. Each takes a few seconds; a hang takes the timeouts of this gate.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import psutil
import pytest

from servegate.engines.rehearsal import FAULTS
from servegate.subprocesses import TAG
from tests.integration.test_command_line import candidate, here, nothing_left, run_json, servegate

__all__ = ["here"]

ENDINGS = {
    "die-at-start": ("die-at-start", 5, "a fault of the runner.*Free memory on device"),
    "die-at-PHASE": ("die-at-compile", 5, "the candidate engine did not start: RuntimeError: rehearsed.* phase compile"),
    "hang-at-PHASE": ("hang-at-load", 5, "the candidate engine did not start: not ready after 6 s, while loading the model"),
    "never-ready": ("never-ready", 5, "did not start: not ready after 6 s"),
    "wrong-model": ("wrong-model", 5, "serves 'another-model'"),
    "ignore-sigterm-and-fork": ("ignore-sigterm-and-fork", 0, "no damage found.*no model was served"),
    "flip-some-answers": ("flip-some-answers", 1, "contracts kept in every baseline round and broken"),
    "garbage-text": ("garbage-text", 1, "contract|degenerate"),
    "die-after-N": ("die-after-5", 5, "stopped while it was measured: RuntimeError: CUDA error"),
    "hang-after-N": ("hang-after-5", 5, "no token came"),
    "hang-after-N-tokens": ("hang-after-40-tokens", 5, "no token came"),
    "sleep-after-N": ("sleep-after-5", 5, "put to sleep"),
    "http-500-after-N": ("http-500-after-5", 5, "HTTP 500|no token came"),
    "garbage-after-N": ("garbage-after-5", 5, "no JSON|no token came"),
    "stream-error-after-N": ("stream-error-after-5", 5, "no token came"),
    "stream-cut-after-N": ("stream-cut-after-5", 5, "no token came"),
}


ELSEWHERE = {"forget-the-middle": "test_retrieval.py", "break-when-sampled": "test_sampled.py"}
"""Faults that only one check sees, with the test of that check's own gate, in this directory."""


def test_every_fault_that_is_listed_has_its_ending() -> None:
    assert FAULTS.keys() == ENDINGS.keys() | ELSEWHERE.keys()
    for fault, path in ELSEWHERE.items():
        assert fault in Path(__file__).with_name(path).read_text("utf-8")


@pytest.mark.parametrize("listed", ENDINGS)
def test_an_ending(here: Path, listed: str) -> None:
    fault, code, said = ENDINGS[listed]
    candidate(here, fault)
    config = (here / "servegate.yaml").read_text()
    config = config.replace("start_timeout_s: 20, request_timeout_s: 5", "start_timeout_s: 6, request_timeout_s: 2")
    (here / "servegate.yaml").write_text(config)
    started = time.monotonic()
    done = servegate(here, "run")
    seconds = time.monotonic() - started
    told = done.stdout + done.stderr
    assert done.returncode == code, told
    headline = run_json(here, "verdict.json")["data"]["headline"]
    assert re.search(said, headline), (headline, told)
    assert "Traceback" not in told
    assert seconds < 60
    assert nothing_left(here)
    assert carriers_of(here) == []
    facts = json.loads((here / "servegate-runs/demo/arms/candidate/engine.json").read_text())
    assert facts["status"] == ("failed" if code == 5 else "ready")


def carriers_of(here: Path) -> list[int]:
    """Return processes of any start of this gate: its model's nonce is the tag that they carry."""
    tags = set()
    for path in (here / "servegate-runs/demo/arms").glob("*/engine.json"):
        for word in json.loads(path.read_text())["data"].get("argv", ()):
            if word.startswith("--served-model-name="):
                tags.add(word.rpartition("-")[2])
    assert tags
    found = []
    for process in psutil.process_iter():
        try:
            tag = process.environ().get(TAG)
        except (psutil.Error, OSError):
            continue
        if tag in tags and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found
