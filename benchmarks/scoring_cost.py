"""What scoring windows costs the client: processor seconds of a whole round, and what they are spent on.

A server in a process of its own answers each window with a body made before, in the shape of a real one (k = 1, 2,048
positions, keep-alive), one every 10 ms; the check's own `measure` asks it, 8 in flight. The processor time of this process
counts, since a fake engine's wall time says nothing: beside it stands the share of a wall time that an engine was seen to
need (`docs/hardware.md`: 5.4 s for 204,700 positions is the fastest).

    python benchmarks/scoring_cost.py [--windows 100] [--rounds 5] [--against PATH] [--profile]

`--against PATH` names the `src` folder of another servegate: both are measured in turns, each round in a process of its own,
their columns are compared byte for byte, and the ratio is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import hashlib
import json
import os
import pstats
import subprocess
import sys
from pathlib import Path

from prompt_logprobs_parsing import POSITIONS, answer

SEEN_WALL_S, TARGET = 5.4, 0.05
PACE_S, IN_FLIGHT = 0.01, 8


def windows(count: int) -> list[tuple[tuple[int, ...], bytes]]:
    """Return texts as token ids, each with the answer of an engine that scored it: texts differ in their second token."""
    ids, content = answer(1)
    made = []
    for number in range(count):
        one = (ids[0], 1_000_000 + number, *ids[2:])
        made.append(
            (one, content.replace(b'"%d"' % ids[1], b'"%d"' % one[1]).replace(b"[%d,%d," % ids[:2], b"[%d,%d," % one[:2]))
        )
    return made


async def serve(count: int) -> None:
    """Answer each window with its body; print the port first."""
    bodies = {one[1]: body for one, body in windows(count)}
    one_at_a_time = asyncio.Lock()

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                size = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
                asked = json.loads(await reader.readexactly(size))["prompt"]
                content = bodies.get(asked[1], b"") if len(asked) == POSITIONS else short(asked)
                async with one_at_a_time:
                    await asyncio.sleep(PACE_S)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content))
                writer.write(content)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(client, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def short(ids: list[int]) -> bytes:
    """Return the answer to the question what the engine supports."""
    positions = [None, *({str(one): {"logprob": -1.0, "rank": 1, "decoded_token": "x"}} for one in ids[1:])]
    return json.dumps({"choices": [{"index": 0, "prompt_logprobs": positions, "prompt_token_ids": ids}]}).encode()


def one_round(port: int, count: int, profile: bool) -> dict[str, object]:
    """Score all windows once; return processor and wall seconds and a digest of every column."""
    from servegate.checks.contract import MeasureContext
    from servegate.checks.logprobs.measuring import measure
    from servegate.checks.logprobs.record import LogprobsInputs, LogprobsMeasurement, WindowInput
    from servegate.checks.logprobs.settings import LogprobsSettings
    from servegate.domain.evidence import EngineFacts, EngineStatus, sha256_of_token_ids
    from servegate.domain.workload import Endpoint
    from servegate.ports import Probes
    from servegate.probes.prompt_logprobs import HttpPromptLogprobs

    inputs = LogprobsInputs(
        windows=tuple(
            WindowInput(window_id=f"w{n}", document_id=f"w{n}", token_ids=ids, token_ids_sha256=sha256_of_token_ids(ids))
            for n, (ids, _) in enumerate(windows(count))
        )
    )
    endpoint = Endpoint(base_url=f"http://127.0.0.1:{port}", model="/model", tokenizer="")
    probe = HttpPromptLogprobs(endpoint, request_timeout_s=60.0, ensure_alive=lambda: None)
    probes = Probes(completions=None, load_generator=None, evaluator=None, prompt_logprobs=probe)  # type: ignore[arg-type]
    facts = EngineFacts(role="baseline", session=0, status=EngineStatus.READY, version="0")
    context: MeasureContext[LogprobsMeasurement] = MeasureContext(
        arm="baseline", step=0, engine=facts, inputs=inputs, baseline=None, advance=lambda _: None
    )
    settings = LogprobsSettings.model_validate({"own_traffic": None, "concurrency": IN_FLIGHT})
    recorder = cProfile.Profile() if profile else None
    if recorder:
        recorder.enable()
    found = measure(probes, settings, context)
    if recorder:
        recorder.disable()
        pstats.Stats(recorder, stream=sys.stderr).sort_stats("tottime").print_stats(25)
    assert found.passes[0].positions == count * (POSITIONS - 1), [one.error for one in found.windows][:3]
    columns = b"".join(name.encode() + found.columns[name].tobytes() for name in sorted(found.columns))
    return {
        "cpu_s": found.passes[0].client_cpu_s, "wall_s": found.passes[0].wall_s, "positions": found.passes[0].positions,
        "digest": hashlib.sha256(columns + found.model_dump_json(include={"windows"}).encode()).hexdigest(),
    }  # fmt: skip


def child(arguments: list[str], source: Path | None) -> dict[str, object]:
    """Run one round in a process of its own, of the servegate under `source`."""
    path = os.pathsep.join(filter(None, (str(source) if source else "", os.environ.get("PYTHONPATH", ""))))
    done = subprocess.run(
        (sys.executable, __file__, *arguments), env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, check=True
    )
    found: dict[str, object] = json.loads(done.stdout)
    return found


def main() -> int:
    """Print seconds, shares and the ratio; 1 when the share misses the target or a column differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--windows", type=int, default=100, help="windows a round (100)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, each in a process of its own (5)")
    parser.add_argument("--against", type=Path, help="the `src` folder of another servegate, measured in turns with this one")
    parser.add_argument("--profile", action="store_true", help="print what a round is spent on")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        asyncio.run(serve(asked.windows))
        return 0
    if asked.port:
        print(json.dumps(one_round(asked.port, asked.windows, asked.profile)))
        return 0
    server = subprocess.Popen((sys.executable, __file__, "--serve", f"--windows={asked.windows}"), stdout=subprocess.PIPE)
    try:
        port = int((server.stdout or sys.stdin).readline())  # type: ignore[arg-type]
        arguments = [f"--port={port}", f"--windows={asked.windows}", *(["--profile"] if asked.profile else [])]
        sources = {"this": None} | ({"other": asked.against.resolve()} if asked.against else {})
        found: dict[str, list[dict[str, object]]] = {name: [] for name in sources}
        for _ in range(asked.rounds):
            for name, source in sources.items():
                found[name].append(child(arguments, source))
    finally:
        server.kill()
        server.wait()
    least = {}
    for name, rounds in found.items():
        cpu = sorted(float(str(one["cpu_s"])) for one in rounds)
        least[name] = cpu[0]
        print(f"{name:5} {rounds[0]['positions']} positions, {len(rounds)} rounds: client {cpu[0]:.3f} s of processor time at "
              f"least, {cpu[len(cpu) // 2]:.3f} s in the middle; {cpu[0] / SEEN_WALL_S:.1%} of {SEEN_WALL_S} s; wall here "
              f"{min(float(str(one['wall_s'])) for one in rounds):.2f} s")  # fmt: skip
    equal = len({one["digest"] for rounds in found.values() for one in rounds}) == 1
    if "other" in least:
        print(f"other / this: {least['other'] / least['this']:.2f}; columns {'equal' if equal else 'DIFFER'} byte for byte")
    return 0 if equal and least["this"] / SEEN_WALL_S < TARGET else 1


if __name__ == "__main__":
    raise SystemExit(main())
