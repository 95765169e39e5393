"""Plants five faults in a load test on a real vLLM and prints what the throughput check says of each.

    python benchmarks/planted_speed.py --engine ~/.cache/servegate/engine-*/bin/vllm --model .demo/smollm2-135m-instruct

Two engines are started, one after the other: as usual, and with `max-num-seqs: 1`. The first is loaded healthy, with the same
prompts twice under one cache salt (a warm prefix cache), beside a process that computes, with shorter answers, and through a
connection that breaks once. Each is compared with the healthy load as if it were a candidate. On a CPU speed is not judged
anyway; what counts here is that the planted fault is named, and that no load with a fault claims a difference.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from servegate.checks.contract import ArmEvidence, Evidence, MeasureContext
from servegate.checks.throughput import CHECK
from servegate.checks.throughput.record import ThroughputMeasurement
from servegate.checks.throughput.settings import ThroughputSettings
from servegate.checks.throughput.shape import SpeedContrast
from servegate.domain.arms import Arm, Role, ServingConfig
from servegate.domain.evidence import EngineFacts, NotMeasured
from servegate.domain.workload import Endpoint
from servegate.engines.vllm import VllmEngine
from servegate.nvml import opened
from servegate.ports import Probes
from servegate.probes import load_generator
from servegate.probes.load_generator import VllmBench
from servegate.probes.telemetry import Watch
from servegate.subprocesses import Completed, run

IN_FLIGHT = 4
SETTINGS = ThroughputSettings(
    input_tokens=300,
    output_tokens=16,
    concurrency=(IN_FLIGHT,),
    judged_at=IN_FLIGHT,
    windows=2,
    requests_per_window=8,
    single=None,
)
"""Prompts are longer than a cache block of the CPU build (128 tokens), else nothing of them is ever cached."""
BUSY = """import os, sys, time
os.fork() and os._exit(0)
os.setsid()
end = time.monotonic() + float(sys.argv[2])
while os.path.exists(sys.argv[1]) and time.monotonic() < end:
    sum(range(100_000))
"""
"""Leaves its parent, since the benchmark's own processes are not others; ends with the file, so that the next load has none."""


@dataclass(frozen=True)
class Lab:
    """A served model, and where raw files go."""

    engine: str
    endpoint: Endpoint
    facts: EngineFacts
    raw: Path

    def load(
        self, name: str, settings: ThroughputSettings = SETTINGS, endpoint: Endpoint | None = None
    ) -> ThroughputMeasurement:
        """Load the engine once, as the gate does."""
        watch = Watch(opened(), ())
        bench = VllmBench(endpoint or self.endpoint, self.engine, self.raw / name, 600, tool, {}, watch=watch)
        probes = Probes(None, bench, None)  # type: ignore[arg-type]
        context: MeasureContext[ThroughputMeasurement] = MeasureContext(name, 0, self.facts, None, None, lambda _n: None)
        assert CHECK.measure is not None, "the one load of these settings is step 0"
        return CHECK.measure(probes, settings, context)


def tool(command: Sequence[str], *, timeout_s: float, environment: Mapping[str, str] | None, check: bool) -> Completed:
    """Run the load generator."""
    return run(command, timeout_s=timeout_s, environment=environment, check=check)


@contextlib.contextmanager
def served(engine: str, model: str, raw: Path, **options: int) -> Iterator[Lab]:
    """Serve the model on this machine."""
    settings = {"model": model, "dtype": "bfloat16", "max-model-len": 512, "enforce-eager": True, **options}
    argv = ("vllm", "serve", *(f"--{k}" if v is True else f"--{k}={v}" for k, v in settings.items()))
    config = ServingConfig(path="planted.yaml", sha256="", options=dict(settings))
    arm = Arm(
        name="baseline", role=Role.BASELINE, session=0, engine_kind="vllm", executable=engine, config=config, argv=argv,
        environment={"VLLM_CPU_KVCACHE_SPACE": "1"},
    )  # fmt: skip
    with VllmEngine(gate="planted", start_timeout_s=600).session(arm, raw / "server.log") as session:
        yield Lab(engine, session.endpoint, session.facts, raw)


def judged(lab: Lab, healthy: ThroughputMeasurement, other: ThroughputMeasurement | NotMeasured) -> tuple[list[str], str]:
    """Return the codes of what was found, and the claim about speed."""
    evidence = Evidence(ArmEvidence(lab.facts, None, healthy), ArmEvidence(lab.facts, None, other))
    comparison = CHECK.compare(evidence, SETTINGS)
    if isinstance(comparison, NotMeasured):
        return [comparison.reason.message], "-"
    found = [finding.code.removeprefix("throughput/") for finding in CHECK.judge(comparison, SETTINGS)]
    point = SpeedContrast.model_validate(comparison.candidate).at(IN_FLIGHT)
    return found, point.claim if point else "not paired"


