"""The local half of publishing: summary, outputs, and what is said; no network is touched in these tests."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from servegate.domain.judgement import EXIT_CODES, CheckOutcome, Outcome, PolicyRef, Scope, Verdict
from servegate.errors import PublishError
from servegate.publish import SUMMARY_BUDGET_BYTES, Publication, publish
from tests.fakes.github import pull_request_event
from tests.unit.publish.test_workflow_commands import runner_commands, runner_outputs

FILES = {"comment.md": b"**FAIL** short\n", "summary.md": b"**FAIL** long\n"}
SETTINGS = Publication(gate="demo", run_directory="/runs/demo", outputs={"findings": "accuracy/drop"})


def verdict(outcome: Outcome = Outcome.FAIL, headline: str = "accuracy fell") -> Verdict:
    return Verdict(
        outcome=outcome,
        headline=headline,
        scope=Scope(gpu="none", driver="none", engine="vllm 0.32.0", kernels="cpu"),
        checks={"accuracy": CheckOutcome(outcome=outcome, required=True)},
        findings=(),
        policy=PolicyRef(ref="standard", sha256="0" * 64),
    )


@pytest.fixture
def runner(tmp_path: Path) -> dict[str, str]:
    """Environment of a runner's step for a push, with its files."""
    (tmp_path / "event.json").write_text(json.dumps({"ref": "refs/heads/main"}))
    return {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": "push",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_REPOSITORY": "acme/llm",
        "GITHUB_RUN_ID": "1",
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_TOKEN": "ghs_canary0123456789",
    }


def unreachable(*_: Any) -> Any:
    raise AssertionError("GitHub was called")


def test_away_from_github_nothing_is_written(tmp_path: Path) -> None:
    target = tmp_path / "summary.md"
    done = publish(FILES, verdict(), SETTINGS, {"GITHUB_STEP_SUMMARY": str(target), "GITHUB_TOKEN": "t"}, unreachable)
    assert not target.exists()
    assert "nothing to publish to" in done.log[0]
    assert "accuracy fell" in done.log[0]


def test_a_push_gets_summary_and_outputs_and_no_comment(runner: dict[str, str]) -> None:
    done = publish(FILES, verdict(), SETTINGS, runner, unreachable)
    assert Path(runner["GITHUB_STEP_SUMMARY"]).read_text() == "**FAIL** long\n\n"
    assert runner_outputs(Path(runner["GITHUB_OUTPUT"]).read_text()) == {
        "verdict": "fail",
        "exit-code": "1",
        "may-merge": "false",
        "run-directory": "/runs/demo",
        "findings": "accuracy/drop",
    }
    assert done.comment == "skipped"
    assert "'push'" in done.log[-1]


@pytest.mark.parametrize(
    ("outcome", "level"), [(Outcome.PASS, "notice"), (Outcome.REVIEW, "warning"), (Outcome.ERROR, "error")]
)
def test_the_annotation_is_as_loud_as_the_outcome(runner: dict[str, str], outcome: Outcome, level: str) -> None:
    assert (
        publish(FILES, verdict(outcome), SETTINGS, runner, unreachable).log[0].startswith(f"::{level} title=servegate demo%3A ")
    )


@pytest.mark.parametrize(
    ("outcome", "neutral", "may"),
    [(Outcome.PASS, (), "true"), (Outcome.REVIEW, (), "false"), (Outcome.REVIEW, (Outcome.REVIEW,), "true"),
     (Outcome.NOT_COMPARABLE, (Outcome.REVIEW,), "false"), (Outcome.FAIL, (Outcome.REVIEW,), "false")],
)  # fmt: skip
def test_what_may_merge_is_pass_and_what_the_workflow_lets_through(
    runner: dict[str, str], outcome: Outcome, neutral: tuple[Outcome, ...], may: str
) -> None:
    publish(FILES, verdict(outcome), replace(SETTINGS, neutral=frozenset(neutral)), runner, unreachable)
    assert runner_outputs(Path(runner["GITHUB_OUTPUT"]).read_text())["may-merge"] == may


def test_every_outcome_has_its_exit_code() -> None:
    assert {outcome.value: int(code) for outcome, code in EXIT_CODES.items()} == {
        "pass": 0, "fail": 1, "review": 3, "not_comparable": 4, "error": 5,
    }  # fmt: skip


