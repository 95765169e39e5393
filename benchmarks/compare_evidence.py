"""How long judging the two evidence checks takes: accuracy rows and prompt logprobs of a whole gate, in one process.

    python benchmarks/compare_evidence.py [--questions 1319] [--rounds 4] [--windows 100] [--window-tokens 2048] [--top-k 1]

Writes a run directory into a temporary directory: `questions` x `rounds` x 2 arms of lm-eval rows under two filters, and
`windows` x `window-tokens` scored positions in each arm (one round, so 204,800 x 2 by default). Then it runs `servegate
compare` on it in a child process, as a user would, and prints wall time, processor time and peak memory against the budget of
5 s and 500 MB. Exit code 1 when the budget is missed. Other work on the machine only ever slows it down: the
processor time says how much of the wall time was its own. `--logprob-rounds 2` is a whole gate, with each arm's noise.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from made_up import arm, write_arm

from servegate.artifacts import RunDirectory
from servegate.checks.accuracy.record import AccuracyMeasurement, Response, Row, TaskRecord
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.logprobs.record import LogprobsInputs, LogprobsMeasurement, Window
from servegate.checks.logprobs.settings import LogprobsSettings
from servegate.domain.evidence import ItemStatus, sha256_of_token_ids
from servegate.domain.plan import Fingerprints, Knob, ModelSource, Plan, Step, sha256_of

ARMS = ("baseline", "candidate")
FILTERS = ("strict-match", "flexible-extract")
BUDGET_S, BUDGET_MB = 5.0, 500
QWEN3_8B = {"vocab_size": 151_936, "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32,
            "num_key_value_heads": 8, "intermediate_size": 12_288, "head_dim": 128}  # fmt: skip


def accuracy(arm: str, questions: int, rounds: int) -> AccuracyMeasurement:
    """Return rows in which an arm differs from itself in some questions and from the other arm in a few more."""
    rng = np.random.default_rng(len(arm))
    right = np.random.default_rng(1).random(questions) < 0.7
    task = TaskRecord(
        task="gsm8k", version="3", shots=5, metric="exact_match", filters=FILTERS, judged_filter=FILTERS[1], max_length=4096,
        max_tokens=256, concurrency=64, add_bos=False, seed=1234, lm_eval="0.4.13",
    )  # fmt: skip
    hashes = [sha256_of(number) for number in range(questions)]
    responses, rows = [], []
    for number in range(rounds):
        noisy = rng.random(questions) < 0.03
        for doc in range(questions):
            correct = bool(right[doc] ^ noisy[doc])
            answer = doc if correct else doc + 1
            text = f"{'So we add the two numbers and get the answer that was asked for. ' * 6}\n#### {answer}"
            responses.append(Response(task="gsm8k", round=number, doc_id=doc, status=ItemStatus.OK, text=text))
            rows += [
                Row(
                    task="gsm8k", round=number, doc_id=doc, filter=name, doc_hash=hashes[doc], target_hash=hashes[doc],
                    prompt_hash=hashes[doc], extracted=str(answer), score=float(correct),
                )
                for name in FILTERS
            ]  # fmt: skip
    return AccuracyMeasurement(tasks=(task,), responses=tuple(responses), rows=tuple(rows))


def logprobs(arm: str, options: argparse.Namespace) -> LogprobsMeasurement:
    """Return scored windows of one text; the candidate's logprobs are a little off."""
    length, k = options.window_tokens, options.top_k
    size = options.windows * length * options.logprob_rounds
    ids = np.tile(np.arange(length, dtype="<i4"), size // length)
    values = np.tile(-np.random.default_rng(7).exponential(2.0, options.windows * length), options.logprob_rounds)
    values += np.random.default_rng(len(arm)).normal(0.0, 0.02, size) if arm == "candidate" else 0.0
    rank = np.random.default_rng(8).integers(1, 4, size).astype("<i4")
    sha = sha256_of_token_ids(tuple(range(length)))
    windows = tuple(
        Window(
            window_id=f"w{number % options.windows:05d}", document_id="d00000", round=number // options.windows,
            token_ids_sha256=sha, status=ItemStatus.OK, first_row=number * length, rows=length,
        )
        for number in range(options.windows * options.logprob_rounds)
    )  # fmt: skip
    columns = {
        "token_id": ids,
        "logprob": np.minimum(values, 0.0).astype("<f4"),
        "rank": rank,
        "top_id": ids[:, None] + np.arange(k, dtype="<i4")[None, :],
        "top_logprob": np.minimum(values, 0.0).astype("<f4")[:, None] - np.arange(k, dtype="<f4")[None, :],
    }
    columns["logprob"][::length] = np.nan  # nothing precedes a window's first token
    return LogprobsMeasurement(windows=windows, top_k=k, columns=columns)


def write(root: Path, options: argparse.Namespace) -> None:
    """Write the run directory."""
    plan = Plan(
        gate="bench", policy="standard", arms={name: arm(name) for name in ARMS},
        knobs=(Knob(name="quantization", baseline=None, candidate="fp8", source="serving config"),), settings={},
        checks={"accuracy": AccuracySettings().to_json(), "logprobs": LogprobsSettings().to_json()}, inputs={},
        schedule=tuple(Step(session=0, arm=name, check="accuracy", step=0) for name in ARMS),
        model=ModelSource(source="m", revision=None, revision_reason="made up", config=QWEN3_8B),
        fingerprints=Fingerprints(workload="1", policy="2", arms=dict.fromkeys(ARMS, "3")), rounds=options.rounds,
    )  # fmt: skip
    run = RunDirectory.create(root)
    run.write_plan(plan)
    run.write_run("complete", {"stages": []}, gate=plan.gate, plan=plan.fingerprint())
    run.write_inputs(plan, "logprobs", LogprobsInputs())
    for name in ARMS:
        write_arm(run, plan, name)
        run.write_measurement(plan, name, "accuracy", accuracy(name, options.questions, options.rounds), 1.0)
        run.write_measurement(plan, name, "logprobs", logprobs(name, options), 1.0)


def main() -> int:
    """Write, compare, print; return 1 when the budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("questions", 1319), ("rounds", 4), ("windows", 100), ("window-tokens", 2048), ("top-k", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--logprob-rounds", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "run"
        write(root, options)
        begin = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "servegate", "compare", str(root)], check=False, stdout=subprocess.DEVNULL)
        wall_s = time.perf_counter() - begin
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1, 3):  # any verdict on what was compared
        sys.exit(f"servegate compare ended with {done.returncode}")
    own_s, peak_mb = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    positions = options.windows * options.window_tokens * options.logprob_rounds
    print(
        f"{options.questions:,} questions x {options.rounds} rounds and {positions:,} positions (k={options.top_k}), x 2 arms"
    )
    print(f"compare {wall_s:.1f} s (budget {BUDGET_S:g} s), processor {own_s:.1f} s")
    print(f"peak memory {peak_mb:,.0f} MB (budget {BUDGET_MB} MB)")
    return int(wall_s > BUDGET_S or peak_mb > BUDGET_MB)


if __name__ == "__main__":
    raise SystemExit(main())