def busy(measured: ThroughputMeasurement) -> str:
    """Return how many CPU cores others kept busy, a window."""
    seen = [point.telemetry.foreign_cpu_cores if point.telemetry else None for point in measured.points]
    return ", ".join("unknown" if cores is None else f"{cores:.1f}" for cores in seen)


def warm_cache(lab: Lab) -> ThroughputMeasurement:
    """Load twice with the same prompts under one salt; returns the second time."""
    with mock.patch.object(load_generator, "_salt", return_value="one-salt"):
        lab.load("cold")
        return lab.load("warm")


def competing(lab: Lab, seconds: float = 90.0) -> ThroughputMeasurement:
    """Load while processes that are not ours keep every core busy."""
    with tempfile.NamedTemporaryFile() as flag:
        for _ in range(os.cpu_count() or 1):
            subprocess.run([sys.executable, "-c", BUSY, flag.name, str(seconds)], check=True)
        return lab.load("competing")


def shorter(lab: Lab) -> ThroughputMeasurement:
    """Load with a tool that asks for half as many tokens, as an engine that stops early would bring."""
    wrapper = lab.raw / "shorter"
    text = '#!/bin/bash\nexec "{}" "${{@/--random-output-len=16/--random-output-len=8}}"\n'
    wrapper.write_text(text.format(Path(lab.engine).expanduser().resolve(strict=False)))
    wrapper.chmod(0o755)
    return Lab(str(wrapper), lab.endpoint, lab.facts, lab.raw).load("short")


def failing(lab: Lab) -> ThroughputMeasurement:
    """Load through a connection that breaks in the middle of one stream."""
    with breaking_proxy(lab.endpoint, broken=IN_FLIGHT * 2 + 3) as endpoint:
        return lab.load("failing", endpoint=endpoint)


@contextlib.contextmanager
def breaking_proxy(endpoint: Endpoint, broken: int) -> Iterator[Endpoint]:
    """Pass connections on; of the `broken`th streamed request only the head of the answer comes through."""
    host, _, port = endpoint.base_url.removeprefix("http://").partition(":")
    listener = socket.create_server(("127.0.0.1", 0))
    streams, lock = [0], threading.Lock()

    def pump(source: socket.socket, target: socket.socket, asks: bool, state: dict[str, bool]) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if asks and b'"stream"' in data:
                    with lock:
                        streams[0] += 1
                        state["break"] = streams[0] == broken
                target.sendall(data)
                if not asks and state.get("break"):
                    break
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server, state = socket.create_connection((host, int(port))), {"break": False}
                for source, target, asks in ((client, server, True), (server, client, False)):
                    threading.Thread(target=pump, args=(source, target, asks, state), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield endpoint.model_copy(update={"base_url": f"http://127.0.0.1:{listener.getsockname()[1]}"})
    finally:
        listener.close()


PLANTED = {"warm-cache": warm_cache, "failed-requests": failing, "busy-machine": competing, "wrong-lengths": shorter}
"""Code that must be found -> what plants it."""


def main() -> int:
    """Plant each fault; exit 1 when one is not named, or a load with a fault claims a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--model", required=True)
    arguments = parser.parse_args()
    engine, model = str(Path(arguments.engine).expanduser()), str(Path(arguments.model).resolve())
    missed = 0
    with tempfile.TemporaryDirectory() as directory:
        with served(engine, model, Path(directory) / "usual") as lab:
            healthy = lab.load("healthy")
            found, claim = judged(lab, healthy, lab.load("again"))
            print(f"{'nothing planted':28} {claim:10} {', '.join(found)}  [cores of others: {busy(healthy)}]", flush=True)
            for code, plant in PLANTED.items():
                started = time.monotonic()
                measured = plant(lab)
                found, claim = judged(lab, healthy, measured)
                ok = code in found and claim == "INVALID"
                missed += not ok
                said = f"{', '.join(found)}  [{time.monotonic() - started:.0f} s; cores of others: {busy(measured)}]"
                print(f"{code:28} {claim:10} {said}{'' if ok else '  MISSED'}", flush=True)
        with served(engine, model, Path(directory) / "one", **{"max-num-seqs": 1}) as lab:
            found, claim = judged(lab, healthy, lab.load("one"))
            ok = "queued" in found
            missed += not ok
            print(f"{'max-num-seqs: 1':28} {claim:10} {', '.join(found)}{'' if ok else '  MISSED'}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
