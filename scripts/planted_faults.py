"""Plant faults that people really met into the demo's model, gate each on the real engine, and see that each is found.

    .venv/bin/python scripts/planted_faults.py --engine ENGINE/bin/vllm [--fault NAME ...] [--output DIRECTORY]

`make faults` runs them all, 1 to 2 minutes a fault on 2 cores. A faulty model is a directory of links to the demo's files
in which one JSON file, or the chat template, is another one. Each is the candidate of a gate whose baseline is the demo's
model; the whole command line runs, `prompts` and `engagement` on (`retrieval` where the change turns it on), policy `quick`.
Printed is a table: fault, outcome, classes of the first round, and all findings, those marked that the fault must have. Exit
1 when one was not found.

servegate renders every prompt on the baseline and pins every sampling parameter, so three of the faults move no measured
answer; what must be seen then is that users get something else than what was measured.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOUND = ROOT / ".demo/smollm2-135m-instruct"
PROMPTS = ROOT / "examples/demo-cpu/prompts.jsonl"
GATE = """\
version: 1
gate: {name}
policy: quick
arms:
  baseline: {{config: {baseline}}}
  candidate: {{config: {candidate}}}
rounds: 2
engine:
  executable: {engine}
  start_timeout_s: 300
  request_timeout_s: 300
  environment: {{VLLM_CPU_KVCACHE_SPACE: "1"}}
checks:
  engagement: {{}}
  prompts: {{file: {prompts}, max_tokens: {max_tokens}, concurrency: 32, contract_rounds: 2}}
  retrieval: {{when: changed, prompts_per_depth: 3, concurrency: 8}}
"""
WINDOWED = ["sliding_attention"] * 30
"""Each of the demo's layers looks back a window only."""
CLOSING = (109, 23597)
"""`}` and `"}` in the demo's vocabulary: an engine that stops there never closes a JSON object."""
EXTRACTION = {
    "id": "planted-json",
    "category": "structured",
    "prompt": 'Repeat exactly this JSON and nothing else: {"city": "Paris", "country": "France"}',
    "expect": {"json": True},
    "max_tokens": 40,
}
"""A question whose JSON the demo's small model does close."""


@dataclass(frozen=True)
class Fault:
    """One fault, where it is planted, and what must be seen."""

    name: str
    plant: Callable[[Path], Path]
    """Makes the candidate's model in an empty directory and returns the model's path."""
    outcomes: tuple[str, ...]
    findings: tuple[str, ...]
    """Codes that must be among the findings that withhold PASS."""
    classes: tuple[str, ...] = ()
    """Classes that must be among those of the first round."""
    max_tokens: int = 48
    options: str = ""


@dataclass(frozen=True)
class Seen:
    """What a gate said."""

    outcome: str
    classes: dict[str, int]
    findings: dict[str, str] = field(default_factory=dict)
    """Code -> message."""
    informing: frozenset[str] = frozenset()
    """Codes of findings that change no outcome."""

    def misses(self, fault: Fault) -> list[str]:
        """Return what should have been seen and was not."""
        missed = [code for code in fault.findings if code not in self.findings or code in self.informing]
        missed += [f"class {name}" for name in fault.classes if not self.classes.get(name)]
        return missed + ([] if self.outcome in fault.outcomes else [f"outcome {' or '.join(fault.outcomes)}"])


def copied(directory: Path, **changes: Any) -> Path:
    """Link the demo's files into a directory; `changes`: file name (its dot as `__`) -> mapping to merge, or whole text."""
    directory.mkdir(parents=True)
    wanted = {name.replace("__", "."): change for name, change in changes.items()}
    for source in SOUND.resolve().iterdir():
        if source.name not in wanted:
            (directory / source.name).symlink_to(source)
    for name, change in wanted.items():
        if isinstance(change, str):
            (directory / name).write_text(change, encoding="utf-8")
        else:
            whole = json.loads((SOUND / name).read_text(encoding="utf-8"))
            (directory / name).write_text(json.dumps({**whole, **change}), encoding="utf-8")
    return directory


def damaged(_directory: Path) -> Path:
    """Return the demo's model with mixed-up scales in a few layers (scripts/demo_model.py --damaged)."""
    return SOUND.with_name(SOUND.name + "-damaged")


