"""Long prompts from the command line, on a fake engine: on by themselves, and a KV cache that forgets is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_command_line import candidate, here, run_json, servegate

__all__ = ["here"]  # the fixture


@pytest.fixture
def kv(here: Path) -> Path:
    """A change of the KV cache's type; `checks` names prompts alone."""
    (here / "old.yaml").write_text("model: org/m\nmax-model-len: 4096\n")
    (here / "new.yaml").write_text("model: org/m\nmax-model-len: 4096\nkv-cache-dtype: fp8\n")
    return here


def test_another_kv_cache_turns_it_on_and_plan_says_so(kv: Path) -> None:
    plan = servegate(kv, "plan")
    assert plan.returncode == 0, plan.stderr
    assert "note: retrieval is on, since kv-cache-dtype differs between the arms" in plan.stdout
    done = servegate(kv, "run")
    assert done.returncode == 0, done.stdout + done.stderr
    depths = run_json(kv, "comparisons/retrieval.json")["data"]["candidate"]["depths"]
    assert [(each["depth_percent"], each["prompts"], each["candidate"]["kept"]) for each in depths] == [
        (25, 20, 40), (50, 20, 40), (90, 20, 40),
    ]  # fmt: skip
    assert 3600 < depths[2]["longest_tokens"] <= 4096 * 0.9
    stored = run_json(kv, "inputs/retrieval.json")["data"]["prompts"]
    assert len(stored) == 60
    assert all(prompt["key"] in prompt["text"] for prompt in stored)


def test_a_cache_that_forgets_the_middle_of_long_prompts_fails_though_short_prompts_agree(kv: Path) -> None:
    candidate(kv, "forget-the-middle")
    done = servegate(kv, "run")
    assert done.returncode == 1, done.stdout + done.stderr
    verdict = run_json(kv, "verdict.json")["data"]
    assert verdict["checks"]["prompts"]["outcome"] == "pass"
    assert verdict["checks"]["retrieval"]["outcome"] == "fail"
    codes = {item["code"]: item["severity"] for item in verdict["findings"]}
    assert codes["retrieval/key-lost"] == codes["retrieval/keys-lost"] == "fail"
    report = (kv / "servegate-runs/demo/report/report.md").read_text()
    assert "middle third" in report


def test_turned_off_by_hand_the_plan_says_what_will_not_be_seen(kv: Path) -> None:
    gate = kv / "servegate.yaml"
    gate.write_text(gate.read_text().replace("policy: quick", "  retrieval: {when: never}\npolicy: quick"))
    plan = servegate(kv, "plan")
    assert "retrieval is off (when: never), although kv-cache-dtype differs" in plan.stdout
    assert "checks.retrieval" not in plan.stdout


def test_a_gate_whose_only_check_is_off_is_refused(here: Path) -> None:
    gate = here / "servegate.yaml"
    gate.write_text(gate.read_text().replace("prompts: {file: prompts.jsonl, max_tokens: 64}", "retrieval: {when: changed}"))
    refused = servegate(here, "plan")
    assert refused.returncode == 2
    assert "nothing would be measured" in refused.stderr


def test_a_change_that_cannot_harm_long_prompts_does_not_pay_for_them(here: Path) -> None:
    plan = servegate(here, "plan")
    assert "retrieval" not in plan.stdout
