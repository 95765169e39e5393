"""Contracts under the config's own sampling, from the command line on a fake engine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.test_command_line import candidate, here, run_json, servegate

__all__ = ["here"]  # the fixture


@pytest.fixture
def sampling(here: Path) -> Path:
    text = (here / "servegate.yaml").read_text()
    passes = "{file: prompts.jsonl, max_tokens: 64, samples: 4, sequential: auto}"
    (here / "servegate.yaml").write_text(text.replace("{file: prompts.jsonl, max_tokens: 64}", passes))
    return here


def test_equal_arms_pass_with_both_passes_shown(sampling: Path) -> None:
    done = servegate(sampling, "run")
    assert done.returncode == 0, done.stdout + done.stderr
    counted = run_json(sampling, "comparisons/prompts.json")["data"]["candidate"]
    assert (counted["sampled"]["prompts"], counted["sampled"]["samples"], counted["sampled"]["unpaired"]) == (24, 4, 0)
    assert (counted["batching"]["prompts"], counted["batching"]["same_everywhere"]) == (24, 24)
    report = (sampling / "servegate-runs/demo/report/report.md").read_text()
    assert "own sampling" in report
    assert "What batching alone changes" in report
    assert "prompts, round 1" in report
    assert "prompts, samples" in report
    assert "prompts, one at a time" in report


def test_the_plan_calls_each_step_what_it_is(sampling: Path) -> None:
    schedule = servegate(sampling, "plan").stdout.partition("Schedule")[2]
    rows = [line.split(maxsplit=3) for line in schedule.splitlines() if line.startswith(("1", "2", "3", "4"))]
    # Columns are parted by two spaces or more: the step's name, then its requests, tokens read and tokens written.
    steps = [re.split(r"\s{2,}", row[3].strip()) for row in rows if row[1:3] == ["baseline", "prompts"]][-2:]
    assert [step[:2] for step in steps] == [["samples", "96"], ["one at a time", "24"]]


def test_answers_that_break_only_when_they_are_sampled_are_read(sampling: Path) -> None:
    candidate(sampling, "break-when-sampled")
    done = servegate(sampling, "run")
    assert done.returncode == 3, done.stdout + done.stderr
    blocking = {item["code"] for item in run_json(sampling, "verdict.json")["data"]["findings"] if item["severity"] != "info"}
    assert blocking == {"prompts/sampled-worse"}