def test_a_hostile_headline_stays_in_its_place(runner: dict[str, str]) -> None:
    attack = "x\nverdict=pass\n::add-mask::FAIL\u2028##[add-mask]FAIL\ud800\x1b[31m"
    done = publish(FILES, verdict(headline=attack), SETTINGS, runner, unreachable)
    outputs = runner_outputs(Path(runner["GITHUB_OUTPUT"]).read_text())
    assert outputs == {
        "verdict": "fail", "exit-code": "1", "may-merge": "false", "run-directory": "/runs/demo", "findings": "accuracy/drop",
    }  # fmt: skip
    assert runner_commands("\n".join(done.log)) == [done.log[0]]
    assert "\x1b" not in "".join(done.log)


def test_the_summary_counts_what_is_there_already(runner: dict[str, str]) -> None:
    target = Path(runner["GITHUB_STEP_SUMMARY"])
    target.write_bytes(b"x" * (300 << 10))
    publish({**FILES, "summary.md": b"y" * (700 << 10)}, verdict(), SETTINGS, runner, unreachable)
    assert target.read_bytes()[300 << 10 :] == b"**FAIL** short\n\n"
    assert target.stat().st_size <= SUMMARY_BUDGET_BYTES


def test_a_forged_value_of_an_output_stays_a_value(runner: dict[str, str]) -> None:
    """A folder's name is the only part of an output that is not ours, and GITHUB_OUTPUT is read line by line."""
    attack = "/runs/x\nEOF\nverdict=pass\nverdict<<EOF\npass\nEOF"
    settings = replace(SETTINGS, run_directory=attack, outputs={"report-path": f"{attack}/report.html"})
    publish(FILES, verdict(), settings, runner, unreachable)
    outputs = runner_outputs(Path(runner["GITHUB_OUTPUT"]).read_text())
    assert outputs["verdict"] == "fail"
    assert set(outputs) == {"verdict", "exit-code", "may-merge", "run-directory", "report-path"}


def test_without_a_verdict_there_is_no_output(runner: dict[str, str]) -> None:
    publish(FILES, verdict(Outcome.ERROR), replace(SETTINGS, outputs=None), runner, unreachable)
    assert not Path(runner["GITHUB_OUTPUT"]).exists()


def test_a_full_summary_is_left_alone(runner: dict[str, str]) -> None:
    target = Path(runner["GITHUB_STEP_SUMMARY"])
    target.write_bytes(b"x" * SUMMARY_BUDGET_BYTES)
    done = publish(FILES, verdict(), SETTINGS, runner, unreachable)
    assert target.stat().st_size == SUMMARY_BUDGET_BYTES
    assert any("filled it" in line for line in done.log)


def test_broken_bytes_and_controls_do_not_reach_the_summary(runner: dict[str, str]) -> None:
    publish({**FILES, "summary.md": b"a\x00b\x1b[1m\xff\r\nc\td"}, verdict(), SETTINGS, runner, unreachable)
    assert Path(runner["GITHUB_STEP_SUMMARY"]).read_text() == "ab[1m\ufffd\nc\td\n"


def test_an_unwritable_summary_names_the_variable(runner: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(PublishError) as caught:
        publish(FILES, verdict(), SETTINGS, {**runner, "GITHUB_STEP_SUMMARY": str(tmp_path)}, unreachable)
    assert "GITHUB_STEP_SUMMARY" in caught.value.advice


def test_a_pull_request_without_a_token_is_not_published(runner: dict[str, str]) -> None:
    Path(runner["GITHUB_EVENT_PATH"]).write_text(json.dumps(pull_request_event(1, "a" * 40, "b" * 40)))
    with pytest.raises(PublishError, match="no token"):
        publish(FILES, verdict(), SETTINGS, {**runner, "GITHUB_EVENT_NAME": "pull_request", "GITHUB_TOKEN": " "}, unreachable)
    assert Path(runner["GITHUB_OUTPUT"]).exists()


def test_the_comment_can_be_switched_off(runner: dict[str, str]) -> None:
    settings = Publication(gate="demo", run_directory="/runs/demo", comment=False)
    done = publish(FILES, verdict(), settings, {**runner, "GITHUB_EVENT_NAME": "pull_request"}, unreachable)
    assert done.log[-1] == "no comment: switched off"


def test_a_missing_payload_says_what_to_mount(runner: dict[str, str]) -> None:
    with pytest.raises(PublishError) as caught:
        publish(FILES, verdict(), SETTINGS, {**runner, "GITHUB_EVENT_PATH": "/nowhere/event.json"}, unreachable)
    assert "GITHUB_EVENT_PATH" in caught.value.why
