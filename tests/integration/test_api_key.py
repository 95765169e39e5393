"""An engine answers servegate's own clients only: each start has a random key, which is written nowhere."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from servegate.engines.environment import engine_environment
from servegate.engines.readiness import ask
from servegate.engines.vllm import VllmEngine
from servegate.errors import UsageError
from tests.conftest import missing
from tests.fakes import install
from tests.integration.test_command_line import gate_in, nothing_left, started
from tests.integration.test_engine_life import arm_of

LISTENER = """\
#!/bin/sh
printf '%s\\n' "${VLLM_API_KEY-}" >> 'SERVED'
printf '%s\\n' "${OPENAI_API_KEY-}" >> 'SENT'
exec 'ENGINE' "$@"
"""
CHECKS = """\
  logprobs: {corpus: {file: corpus.txt, windows: 2, window_tokens: 64}}
  accuracy: {tasks: [{file: sums.json, shots: 0, questions: 2, max_tokens: 32}], concurrency: 2}
  throughput: {input_tokens: 16, output_tokens: 4, concurrency: [2], judged_at: 2, windows: 2}
"""


@contextmanager
def command_lines() -> Iterator[set[bytes]]:
    """Collect the command line of every process of the machine while the context is open, as anybody may who looks at /proc."""
    seen: set[bytes] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.1):
            for entry in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    seen.add(entry.read_bytes())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("key", ["", "another", "sk-"], ids=["without a key", "with another key", "with a guess"])
def test_a_process_that_does_not_know_the_key_gets_no_answer(tmp_path: Path, key: str) -> None:
    engine = VllmEngine(gate="gate")
    with engine.session(arm_of(install(tmp_path / "bin")), tmp_path / "server.log") as session:
        endpoint, body = session.endpoint, {"model": session.endpoint.model, "prompt": "Hello", "max_tokens": 4}
        for path, sent in (("/v1/completions", body), ("/v1/chat/completions", body), ("/v1/models", None)):
            refused = ask(f"{endpoint.base_url}{path}", 5, sent, api_key=key)
            assert (refused.status, "Unauthorized" in refused.problem) == (401, True)
        assert ask(f"{endpoint.base_url}/v1/completions", 5, body, api_key=endpoint.api_key).status == 200
        assert len(endpoint.api_key) >= 32
        assert endpoint.api_key not in repr(session) + str(endpoint.to_json()) + " ".join(session.facts.argv)


def test_two_starts_have_two_keys(tmp_path: Path) -> None:
    keys = set()
    for number in range(2):
        with VllmEngine(gate="gate").session(arm_of(install(tmp_path / "bin")), tmp_path / f"{number}.log") as session:
            keys.add(session.endpoint.api_key)
    assert len(keys) == 2


def test_an_arm_does_not_choose_its_key() -> None:
    assert "VLLM_API_KEY" not in engine_environment({"VLLM_API_KEY": "the runner's own"}, {})
    with pytest.raises(UsageError, match="'VLLM_API_KEY' cannot be set for an arm"):
        engine_environment({}, {"VLLM_API_KEY": "chosen"})


@pytest.mark.service
@pytest.mark.timeout(300)
def test_every_client_sends_the_key_and_nothing_shows_it(tmp_path: Path) -> None:
    """Prompts, logprobs, lm-eval and the load generator measure; then the keys are looked for in all that was written."""
    if not Path(sys.executable).with_name("lm_eval").is_file():
        missing("lm_eval (the extra `eval`)")
    here = gate_in(tmp_path)
    engine, served, sent = here / "bin/vllm", tmp_path / "served.keys", tmp_path / "sent.keys"
    listener = LISTENER.replace("SERVED", str(served)).replace("SENT", str(sent))
    engine.rename(here / "bin/fake")
    engine.write_text(listener.replace("ENGINE", str(here / "bin/fake")))
    engine.chmod(0o755)
    (here / "corpus.txt").write_text("one two three four five six seven eight nine ten " * 40)
    sums = [{"question": f"What is {number} + {number}?", "answer": f"#### {2 * number}"} for number in (1, 2)]
    (here / "sums.json").write_text(json.dumps({"fewshot": [], "test": sums}))
    gate = here / "servegate.yaml"
    gate.write_text(gate.read_text().replace("policy: quick", f"{CHECKS}policy: quick"))
    # a key of some other service is on the machine: it must not be sent to the engine
    canary = "sk-canary-of-another-service"
    with started(here, "run", "--rounds=1", OPENAI_API_KEY=canary) as process, command_lines() as seen:
        said = "".join(process.communicate(timeout=250))  # lm-eval alone takes 15 s to start, twice
    run = here / "servegate-runs/demo"
    assert process.returncode in (0, 3, 5), said  # what the verdict on two sums is does not matter here
    for arm in ("baseline", "candidate"):
        for check in ("prompts", "logprobs", "accuracy", "throughput"):
            found = json.loads((run / f"arms/{arm}/{check}.json").read_text())
            assert found["status"] == "measured", (arm, check, found["reason"])
        log = (run / f"arms/{arm}/server.log").read_text()
        assert '/v1/completions HTTP/1.1" 200' in log
        assert '" 401' not in log

    keys = {key for key in served.read_text().split() if key}
    assert len(keys) == 2, "one for each start"
    assert "sk-canary-of-another-service" not in sent.read_text()
    assert keys <= set(sent.read_text().split()), "the load generator sent them"
    for tool in (b"lm_eval", b"bench", b"serve"):
        assert any(tool in words for words in seen), tool
    assert not [words for words in seen for key in keys if key.encode() in words], "a command line is everybody's to read"
    written = [path for path in run.rglob("*") if path.is_file()]
    assert any(path.name == "report.html" for path in written)
    for secret in (*keys, "sk-canary-of-another-service"):
        assert [str(path) for path in written if secret.encode() in path.read_bytes()] == []
        assert secret not in said
    assert nothing_left(here)
    assert os.environ.get("VLLM_API_KEY") is None
