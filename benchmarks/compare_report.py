"""How long comparing and reporting take: PROMPTS prompts x 2 arms x 2 rounds of 1 KB answers, on one process.

    python benchmarks/compare_report.py [--prompts 10000] [--differing 0.5]

Writes a run directory into a temporary directory, then runs `servegate compare` and `servegate report` on it in a child process
each, as a user would, and prints their wall time and peak memory. `--differing`: share of prompts whose answers differ
between the arms (a fifth of those also differ within each arm); half of the differing ones change a number.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from made_up import arm, write_arm

from servegate.artifacts import RunDirectory
from servegate.checks.prompts.records import Answer, Prompt, PromptsInputs, PromptsMeasurement, Round
from servegate.checks.prompts.settings import PromptsSettings
from servegate.domain.evidence import ItemStatus
from servegate.domain.plan import Fingerprints, Knob, ModelSource, Plan, Step, sha256_of

TEXT = "the engine serves a model with weights that were stored in fewer bits and its answers are compared word by word"
WORDS = TEXT.split()
TOKENS = 256
BUDGET_S, BUDGET_GIB = 30, 1.5


def answer_text(rng: random.Random, number: int) -> str:
    """Return about 1 KB of prose with a few numbers in it."""
    words = [rng.choice(WORDS) for _ in range(190)]
    words[20], words[90] = f"{number} ms", f"{rng.randrange(2000)}"
    return " ".join(words)


def measurement(arm: str, prompts: int, differing: float) -> PromptsMeasurement:
    """Return two rounds of one arm; columns as large as real ones."""
    answers, rows = [], 0
    for number in (0, 1):
        for index in range(prompts):
            rng = random.Random(index)
            text = answer_text(rng, index)
            kind = random.Random(-index - 1).random()
            if arm == "candidate" and kind < differing:
                text = text.replace(f"{index} ms", f"{index + 1} ms") if kind < differing / 2 else text.replace("model", "net")
            if kind < differing / 5 and number:
                text += " and so it is"
            sha = sha256_of(index)
            answers.append(
                Answer(
                    prompt_id=f"p{index:06d}", round=number, prompt_sha256=sha, token_ids_sha256=sha, sampling_sha256="s",
                    status=ItemStatus.OK, text=text, completion_tokens=TOKENS, first_row=rows, rows=TOKENS,
                )
            )  # fmt: skip
            rows += TOKENS
    ids = np.tile(np.arange(TOKENS, dtype="<i4"), 2 * prompts)
    columns = {
        "token_id": ids,
        "logprob": np.full(rows, -0.1, dtype="<f4"),
        "top_id": np.repeat(ids[:, None], 5, axis=1),
        "top_logprob": np.full((rows, 5), -0.1, dtype="<f4"),
    }
    rounds = tuple(Round(round=number, name=f"round {number}", concurrency=64, seconds=1.0) for number in (0, 1))
    return PromptsMeasurement(rounds=rounds, answers=tuple(answers), columns=columns)


def write(root: Path, prompts: int, differing: float) -> None:
    """Write the run directory."""
    names = ("baseline", "candidate")
    plan = Plan(
        gate="bench", policy="standard", arms={name: arm(name) for name in names},
        knobs=(Knob(name="quantization", baseline=None, candidate="fp8", source="serving config"),), settings={},
        checks={"prompts": PromptsSettings().to_json()}, inputs={},
        schedule=tuple(Step(session=0, arm=name, check="prompts", step=step) for name in names for step in (0, 1)),
        model=ModelSource(source="m", revision=None, revision_reason="made up"),
        fingerprints=Fingerprints(workload="1", policy="2", arms=dict.fromkeys(names, "3")), rounds=2,
    )  # fmt: skip
    run = RunDirectory.create(root)
    run.write_plan(plan)
    run.write_run("complete", {"stages": []}, gate=plan.gate, plan=plan.fingerprint())
    inputs = PromptsInputs(
        prompts=tuple(
            Prompt(
                id=f"p{index:06d}", category="bench", messages=({"role": "user", "content": f"question {index}"},),
                max_tokens=TOKENS, prompt_sha256=sha256_of(index), token_ids=(1, 2, 3), token_ids_sha256=sha256_of(index),
                token_ids_sha256_reason=None,
            )
            for index in range(prompts)
        )
    )  # fmt: skip
    run.write_inputs(plan, "prompts", inputs)
    for name in names:
        write_arm(run, plan, name)
        run.write_measurement(plan, name, "prompts", measurement(name, prompts, differing), 1.0)


def timed(*arguments: str) -> float:
    """Run one verb in a child and return its wall time in seconds."""
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "servegate", *arguments], check=False, stdout=subprocess.DEVNULL)
    if done.returncode not in (0, 3):  # pass or review
        sys.exit(f"servegate {arguments[0]} ended with {done.returncode}")
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=int, default=10_000)
    parser.add_argument("--differing", type=float, default=0.5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "run"
        write(root, options.prompts, options.differing)
        seconds = {verb: timed(verb, str(root)) for verb in ("compare", "report")}
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        peak, processor_s = used.ru_maxrss / 2**20, used.ru_utime + used.ru_stime
        page = (root / "report" / "report.html").stat().st_size / 2**20
    total = sum(seconds.values())
    print(f"{options.prompts} prompts x 2 arms x 2 rounds of 1 KB, {options.differing:.0%} differ between the arms")
    print(f"compare {seconds['compare']:.1f} s, report {seconds['report']:.1f} s, together {total:.1f} s (budget {BUDGET_S} s)")
    print(f"processor time of both {processor_s:.1f} s (less than the wall time where others use the machine)")
    print(f"peak memory {peak:.2f} GiB (budget {BUDGET_GIB} GiB), report.html {page:.1f} MiB")


if __name__ == "__main__":
    main()
