"""How long it takes to compare the accuracy of two arms: QUESTIONS questions x ROUNDS rounds x 2 arms x 2 filters.

    python benchmarks/accuracy_compare.py [--questions 1319] [--rounds 4]

Writes a run directory into a temporary directory, with answers of about 450 bytes as GSM8K has them, 5 % of them flipped, runs
`servegate compare` on it in a child process, as a user would, and prints its wall time, processor time and peak memory.
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

from made_up import arm, write_arm

from servegate.artifacts import RunDirectory
from servegate.checks.accuracy.record import AccuracyInputs, AccuracyMeasurement, Document, Response, Row, TaskRecord
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.domain.evidence import ItemStatus
from servegate.domain.plan import Fingerprints, Knob, ModelSource, Plan, Step, sha256_of

NAMES = ("baseline", "candidate")
FILTERS = ("strict-match", "flexible-extract")
BUDGET_S, BUDGET_MB = 5, 500


def measurement(arm: str, questions: int, rounds: int) -> AccuracyMeasurement:
    """Return one arm's answers; hashes as long as real ones."""
    rng = random.Random(arm)
    hashes = [[sha256_of([kind, index]) for kind in range(3)] for index in range(questions)]
    responses, rows = [], []
    for number in range(rounds):
        for index, (doc, target, prompt) in enumerate(hashes):
            right = (index % 10 < 8) != (rng.random() < 0.05)
            value = str(index if right else index + 1)
            text = " ".join(f"step {step} takes {rng.randrange(100)} of them" for step in range(14)) + f"\n#### {value}"
            responses.append(Response(task="gsm8k", round=number, doc_id=index, status=ItemStatus.OK, text=text))
            rows += [
                Row(
                    task="gsm8k", round=number, doc_id=index, filter=name, doc_hash=doc, target_hash=target,
                    prompt_hash=prompt, extracted=value, score=float(right),
                )
                for name in FILTERS
            ]  # fmt: skip
    task = TaskRecord(
        task="gsm8k", version="3", shots=5, metric="exact_match", filters=FILTERS, judged_filter=FILTERS[1], max_length=4096,
        max_tokens=256, concurrency=64, add_bos=False, seed=1, lm_eval="0.4.13", higher_is_better=True,
    )  # fmt: skip
    documents = tuple(
        Document(task="gsm8k", doc_id=index, question="how many? " * 25, target=f"#### {index}") for index in range(questions)
    )
    return AccuracyMeasurement(tasks=(task,), responses=tuple(responses), rows=tuple(rows), documents=documents)


def write(root: Path, questions: int, rounds: int) -> None:
    """Write the run directory."""
    plan = Plan(
        gate="bench", policy="standard", arms={name: arm(name) for name in NAMES},
        knobs=(Knob(name="quantization", baseline=None, candidate="fp8", source="serving config"),), settings={},
        checks={"accuracy": AccuracySettings().to_json()}, inputs={},
        schedule=tuple(
            Step(session=int(name != "baseline"), arm=name, check="accuracy", step=step)
            for name in NAMES
            for step in range(rounds)
        ),
        model=ModelSource(source="m", revision=None, revision_reason="made up"),
        fingerprints=Fingerprints(workload="1", policy="2", arms=dict.fromkeys(NAMES, "3")), rounds=rounds,
    )  # fmt: skip
    run = RunDirectory.create(root)
    run.write_plan(plan)
    run.write_run("complete", {"stages": []}, gate=plan.gate, plan=plan.fingerprint())
    run.write_inputs(plan, "accuracy", AccuracyInputs())
    for name in NAMES:
        write_arm(run, plan, name)
        run.write_measurement(plan, name, "accuracy", measurement(name, questions, rounds), 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=1_319)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "run"
        write(root, options.questions, options.rounds)
        begin = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "servegate", "compare", str(root)], check=False, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - begin
        if done.returncode not in (0, 3):  # pass or review
            sys.exit(f"servegate compare ended with {done.returncode}")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{options.questions} questions x {options.rounds} rounds x 2 arms x {len(FILTERS)} filters")
    print(f"compare {seconds:.2f} s (budget {BUDGET_S} s), processor time {used.ru_utime + used.ru_stime:.2f} s")
    print(f"peak memory {used.ru_maxrss / 1e3 * 1.024:.0f} MB (budget {BUDGET_MB} MB)")


if __name__ == "__main__":
    main()
