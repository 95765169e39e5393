"""The logprobs check from the command line, on a fake engine that speaks vLLM's protocol."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.integration.test_command_line import GATE, candidate, here, nothing_left, run_json, servegate
from tests.unit.checks.logprobs_samples import BIG

__all__ = ["here"]  # the fixture


@pytest.fixture
def scored(here: Path) -> Path:
    """A gate that scores 40 windows of 250 tokens and measures nothing else before it."""
    engine = here / "servegate.yaml"
    text = engine.read_text().replace(GATE.split("checks:\n")[1], "")
    (here / "config.json").write_text(json.dumps(BIG))
    text = text.replace("engine: {", "engine: {model_config: config.json, ", 1)  # a hub name alone tells no size
    checks = "  logprobs: {corpus: {windows: 40, window_tokens: 250}}\n  prompts: {file: prompts.jsonl, max_tokens: 64}\n"
    checks += "policy: quick\n"
    engine.write_text(text + checks)
    (here / "corpus.txt").write_text("".join(f"Line {number} of a text without meaning.\n" for number in range(2000)))
    return here


def test_equal_probabilities_pass_and_are_stored_as_columns(scored: Path) -> None:
    done = servegate(scored, "run")
    assert done.returncode == 0, done.stdout + done.stderr
    comparison = run_json(scored, "comparisons/logprobs.json")["data"]
    assert comparison["n"] == 40 * 249
    assert comparison["estimates"]["ppl_ratio"]["high"] == 1.0
    with np.load(scored / "servegate-runs/demo/arms/candidate/logprobs.npz", allow_pickle=False) as columns:
        assert columns["logprob"].shape == (2 * 40 * 250,)
        assert columns["top_id"].shape == (2 * 40 * 250, 1)
    (pass_1, pass_2) = run_json(scored, "arms/candidate/logprobs.json")["data"]["passes"]
    assert (pass_1["windows"], pass_1["positions"], pass_2["round"]) == (40, 40 * 249, 1)
    assert 0 < pass_1["client_cpu_s"] <= 4 * pass_1["wall_s"]
    report = (scored / "servegate-runs/demo/report/report.md").read_text()
    assert "Perplexity ratio" in report
    assert "servegate's own processor time" in report
    assert "Slope: a token loses" in report
    assert "Q8\\_0" in report or "Q8_0" in report
    steps = [(step["arm"], step["check"]) for step in run_json(scored, "plan.json")["data"]["schedule"]]
    assert steps[:4] == [("baseline", "prompts")] * 2 + [("baseline", "logprobs")] * 2  # last, though named first


def test_other_probabilities_do_not_pass(scored: Path) -> None:
    candidate(scored, "flip-some-answers")
    done = servegate(scored, "run")
    assert done.returncode in (1, 3), done.stdout + done.stderr
    codes = {item["code"] for item in run_json(scored, "verdict.json")["data"]["findings"]}
    assert codes & {"logprobs/perplexity", "logprobs/perplexity-open"}


def test_d8_what_was_scored_before_the_engine_died_is_kept(scored: Path) -> None:
    """The trial, 48 prompts, a token after each of 2 rounds, the capability probe and 6 windows go well; the seventh kills."""
    candidate(scored, f"die-after-{1 + 48 + 2 + 1 + 6}")
    done = servegate(scored, "run")
    assert done.returncode == 5, done.stdout + done.stderr
    record = run_json(scored, "arms/candidate/logprobs.json")
    assert record["status"] == "partial"
    assert record["reason"]["code"] == "engine_failed"
    statuses = [window["status"] for window in record["data"]["windows"]]
    assert statuses.count("ok") == 6
    assert len(statuses) == 40
    assert run_json(scored, "arms/candidate/prompts.json")["status"] == "measured"
    assert run_json(scored, "comparisons/prompts.json")["status"] == "complete"
    assert nothing_left(scored)
