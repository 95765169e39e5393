"""What the client costs while 64 answers stream at once: does asking slow a round down, and does it eat the machine?

The fake engine streams answers of 256 tokens with five logprobs each at a fixed pace. The cheapest client there can be, 64
sockets whose bytes are thrown away unread in a process of its own, says how long the engine itself needs; rounds of both
alternate, and the least of each counts, since other work on the machine only ever slows one down.

    wall   (round - cheapest) / round: the client's share of wall time, the target
    cpu    processor seconds of the round's process / wall seconds, of one core: parsing, columns and all

    python benchmarks/client_cost.py [milliseconds from token to token, 20 by default]
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from servegate.checks.contract import MeasureContext
from servegate.checks.prompts.measure import measure
from servegate.checks.prompts.records import Prompt, PromptsInputs, PromptsMeasurement
from servegate.checks.prompts.settings import PromptsSettings
from servegate.domain.evidence import EngineFacts, EngineStatus, ItemStatus
from servegate.domain.workload import CompletionRequest, Endpoint
from servegate.engines.rehearsal import command
from servegate.ports import Probes
from servegate.probes.completion_replies import payload
from servegate.probes.completions import HttpCompletions

IN_FLIGHT = 64
WAVES = 2
TOKENS = 256
REPEATS = 2
TARGET = 0.05


CHEAPEST = """
import selectors, socket, sys, time
address, in_flight, left = ("127.0.0.1", int(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
request, waiting = sys.stdin.buffer.read(), selectors.DefaultSelector()
def ask():
    connection = socket.create_connection(address)
    connection.sendall(request)
    waiting.register(connection, selectors.EVENT_READ)
begin = time.perf_counter()
unasked = left - in_flight
for _ in range(in_flight):
    ask()
while left:
    for key, _ in waiting.select():
        if not key.fileobj.recv(1 << 16):
            waiting.unregister(key.fileobj)
            key.fileobj.close()
            left -= 1
            if unasked:
                unasked -= 1
                ask()
print(time.perf_counter() - begin)
"""
"""Reads answers and looks at none of them; the end of a connection is the end of an answer."""


class Plain(HttpCompletions):
    """The same probe, its requests not streamed."""

    def complete(self, requests, concurrency, advance):  # type: ignore[no-untyped-def]
        """Complete every request without streaming."""
        return super().complete([one.model_copy(update={"stream": False}) for one in requests], concurrency, advance)


def served(pace_ms: float) -> tuple[subprocess.Popen[bytes], str]:
    """Start a fake engine whose every answer has 256 tokens, and return it with its address."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    answers = Path(tempfile.mkdtemp()) / "answers.json"
    answers.write_text(json.dumps({"Question": "abc" * 400}))
    environment = {**os.environ, "FAKE_VLLM_TOKEN_MS": str(pace_ms), "FAKE_VLLM_ANSWERS": str(answers)}
    process = subprocess.Popen((*command(), "serve", "/model", f"--port={port}"), env=environment, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    for _ in range(200):
        try:
            urllib.request.urlopen(f"{url}/health", timeout=1).close()
            return process, url
        except OSError:
            time.sleep(0.05)
    process.kill()
    raise SystemExit("the fake engine did not start")


def prompts() -> PromptsInputs:
    """Return prompts of about 100 tokens in the fake engine's own encoding: three bytes a token."""
    ids = tuple((3 << 24) + int.from_bytes(b"Question: what is it? "[at : at + 3], "big") for at in range(0, 21, 3)) * 14
    return PromptsInputs(
        prompts=tuple(
            Prompt(
                id=f"p{number}",
                category="x",
                messages=({"role": "user", "content": "?"},),
                max_tokens=TOKENS,
                prompt_sha256="",
                token_ids=ids,
                token_ids_sha256="",
            )
            for number in range(IN_FLIGHT * WAVES)
        )
    )


def cheapest_round(url: str, *, stream: bool) -> float:
    """Return the wall seconds of one round of the cheapest client."""
    request = CompletionRequest(
        id="x", token_ids=prompts().prompts[0].token_ids, max_tokens=TOKENS, top_logprobs=5, stream=stream
    )
    body = json.dumps(payload("/model", request)).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    arguments = (url.rpartition(":")[2], str(IN_FLIGHT), str(IN_FLIGHT * WAVES))
    child = (sys.executable, "-I", "-S", "-c", CHEAPEST, *arguments)
    return float(subprocess.run(child, input=head + body, stdout=subprocess.PIPE, check=True, timeout=120).stdout)


def one_round(probe: HttpCompletions, step: int) -> tuple[float, float, PromptsMeasurement]:
    """Measure one round as the check does; return wall and processor seconds, and what was measured."""
    facts = EngineFacts(role="baseline", session=0, status=EngineStatus.READY, version="0")
    context: MeasureContext[PromptsMeasurement] = MeasureContext(
        arm="baseline", step=step, engine=facts, inputs=prompts(), baseline=None, advance=lambda _: None
    )
    probes = Probes(completions=probe, load_generator=None, evaluator=None)  # type: ignore[arg-type]
    begin, cpu = time.perf_counter(), time.process_time()
    found = measure(probes, PromptsSettings(concurrency=IN_FLIGHT), context)
    wall, cpu = time.perf_counter() - begin, time.process_time() - cpu
    assert all(one.status is ItemStatus.TRUNCATED and one.rows == TOKENS for one in found.answers), found.answers[0]
    return wall, cpu, found


def main() -> int:
    """Print both shares; 1 when the wall share of streams misses the target."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pace_ms", type=float, nargs="?", default=20.0, help="milliseconds from token to token (20)")
    process, url = served(parser.parse_args().pace_ms)
    try:
        endpoint = Endpoint(base_url=url, model="/model", tokenizer="")
        settings = {"request_timeout_s": 120.0, "ensure_alive": lambda: None}
        streams, plain = HttpCompletions(endpoint, **settings), Plain(endpoint, **settings)  # type: ignore[arg-type]
        plain.complete(
            [CompletionRequest(id="warm", token_ids=prompts().prompts[0].token_ids, max_tokens=1)], 1, lambda _: None
        )
        shares = {}
        for name, probe in (("streamed", streams), ("not streamed", plain)):
            rounds, least = [], []
            for step in range(REPEATS):
                least.append(cheapest_round(url, stream=probe is streams))
                rounds.append(one_round(probe, step))
            best = min(least)
            wall, cpu, found = min(rounds, key=lambda one: one[0])
            shares[name] = (wall - best) / wall
            timed = sum(one.ttft_ms is not None for one in found.answers)
            print(f"{name:13} {IN_FLIGHT} in flight, {len(found.answers)} answers of {TOKENS} tokens: {wall:.2f} s, cheapest "
                  f"{best:.2f} s; wall {shares[name]:.1%}, cpu {cpu / wall:.1%} of one core; {timed} with times")  # fmt: skip
    finally:
        process.terminate()
        process.wait(10)
    return 0 if shares["streamed"] < TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
