"""What a run must show before something is released; every reason against it is its own line."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from servegate.artifacts import RunDirectory, dump
from servegate.cli import _code
from servegate.config.release import ReleasePolicy, read_release_policy, shortcomings
from servegate.domain.judgement import EXIT_CODES, Finding, Outcome, PolicyRef, Scope, Severity, Verdict
from servegate.domain.manifest import Gpu
from servegate.domain.plan import Origin, Plan
from servegate.errors import UsageError
from tests.unit.samples import manifest, plan

COMMIT = "c" * 40
ORIGIN = Origin(base="a" * 40, merge_base="b" * 40, head=COMMIT, baseline_path="a", candidate_path="a")
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
RUN = {"stages": [{"started_at": "2026-03-09T12:00:00+00:00"}, {"started_at": "2026-03-09T13:00:00+00:00"}]}
CARD = Gpu(name="NVIDIA H200", uuid="u", compute_capability="9.0", memory_gib=139.0, mig=False)
PASS = Verdict(
    outcome=Outcome.PASS,
    headline="no damage found",
    scope=Scope(gpu="g", driver="d", engine="e", kernels="k"),
    checks={},
    findings=(),
    policy=PolicyRef(ref="release", sha256="0" * 64),
)


def released(**changes: Any) -> Plan:
    return plan(policy="release", origin=ORIGIN.model_copy(update=changes))


def against(**changes: Any) -> str:
    asked = ReleasePolicy(version=1, cards=("NVIDIA H200",))
    given: dict[str, Any] = {
        "policy": asked,
        "commit": COMMIT,
        "now": NOW,
        "plan": released(),
        "run": RUN,
        "manifests": {arm: manifest(gpus=(CARD,), gpus_reason=None) for arm in ("baseline", "candidate")},
        "verdict": PASS,
    }
    return "\n".join(shortcomings(**{**given, **changes}))


def test_a_fresh_pass_of_this_commit_on_this_card_is_enough() -> None:
    assert against() == ""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"verdict": PASS.model_copy(update={"outcome": Outcome.REVIEW})}, "the verdict is review"),
        ({"commit": "d" * 40}, "not about " + "d" * 40),
        ({"plan": plan(policy="release")}, "of nobody knows where"),
        ({"plan": plan(policy="quick", origin=ORIGIN)}, "under policy 'quick'"),
        (
            {"plan": plan(policy="release", origin=ORIGIN.model_copy(update={"changed": ("servegate.yaml",)}))},
            "those that were reviewed",
        ),
        ({"plan": plan(policy="release", origin=ORIGIN.model_copy(update={"judged_by": "head"}))}, "those that were reviewed"),
        ({"manifests": {"baseline": manifest(), "candidate": manifest()}}, "the candidate ran on cpu"),
        ({"manifests": {}}, "nothing is recorded of the machine of the baseline"),
        ({"now": datetime(2026, 3, 17, 12, tzinfo=UTC)}, "8.0 days ago"),
        ({"now": datetime(2026, 3, 9, 12, tzinfo=UTC)}, "in the future"),
        ({"run": {}}, "when it was measured"),
        ({"run": {"stages": [{"started_at": "yesterday"}]}}, "when it was measured"),
        ({"run": {"stages": [{"started_at": "2026-03-09T12:00:00"}]}}, "when it was measured"),
        ({"policy": ReleasePolicy(version=1, cards=("NVIDIA H200",), gates=("other",))}, "of the gate 'demo'"),
        ({"policy": ReleasePolicy(version=1, cards=("NVIDIA B200",))}, "the baseline ran on NVIDIA H200"),
    ],
)
def test_each_lack_is_a_reason(changes: dict[str, Any], expected: str) -> None:
    assert expected in against(**changes)


def test_a_rehearsal_allows_no_release() -> None:
    told = Finding(check="arms", code="arms/rehearsal", severity=Severity.INFO, message="a rehearsal")
    assert "no model was served" in against(verdict=PASS.model_copy(update={"findings": (told,)}))


def test_a_merged_heads_own_rules_count_where_the_policy_says_so() -> None:
    asked = ReleasePolicy(version=1, cards=("NVIDIA H200",), rules="protected_head")
    assert against(policy=asked, plan=released(judged_by="protected_head")) == ""
    assert against(policy=asked) == ""
    assert "those that were reviewed" in against(policy=asked, plan=released(judged_by="head"))


def test_the_oldest_measurement_counts() -> None:
    """One arm measured again does not make the other one fresh."""
    old = {"stages": [{"started_at": "2026-02-01T12:00:00+00:00"}, *RUN["stages"]]}
    assert "37.0 days ago" in against(run=old)


@pytest.mark.parametrize(
    "text", ["version: 1\n", "version: 1\ncards: []\n", "version: 1\ncards: [x]\nmax_age: 3\n", "version: 2\ncards: [x]\n"]
)
def test_a_release_policy_is_read_strictly(tmp_path: Path, text: str) -> None:
    path = tmp_path / "release.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"release\.yaml"):
        read_release_policy(path)


RECORDED = Path(__file__).parents[2] / "examples/recorded-run"


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    shutil.copytree(RECORDED, tmp_path / "run")
    (tmp_path / "release.yaml").write_text("version: 1\ncards: [cpu]\npolicies: [quick, standard, release]\n")
    RunDirectory.open(tmp_path / "run").write_checksums()
    return tmp_path / "run"


def verified(run: Path) -> int:
    return int(_code(["verify", str(run), "--policy", str(run.parent / "release.yaml"), "--commit", COMMIT]))


def test_a_run_by_hand_allows_no_release(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in recorded.rglob("*") if path.is_file()}
    outcome = RunDirectory.open(recorded).read_verdict().outcome
    assert verified(recorded) == (4 if outcome is Outcome.PASS else int(EXIT_CODES[outcome]))
    assert f"not about {COMMIT}" in capsys.readouterr().out
    assert {path: path.read_bytes() for path in recorded.rglob("*") if path.is_file()} == before


def test_a_verdict_that_the_evidence_does_not_give_is_found_out(recorded: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunDirectory.open(recorded)
    document = json.loads((recorded / "verdict.json").read_text())
    wrong = "fail" if document["data"]["outcome"] == "pass" else "pass"
    document["data"] = {**document["data"], "outcome": wrong}
    (recorded / "verdict.json").write_bytes(dump(document))
    assert verified(recorded) == 2  # changed
    run.write_checksums()  # whoever can write the directory can write the seal, too
    assert verified(recorded) == 2
    assert f"records the verdict {wrong}; its evidence gives" in capsys.readouterr().err


def test_a_commit_is_given_in_full(recorded: Path) -> None:
    assert _code(["verify", str(recorded), "--policy", str(recorded.parent / "release.yaml"), "--commit", "main"]) == 2


def test_a_policy_that_is_not_there_and_a_commit_that_is_not_given_are_told_as_such(
    recorded: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_SHA", raising=False)
    policy = recorded.parent / "release.yaml"
    assert _code(["verify", str(recorded), "--policy", str(policy)]) == 2
    said = capsys.readouterr().err
    assert "which commit is to be released is not said" in said
    assert "--commit" in said
    policy.rename(recorded.parent / "relaese.yaml")
    assert _code(["verify", str(recorded), "--policy", str(policy)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "release.yaml does not exist" in said
    assert "Did you mean relaese.yaml?" in said
    assert "commit" not in said


def test_a_verdict_whose_findings_alone_were_changed_is_told_by_them(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads((recorded / "verdict.json").read_text())
    gone = document["data"]["findings"].pop()["code"]
    (recorded / "verdict.json").write_bytes(dump(document))
    RunDirectory.open(recorded).write_checksums()
    assert verified(recorded) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"records the verdict {document['data']['outcome']} with other findings than its evidence gives" in said
    assert gone in said
