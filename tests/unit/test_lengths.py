"""What cannot fit into the context of both arms is refused, or shortened where nobody stated it, before anything starts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servegate.checks import discovered
from servegate.checks.arms import arm_findings
from servegate.checks.contract import ArmEvidence
from servegate.checks.lengths import shortened
from servegate.config import Overrides, Resolved, load, resolve
from servegate.domain.evidence import NotMeasured, Reason
from servegate.errors import UsageError

PROMPTS = '{"id": "a", "prompt": "1 + 1?"}\n'


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "prompts.jsonl").write_text(PROMPTS)
    (tmp_path / "corpus.txt").write_text("The quick brown fox jumps over the lazy dog. " * 200)
    rows = {"fewshot": [{"question": "What is one and one?" * 40, "answer": "#### 2"}] * 2,
            "test": [{"question": "Two?", "answer": "#### 2"}]}  # fmt: skip
    (tmp_path / "sums.json").write_text(json.dumps(rows))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def gate(here: Path, checks: str, old: str = "", new: str = "") -> Resolved:
    (here / "old.yaml").write_text(f"model: org/m\n{old}\n")
    (here / "new.yaml").write_text(f"model: org/m\nquantization: fp8\n{new}\n")
    arms = "arms:\n  baseline: {config: old.yaml}\n  candidate: {config: new.yaml}\n"
    (here / "servegate.yaml").write_text(f"version: 1\ngate: demo\n{arms}checks:\n  {checks}\n")
    return resolve(load(None, Overrides()))


def both(tokens: object) -> dict[str, str]:
    return {"old": f"max-model-len: {tokens}", "new": f"max-model-len: {tokens}"}


def test_a_load_that_nobody_stated_is_shortened_with_a_remark_and_a_source(here: Path) -> None:
    found = gate(here, "throughput: {}", **both(1024))
    assert found.plan.checks["throughput"]["single"]["input_tokens"] + 256 > 1000  # in proportion, not cut to nothing
    loads = found.plan.checks["throughput"]["single"]
    assert loads["input_tokens"] + loads["output_tokens"] <= 1024
    assert found.plan.settings["checks.throughput.single.input_tokens"].source == "the shorter context"
    assert found.plan.checks["throughput"]["input_tokens"] == 512
    assert "one request in flight" in found.notes[0]
    assert "1,000 and 256" in found.notes[0]


def test_a_load_that_fits_stays_and_says_nothing(here: Path) -> None:
    found = gate(here, "throughput: {}", **both(1256))
    assert found.notes == ()
    assert found.plan.checks["throughput"]["single"]["input_tokens"] == 1000


def test_the_shorter_arm_decides(here: Path) -> None:
    found = gate(here, "throughput: {}", old="max-model-len: 4k", new="max-model-len: 512")
    assert "new.yaml: `max-model-len: 512`" in found.notes[-1]


@pytest.mark.parametrize(
    ("checks", "tokens", "said"),
    [
        ("throughput: {input_tokens: 900, output_tokens: 200}", 1024, "servegate.yaml:7: 'checks.throughput.input_tokens'"),
        ("throughput: {single: {input_tokens: 1020}}", 1024, "servegate.yaml:7: 'checks.throughput.single.input_tokens'"),
        ("throughput: {single: {output_tokens: 2000}}", 1024, "checks.throughput.single.output_tokens"),
        ("throughput: {}", 24, "checks.throughput.input_tokens"),
        ("prompts: {file: prompts.jsonl, max_tokens: 512}", 512, "checks.prompts.max_tokens"),
        ("prompts: {file: prompts.jsonl}", 200, "answers of 256 tokens (prompt a)"),
        ("logprobs: {corpus: {file: corpus.txt, window_tokens: 2048}}", 2048, "checks.logprobs.corpus.window_tokens"),
        ("logprobs: {}", 32, "checks.logprobs.corpus.window_tokens"),
        ("logprobs: {own_traffic: {file: prompts.jsonl, max_tokens: 128}}", 128, "checks.logprobs.own_traffic.max_tokens"),
        ("retrieval: {context_tokens: 8192}", 4096, "checks.retrieval.context_tokens"),
        ("retrieval: {depths_percent: [5]}", 256, "checks.retrieval.depths_percent"),
        ("accuracy: {tasks: [{file: sums.json, shots: 1, max_tokens: 512}]}", 512, "answers of 512 tokens (task sums)"),
        ("accuracy: {}", 256, "task gsm8k"),
    ],
)
def test_what_cannot_fit_is_refused_before_anything_starts(here: Path, checks: str, tokens: int, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        gate(here, checks, **both(tokens))
    text = f"{caught.value} {caught.value.why} {caught.value.advice}"
    assert said in text
    assert f"{tokens:,} tokens" in text
    assert "max-model-len" in text
    assert caught.value.exit_code == 2


def test_windows_that_nobody_stated_follow_the_context(here: Path) -> None:
    found = gate(here, "logprobs: {}", **both(513))
    assert found.plan.checks["logprobs"]["corpus"]["window_tokens"] == 512
    assert "windows have 512 tokens, not 2,048" in found.notes[0]


def judged(found: Resolved) -> list[str]:
    """What a verdict says of lengths."""
    nothing = ArmEvidence(None, None, NotMeasured(reason=Reason(code="no-check", message="")))
    checks = {name: discovered()[name] for name in found.plan.checks}
    said = arm_findings(found.plan, {"baseline": nothing, "candidate": nothing}, checks, None)
    return [item.message for item in said if item.code == "arms/lengths-shortened"]


def test_a_verdict_says_which_lengths_gave_way_to_a_candidate_with_a_shorter_context(here: Path) -> None:
    found = gate(here, "throughput: {}\n  logprobs: {}\n  retrieval: {}", old="max-model-len: 4k", new="max-model-len: 513")
    (said,) = judged(found)
    assert "throughput.input_tokens: 404 (512), throughput.output_tokens: 101 (128)" in said
    assert "throughput.single.input_tokens: " in said
    assert "logprobs.corpus.window_tokens: 512 (2,048)" in said
    assert "retrieval" not in said  # filled as far as the context goes, which is what it is for


def test_a_verdict_says_nothing_of_lengths_that_fit_or_that_the_gate_states(here: Path) -> None:
    assert judged(gate(here, "throughput: {}\n  logprobs: {}", **both(4096))) == []
    stated = "throughput: {input_tokens: 64, output_tokens: 16, single: null}"
    assert judged(gate(here, stated, **both(512))) == []


def test_what_only_a_tokenizer_can_count_is_a_remark(here: Path) -> None:
    (here / "prompts.jsonl").write_text(json.dumps({"id": "long", "prompt": "word " * 400}) + "\n")
    checks = (
        "prompts: {file: prompts.jsonl, max_tokens: 64}\n  accuracy: {tasks: [{file: sums.json, shots: 2, max_tokens: 100}]}"
    )
    found = gate(here, checks, **both(500))
    assert [note.split(":")[0] for note in found.notes] == ["prompts", "accuracy"]
    assert all("may not fit" in note and "tokenizer decides" in note for note in found.notes)


def config(here: Path, **more: object) -> str:
    (here / "m").mkdir()
    (here / "m" / "config.json").write_text(json.dumps({"max_position_embeddings": 512, **more}))
    return f"model: {here / 'm'}"


def test_a_model_is_no_longer_than_its_positions(here: Path) -> None:
    model = config(here)
    arms = "arms:\n  baseline: {config: old.yaml}\n  candidate: {config: new.yaml}\n"
    (here / "servegate.yaml").write_text(f"version: 1\ngate: demo\n{arms}checks:\n  throughput: {{}}\n")
    for name in ("old.yaml", "new.yaml"):
        (here / name).write_text(model)
    notes = resolve(load(None, Overrides())).notes
    assert len(notes) == 1
    assert "max_position_embeddings: 512" in notes[0]


@pytest.mark.parametrize("more", [{"rope_scaling": {"rope_type": "yarn", "factor": 4}}, {"rope_parameters": {"full": {}}}])
def test_positions_that_may_be_stretched_bound_nothing(here: Path, more: dict[str, object]) -> None:
    model = config(here, **more)
    arms = "arms:\n  baseline: {config: old.yaml}\n  candidate: {config: new.yaml}\n"
    (here / "servegate.yaml").write_text(f"version: 1\ngate: demo\n{arms}checks:\n  throughput: {{}}\n")
    for name in ("old.yaml", "new.yaml"):
        (here / name).write_text(model)
    assert resolve(load(None, Overrides())).notes == ()


def test_what_nobody_named_gives_way() -> None:
    assert shortened((1000, 256), (False, False), 2048) == (1000, 256)
    assert shortened((1000, 256), (True, False), 1200) == (1000, 192)
    assert shortened((1000, 256), (False, True), 1200) == (936, 256)
    assert shortened((1000, 256), (True, True), 1200) is None
    assert shortened((1000, 256), (True, False), 1010) is None
    assert shortened((1000, 256), (False, False), 30) is None
