"""From an unread change to an accepted one: the real verbs on a run directory that is written here."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from servegate.artifacts import RunDirectory
from servegate.checks.prompts.settings import PromptsSettings
from servegate.cli import group
from servegate.errors import ServegateError
from tests.integration.measured_prompts import write_measured
from tests.unit.checks.prompts_evidence import evidence
from tests.unit.samples import TWO_ROUNDS, plan

HOSTILE = "<script>alert(1)</script> It costs {} euros \u2028 \ud83d a day."


def write(root: Path, policy: str = "release") -> Path:
    """Write a measured run: one prompt whose fact changes in every round, and enough that do not."""
    found = evidence({"p": [HOSTILE.format(5)] * 2}, {"p": [HOSTILE.format(6)] * 2}, filler=30)
    settings = PromptsSettings.model_validate(
        {"limits": {"fact_changes": "review" if policy == "release" else "inform", "unseen_increase_points": 15}}
    )
    made = plan(checks={"prompts": settings.to_json()}, policy="quick", schedule=TWO_ROUNDS)
    run = RunDirectory.create(root)
    write_measured(run, made, found, "2026-11-20T10:00:00+00:00")
    return root


def call(*arguments: object) -> Result:
    return CliRunner().invoke(group, [str(one) for one in arguments], standalone_mode=False)


def filled(form: Path, **values: str) -> None:
    data = yaml.safe_load(form.read_text())
    data.update({key: value for key, value in values.items() if key in ("who", "expires")})
    data["reviews"][0].update({key: value for key, value in values.items() if key in ("verdict", "why", "changes_sha256")})
    form.write_text(yaml.safe_dump(data, allow_unicode=False))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    root = write(tmp_path / "run")
    assert call("compare", root).return_value == 3
    assert call("review", root).exit_code == 0
    return root


def test_an_accepted_change_is_not_asked_again_and_the_verdict_names_who_accepted_it(run: Path) -> None:
    page = (run.parent / "run-review" / "review.html").read_text()
    assert "one arm gets right and the other wrong" in page
    assert "<script>" not in page
    form = run.parent / "run-review" / "reviews.yaml"
    filled(form, who="Ana", expires="2027-03-01", verdict="minor", why="the price is an example")
    assert "1 accepted" in call("accept", run).output
    again = call("compare", run, "--accepted", "servegate.accepted.yaml")
    assert again.return_value == 0
    verdict = RunDirectory.open(run).read_verdict()
    accepted = dict(verdict.accepted[0])
    assert {key: accepted[key] for key in ("check", "prompt_id", "who", "why", "verdict")} == {
        "check": "prompts", "prompt_id": "p", "who": "Ana", "why": "the price is an example", "verdict": "minor",
    }  # fmt: skip
    assert [one.code for one in verdict.findings] == ["prompts/accepted-fact-changes"]
    first = verdict.policy.sha256
    assert call("compare", run).return_value == 3, "the plan of this run accepts nothing"
    assert RunDirectory.open(run).read_verdict().policy.sha256 != first
    assert call("report", run).exit_code == 0


@pytest.mark.parametrize("expires", ["2026-11-19", "2020-01-01"])
def test_an_entry_that_expired_before_the_run_accepts_nothing(run: Path, expires: str) -> None:
    filled(run.parent / "run-review" / "reviews.yaml", who="Ana", expires=expires, verdict="same", why="no claim differs")
    call("accept", run)
    assert call("compare", run, "--accepted", "servegate.accepted.yaml").return_value == 3


def test_an_entry_for_another_change_of_the_same_prompt_accepts_nothing(run: Path) -> None:
    filled(run.parent / "run-review" / "reviews.yaml", who="Ana", expires="2027-03-01", verdict="same", why="no claim differs")
    call("accept", run)
    ledger = Path("servegate.accepted.yaml")
    data = yaml.safe_load(ledger.read_text())
    data["accepted"][0]["changes_sha256"] = "0" * 64
    ledger.write_text(yaml.safe_dump(data))
    assert call("compare", run, "--accepted", ledger).return_value == 3


@pytest.mark.parametrize("verdict", ["ambiguous", "fact-flip", ""])
def test_what_may_be_wrong_is_never_accepted(run: Path, verdict: str) -> None:
    filled(run.parent / "run-review" / "reviews.yaml", who="Ana", expires="2027-03-01", verdict=verdict, why="why")
    assert "0 accepted" in call("accept", run).output
    assert not Path("servegate.accepted.yaml").exists()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"verdict": "fine", "why": "w", "who": "Ana", "expires": "2027-03-01"}, "verdict 'fine'"),
        ({"verdict": "same", "why": "", "who": "Ana", "expires": "2027-03-01"}, "why: is missing"),
        ({"verdict": "same", "why": "w", "who": "", "expires": "2027-03-01"}, "who: is missing"),
        ({"verdict": "same", "why": "w", "who": "Ana", "expires": ""}, "expires: is missing"),
        ({"verdict": "same", "why": "w", "who": "Ana", "expires": "soon"}, "expires"),
        (
            {"verdict": "same", "why": "w", "who": "Ana", "expires": "2027-03-01", "changes_sha256": "1"},
            "no such unread change",
        ),
    ],
)
def test_a_form_that_can_not_be_believed_is_one_clear_error(run: Path, values: dict[str, str], message: str) -> None:
    filled(run.parent / "run-review" / "reviews.yaml", **values)
    result = call("accept", run)
    assert isinstance(result.exception, ServegateError)
    assert message in result.exception.what


def test_a_form_that_may_be_filled_in_is_not_replaced_and_nothing_to_read_writes_nothing(run: Path, tmp_path: Path) -> None:
    assert isinstance(call("review", run).exception, ServegateError)
    assert call("review", run, "--force").exit_code == 0
    filled(run.parent / "run-review" / "reviews.yaml", who="Ana", expires="2027-03-01", verdict="minor", why="an example")
    call("accept", run)
    call("compare", run, "--accepted", "servegate.accepted.yaml")
    assert "nothing to read" in call("review", run, "--output", tmp_path / "other").output
    assert not (tmp_path / "other").exists()