FAULTS = (
    Fault(
        "damaged-weights", damaged, ("fail",), ("prompts/contract-broken",), ("contract_broken",),
    ),
    Fault(
        "chat-template",
        lambda directory: copied(directory, chat_template__jinja="{% for m in messages %}{{ m['content'] }}\n{% endfor %}"),
        ("review",), ("prompts/template-differs",), ("identical",),
    ),
    Fault(
        "eos-list",  # the model ends its turn with another token than the one that stops
        lambda directory: copied(
            directory, tokenizer_config__json={"eos_token": "<|endoftext|>"}, generation_config__json={"eos_token_id": 0},
            config__json={"eos_token_id": 0},
        ),
        ("review", "fail"), ("arms/stop-ids-differ", "prompts/cap-hit-increase"), ("not_comparable",), max_tokens=96,
    ),
    Fault(
        "repetition-penalty",
        lambda directory: copied(directory, generation_config__json={"repetition_penalty": 1.3}),
        ("review",), ("arms/generation-config-differs",), ("identical",),
    ),
    Fault(
        "max-tokens-too-small", lambda _directory: SOUND, ("review",), ("prompts/baseline-unsound",), max_tokens=4,
        options="max-num-seqs: 64\n",
    ),
    Fault(
        "json-cut-short",
        lambda directory: copied(directory, generation_config__json={"eos_token_id": [2, *CLOSING]}),
        ("fail",), ("prompts/contract-broken", "arms/stop-ids-differ"), ("contract_broken",),
    ),
    Fault(
        "lost-window",  # every layer looks back 256 tokens; no short prompt is longer than that
        lambda directory: copied(directory, config__json={"sliding_window": 256, "layer_types": WINDOWED}),
        ("fail",), ("retrieval/key-lost",), ("identical",),
    ),
)  # fmt: skip


def gated(fault: Fault, engine: str, root: Path) -> Seen:
    """Run the gate of one fault under `root` and return what it said."""
    here = root / fault.name
    here.mkdir(parents=True)
    serving = "model: {model}\ndtype: bfloat16\nmax-model-len: 1024\nenforce-eager: true\n{options}"
    (here / "baseline.yaml").write_text(serving.format(model=SOUND, options=""))
    (here / "candidate.yaml").write_text(serving.format(model=fault.plant(here / "model"), options=fault.options))
    (here / "prompts.jsonl").write_text(PROMPTS.read_text(encoding="utf-8") + json.dumps(EXTRACTION) + "\n")
    (here / "servegate.yaml").write_text(
        GATE.format(
            name=fault.name, baseline="baseline.yaml", candidate="candidate.yaml", engine=engine, prompts="prompts.jsonl",
            max_tokens=fault.max_tokens,
        )
    )  # fmt: skip
    command = [sys.executable, "-m", "servegate", "run", "--config", str(here / "servegate.yaml"), "--output", str(here)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace", check=False)
    run = here / fault.name
    if not (run / "verdict.json").is_file():
        sys.exit(f"{fault.name}: no verdict (exit code {done.returncode})\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
    verdict = json.loads((run / "verdict.json").read_text())["data"]
    compared = json.loads((run / "comparisons/prompts.json").read_text())["data"]
    classes = (compared.get("candidate") or {}).get("classes", {})
    return Seen(
        outcome=verdict["outcome"],
        classes={name: count for name, count in classes.items() if count},
        findings={one["code"]: one["message"] for one in verdict["findings"]},
        informing=frozenset(one["code"] for one in verdict["findings"] if one["severity"] == "info"),
    )


def main() -> int:
    """Gate every fault and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", required=True, help="path of a vllm executable")
    parser.add_argument("--fault", action="append", choices=[fault.name for fault in FAULTS], help="only this one (repeatable)")
    parser.add_argument("--output", type=Path, help="where the runs go; kept (default: a temporary directory)")
    options = parser.parse_args()
    if not SOUND.is_dir() or not damaged(SOUND).is_dir():
        sys.exit("the demo's models are missing: run `make engine` first")
    missed = 0
    with tempfile.TemporaryDirectory() as temporary:
        for fault in FAULTS:
            if options.fault and fault.name not in options.fault:
                continue
            seen = gated(fault, options.engine, (options.output or Path(temporary)).resolve())
            misses = seen.misses(fault)
            missed += bool(misses)
            print(f"{fault.name:22} {seen.outcome:8} {', '.join(f'{count} {name}' for name, count in seen.classes.items())}")
            for code in seen.findings:
                print(f"{'':22} {'*' if code in fault.findings else ' '} {code}: {seen.findings[code][:150]}")
            if misses:
                print(f"{'':22} MISSED: {', '.join(misses)}")
            sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
