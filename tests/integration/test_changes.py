"""What a pull request changes, from real git repositories: nothing that was watched and changed is ever left out."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from servegate.changes import ChangesError, Repository
from servegate.checks.verdict import decide
from servegate.cli import _code
from servegate.cli.pairs import prepared
from servegate.domain.judgement import Outcome
from servegate.errors import RunnerError
from servegate.pipeline.changing import Index, prepare, read_index, resolved_pair
from servegate.report.overview import Row, overall, overview
from tests.fakes import install
from tests.unit.publish.test_publish import verdict as verdict_of

GATE = """\
version: 1
gate: team
policy: quick
checks: {prompts: {file: prompts.jsonl}}
changes:
  configs:
    - files: serving/**/*.yaml
    - {files: k8s/*.yaml, arguments: "spec.args", environment: spec.env, document: Deployment}
  max_pairs: 3
"""
PROMPT = '{"id": "a", "category": "c", "prompt": "Say 1."}\n'
SERVING = "model: org/m\nmax-num-seqs: 8\n# a comment that gives git enough to see a rename\n# and another one\n"


class Clone:
    """A repository with a base branch `main` and a branch `change`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.git("init", "-q", "-b", "main")
        self.write("servegate.yaml", GATE)
        self.write("prompts.jsonl", PROMPT)
        self.write("serving/a.yaml", SERVING)
        self.write("serving/b.yaml", SERVING.replace("org/m", "org/b"))
        self.write("README.md", "hello\n")
        self.base = self.commit("base")
        self.git("switch", "-q", "-c", "change")

    def git(self, *arguments: str) -> str:
        author = {f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environment = {**os.environ, **author, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        done = subprocess.run(["git", *arguments], cwd=self.root, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def write(self, name: str, text: str | bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    def commit(self, message: str = "change") -> str:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def clone(tmp_path: Path) -> Clone:
    return Clone(tmp_path / "clone")


def index_of(clone: Clone, tmp_path: Path, base: str = "main", head: str = "change", **options: Any) -> Index:
    return prepare(Repository(clone.root), "servegate.yaml", base, head, tmp_path / "pairs", **options)


def left(index: Index) -> dict[str, str]:
    return {each.path: each.code for each in index.not_measured}


def test_a_changed_config_is_a_pair_of_merge_base_and_head(clone: Clone, tmp_path: Path) -> None:
    clone.write("serving/a.yaml", SERVING.replace("8", "16"))
    head = clone.commit()
    clone.git("switch", "-q", "main")
    clone.write("serving/a.yaml", SERVING.replace("8", "99"))  # the base branch moved on: no part of this change
    base = clone.commit("moved on")
    index = index_of(clone, tmp_path)
    assert (index.base, index.merge_base, index.head) == (base, clone.base, head)
    [pair] = index.pairs
    assert (pair.before, pair.after) == ("serving/a.yaml", "serving/a.yaml")
    assert left(index) == {}
    assert read_index(tmp_path / "pairs") == index
    plan = resolved_pair(tmp_path / "pairs", pair.gate, "servegate.yaml").plan
    assert [(knob.name, knob.baseline, knob.candidate) for knob in plan.knobs] == [("max-num-seqs", 8, 16)]
    assert plan.arms["candidate"].config.path == "serving/a.yaml"
    assert plan.origin is not None
    assert plan.origin.changed == ()


def test_a_rename_is_followed(clone: Clone, tmp_path: Path) -> None:
    (clone.root / "serving/new").mkdir()
    clone.git("mv", "serving/a.yaml", "serving/new/a-fp8.yaml")
    clone.write("serving/new/a-fp8.yaml", SERVING + "quantization: fp8\n")
    clone.commit()
    index = index_of(clone, tmp_path)
    assert [(pair.before, pair.after) for pair in index.pairs] == [("serving/a.yaml", "serving/new/a-fp8.yaml")]


def test_added_deleted_moved_away_linked_and_executable_files_are_listed_and_never_passed(clone: Clone, tmp_path: Path) -> None:
    clone.write("serving/c.yaml", "model: org/entirely-different\nseed: 1\nblock-size: 16\nquantization: fp8\n")
    (clone.root / "serving/b.yaml").unlink()
    (clone.root / "serving/a.yaml").unlink()
    (clone.root / "serving/a.yaml").symlink_to("/etc/passwd")
    clone.commit()
    index = index_of(clone, tmp_path)
    assert index.pairs == ()
    assert left(index) == {"serving/c.yaml": "added", "serving/b.yaml": "deleted", "serving/a.yaml": "mode"}
    reasons = {each.path: (each.reason, each.weight) for each in index.not_measured}
    assert reasons["serving/a.yaml"] == (
        "is a link (mode 120000) in the pull request; a serving config is a plain file (100644)",
        "refused",
    )
    assert reasons["serving/c.yaml"][1] == "review"


def test_a_config_that_leaves_the_watched_folder_does_not_leave_the_gate_in_silence(clone: Clone, tmp_path: Path) -> None:
    (clone.root / "elsewhere").mkdir()
    clone.git("mv", "serving/a.yaml", "elsewhere/a.yaml")
    clone.commit()
    index = index_of(clone, tmp_path)
    assert left(index) == {"serving/a.yaml": "deleted"}
    assert "moved to elsewhere/a.yaml, which no glob watches" in index.not_measured[0].reason


def test_a_new_config_is_compared_with_the_one_that_the_base_branch_names(clone: Clone, tmp_path: Path) -> None:
    clone.git("switch", "-q", "main")
    clone.write("servegate.yaml", GATE + "  new_against: serving/a.yaml\n  allow: {models: [org/*]}\n")
    clone.commit()
    clone.git("switch", "-q", "change")
    clone.git("merge", "-q", "main")
    pinned = f"model: org/n\nrevision: {'a' * 40}\nload-format: safetensors\n"
    clone.write("serving/n.yaml", pinned)
    clone.commit()
    [pair] = index_of(clone, tmp_path).pairs
    assert (pair.before, pair.after) == ("serving/a.yaml", "serving/n.yaml")


def test_equal_arguments_run_once_and_a_comment_alone_is_not_measured(clone: Clone, tmp_path: Path) -> None:
    clone.git("switch", "-q", "main")
    clone.write("serving/twin.yaml", SERVING)
    clone.commit()
    clone.git("switch", "-q", "change")
    clone.git("merge", "-q", "main")
    clone.write("serving/a.yaml", SERVING.replace("8", "16"))
    clone.write("serving/twin.yaml", SERVING.replace("max-num-seqs: 8", "max_num_seqs: '16'"))
    clone.write("serving/b.yaml", SERVING.replace("org/m", "org/b") + "# only words\n")
    clone.commit()
    index = index_of(clone, tmp_path)
    [pair] = index.pairs
    assert index.also == {pair.gate: ("serving/twin.yaml",)}
    assert left(index) == {"serving/b.yaml": "equal"}
    assert resolved_pair(tmp_path / "pairs", pair.gate, "servegate.yaml").plan.origin.also == ("serving/twin.yaml",)


def test_two_files_of_one_gate_id_do_not_share_a_folder(clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody may look for a path whose id is that of another file, so that one is judged by the other's content."""
    monkeypatch.setattr("servegate.changes.pairing._name", lambda gate, _path: gate)
    for name in "ab":
        clone.write(f"serving/{name}.yaml", (clone.root / f"serving/{name}.yaml").read_text() + "seed: 1\n")
    clone.commit()
    index = index_of(clone, tmp_path)
    assert [pair.after for pair in index.pairs] == ["serving/a.yaml"]
    assert left(index) == {"serving/b.yaml": "refused"}


def test_pairs_beyond_the_most_are_listed(clone: Clone, tmp_path: Path) -> None:
    for name in "cdefg":
        clone.write(f"serving/{name}.yaml", SERVING + f"seed: {ord(name)}\n")
    clone.git("switch", "-q", "-C", "main")
    clone.commit()
    clone.git("switch", "-q", "-C", "change")
    for name in "cdefg":
        clone.write(f"serving/{name}.yaml", SERVING + f"seed: {ord(name)}\nenforce-eager: true\n")
    clone.commit()
    index = index_of(clone, tmp_path)
    assert len(index.pairs) == 3
    assert left(index) == {"serving/f.yaml": "max-pairs", "serving/g.yaml": "max-pairs"}
    assert len({pair.gate for pair in index.pairs}) == 3


def test_arguments_of_a_manifest_and_its_environment(clone: Clone, tmp_path: Path) -> None:
    manifest = (
        "kind: Deployment\nspec:\n  args: [serve, org/m, --max-num-seqs, '8']\n"
        "  env: [{name: VLLM_USE_DEEP_GEMM, value: '1'}]\n"
    )
    clone.git("switch", "-q", "-C", "main")
    clone.write("k8s/m.yaml", manifest)
    clone.commit()
    clone.git("switch", "-q", "-C", "change")
    clone.write("k8s/m.yaml", manifest.replace("'8'", "'16'").replace("'1'", "'0'"))
    clone.commit()
    [pair] = index_of(clone, tmp_path).pairs
    plan = resolved_pair(tmp_path / "pairs", pair.gate, "servegate.yaml").plan
    assert {knob.name: (knob.baseline, knob.candidate) for knob in plan.knobs} == {
        "max-num-seqs": ("8", "16"),
        "environment.VLLM_USE_DEEP_GEMM": ("1", "0"),
    }
    assert plan.arms["candidate"].config.path == "k8s/m.yaml (spec.args)"
    clone.write("k8s/m.yaml", manifest.replace("VLLM_USE_DEEP_GEMM", "LD_PRELOAD"))
    clone.commit()
    refused = prepare(Repository(clone.root), "servegate.yaml", "main", "change", tmp_path / "again")
    assert left(refused) == {"k8s/m.yaml": "refused"}
    assert "LD_PRELOAD" in refused.not_measured[0].reason


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"model: org/m\ntrust-remote-code: true\n", "serving/a.yaml:2: a pull request may not set 'trust-remote-code'"),
        (b"model: org/evil\n", "may not set 'model'"),
        (b"model: org/m\nmax-num: 3\n", "no option of vLLM"),
        (b"model: org/m\n\xff\n", "not UTF-8"),
        (b"model: org/m\n" + b"#" * (1 << 20), "allowed are 1048576"),
        (b"model: org/m\n<<: {a: b}\n", "merge keys"),
    ],
)
def test_a_config_of_the_head_that_is_refused_is_listed_with_its_reason(
    clone: Clone, tmp_path: Path, content: bytes, expected: str
) -> None:
    clone.write("serving/a.yaml", content)
    clone.commit()
    index = index_of(clone, tmp_path)
    assert index.pairs == ()
    [one] = index.not_measured
    assert (one.code, one.weight) == ("refused", "refused")
    assert expected in one.reason


# -- whose rules judge ---------------------------------------------------------------------------------------------


def test_a_pull_request_can_not_lower_its_own_bar(clone: Clone, tmp_path: Path) -> None:
    clone.write("serving/a.yaml", SERVING.replace("8", "16"))
    clone.write("prompts.jsonl", PROMPT.replace("1.", "2."))
    clone.write("servegate.yaml", GATE.replace("prompts: {", "prompts: {limits: {fact_changes: headline}, "))
    clone.write(".github/workflows/gate.yml", "on: push\n")
    clone.commit()
    index = index_of(clone, tmp_path)
    assert index.rules_changed == (".github/workflows/gate.yml", "prompts.jsonl", "servegate.yaml")
    [pair] = index.pairs
    folder = tmp_path / "pairs" / pair.gate / "tree"
    assert (folder / "servegate.yaml").read_text() == GATE
    assert (folder / "prompts.jsonl").read_text() == PROMPT
    found = resolved_pair(tmp_path / "pairs", pair.gate, "servegate.yaml")
    assert found.plan.origin is not None
    verdict = decide(found.plan, _no_arms(), {})
    assert verdict.policy.changed_in_head is True
    [told] = [each for each in verdict.findings if each.code == "arms/policy-changed"]
    assert told.severity.value == "review"
    assert "prompts.jsonl, servegate.yaml); the base branch's were used here" in told.message


def test_templates_come_from_the_base_branch_and_are_part_of_the_rules(clone: Clone, tmp_path: Path) -> None:
    clone.git("switch", "-q", "main")
    clone.write("servegate.yaml", GATE + "templates: reports\n")
    clone.write("reports/comment.md.j2", "{{ page.verdict.word }}: the base branch's\n")
    clone.commit()
    clone.git("switch", "-q", "-C", "change")
    clone.write("serving/a.yaml", SERVING.replace("8", "16"))
    clone.write("reports/comment.md.j2", "PASS {{ page.verdict.word }}\n")
    clone.write("reports/report.css", "body {}\n")  # one that the base branch has not
    clone.commit()
    index = index_of(clone, tmp_path)
    assert index.rules_changed == ("reports/comment.md.j2", "reports/report.css")
    [pair] = index.pairs
    plan = resolved_pair(tmp_path / "pairs", pair.gate, "servegate.yaml").plan
    assert plan.templates == {"comment.md.j2": "{{ page.verdict.word }}: the base branch's\n"}
    assert plan.fingerprint() == plan.model_copy(update={"templates": {}}).fingerprint(), "a layout changes no verdict"
    clone.git("switch", "-q", "main")
    clone.write("reports/comment.md.j2", "{{ page.gate|safe }}\n")
    clone.commit()
    clone.git("switch", "-q", "-C", "later")
    clone.write("serving/a.yaml", SERVING.replace("8", "32"))
    clone.commit()
    index = prepare(Repository(clone.root), "servegate.yaml", "main", "later", tmp_path / "wrong")
    [refused] = index.not_measured
    assert refused.weight == "refused"
    assert refused.reason.startswith("comment.md.j2:1: the filter 'safe' is not allowed here")


def test_rules_of_the_head_judge_only_when_that_is_asked_for(clone: Clone, tmp_path: Path) -> None:
    clone.write("serving/a.yaml", SERVING.replace("8", "16"))
    clone.write("servegate.yaml", GATE.replace("team", "mine"))
    clone.commit()
    index = index_of(clone, tmp_path, judged_by="head")
    assert index.pairs[0].gate.startswith("mine-")
    found = resolved_pair(tmp_path / "pairs", index.pairs[0].gate, "servegate.yaml")
    assert any("its own, as was asked for, were used" in each.message for each in decide(found.plan, _no_arms(), {}).findings)


def test_a_merged_head_is_judged_by_its_own_rules_and_a_pull_request_can_not_claim_to_be_one(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    clone.write("serving/a.yaml", SERVING + "trust-remote-code: true\n")
    clone.write("servegate.yaml", GATE.replace("team", "mine"))
    clone.commit()
    index = index_of(clone, tmp_path, judged_by="protected_head")
    assert (index.rules_changed, index.not_measured) == ((), ())
    monkeypatch.chdir(clone.root)
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")
    assert _code(["pairs", "--base", "main", "--trust-head", "--output", str(tmp_path / "p")]) == 2
    assert "not trusted" in capsys.readouterr().err


def test_unchanged_rules_are_said_to_be_unchanged(clone: Clone, tmp_path: Path) -> None:
    clone.write("serving/a.yaml", SERVING.replace("8", "16"))
    clone.commit()
    index = index_of(clone, tmp_path)
    found = resolved_pair(tmp_path / "pairs", index.pairs[0].gate, "servegate.yaml")
    assert decide(found.plan, _no_arms(), {}).policy.changed_in_head is False


def test_a_gate_config_that_only_the_head_has_judges_nothing(clone: Clone, tmp_path: Path) -> None:
    clone.git("switch", "-q", "-C", "main")
    clone.git("rm", "-q", "servegate.yaml")
    clone.commit()
    clone.git("switch", "-q", "-C", "change")
    clone.write("servegate.yaml", GATE)
    clone.commit()
    with pytest.raises(ChangesError, match=r"there is no servegate.yaml at .*, whose rules judge"):
        index_of(clone, tmp_path)


def _no_arms() -> dict[str, Any]:
    from servegate.checks.contract import ArmEvidence
    from servegate.domain.evidence import NotMeasured, Reason

    nothing = ArmEvidence(None, None, NotMeasured(reason=Reason(code="absent", message="x")))
    return {"baseline": nothing, "candidate": nothing}


# -- what git can not say -------------------------------------------------------------------------------------------


def test_a_shallow_clone_is_an_error_with_its_remedy(clone: Clone, tmp_path: Path) -> None:
    clone.write("serving/a.yaml", SERVING.replace("8", "16"))
    head = clone.commit()
    shallow = tmp_path / "shallow"
    subprocess.run(["git", "clone", "-q", "--depth=1", "-b", "change", f"file://{clone.root}", str(shallow)], check=True)
    with pytest.raises(ChangesError, match="is not in this clone") as caught:
        prepare(Repository(shallow), "servegate.yaml", clone.base, head, tmp_path / "pairs")
    assert "shallow" in caught.value.why
    assert "fetch-depth: 0" in caught.value.advice
    subprocess.run(["git", "-C", str(shallow), "fetch", "-q", "--depth=1", "origin", clone.base], check=True)
    with pytest.raises(ChangesError, match="no common commit in this clone") as caught:
        prepare(Repository(shallow), "servegate.yaml", clone.base, head, tmp_path / "pairs")
    assert "fetch-depth: 0" in caught.value.advice


@pytest.mark.parametrize("ref", ["--output=/tmp/x", "main; touch /x", "", "$(x)", "-h", "nothing-of-that-name"])
def test_a_ref_is_never_an_option(clone: Clone, tmp_path: Path, ref: str) -> None:
    with pytest.raises(ChangesError):
        prepare(Repository(clone.root), "servegate.yaml", ref, "change", tmp_path / "pairs")


def test_pairs_that_could_not_be_prepared_leave_nothing_in_the_way_of_the_corrected_call(clone: Clone, tmp_path: Path) -> None:
    clone.git("switch", "-q", "-C", "main")
    clone.write("servegate.yaml", GATE[: GATE.index("changes:")])
    clone.commit()
    clone.git("switch", "-q", "-C", "change")
    output = tmp_path / "pairs"
    for _ in range(2):
        with pytest.raises(ChangesError, match="watches no serving config"):
            prepared(
                output, config="servegate.yaml", base="main", head="change", judge_by="base", trust_head=False,
                repository=clone.root,
            )  # fmt: skip
    assert not output.exists()


def test_globs_that_match_nothing_and_a_folder_that_is_no_clone(clone: Clone, tmp_path: Path) -> None:
    clone.git("switch", "-q", "-C", "main")
    clone.write("servegate.yaml", GATE.replace("serving/**", "servings/**"))
    clone.commit()
    clone.git("switch", "-q", "-C", "change")
    with pytest.raises(ChangesError, match="no file matches"):
        index_of(clone, tmp_path)
    (tmp_path / "none").mkdir()
    with pytest.raises(ChangesError):
        Repository(tmp_path / "none")


def test_names_that_git_quotes_and_bytes_that_are_no_text(clone: Clone, tmp_path: Path) -> None:
    clone.git("switch", "-q", "-C", "main")
    clone.write('serving/ü "x"\t[1].yaml', SERVING)
    clone.commit()
    clone.git("switch", "-q", "-C", "change")
    clone.write('serving/ü "x"\t[1].yaml', SERVING.replace("8", "16"))
    odd = os.fsencode(clone.root / "serving") + b"/\xff.yaml"
    Path(os.fsdecode(odd)).write_bytes(b"model: org/m\nseed: 4\n")
    clone.commit()
    index = index_of(clone, tmp_path)
    assert [pair.after for pair in index.pairs] == ['serving/ü "x"\t[1].yaml']
    assert list(left(index).values()) == ["added"]
    json.loads((tmp_path / "pairs/index.json").read_text())


# -- the verbs ------------------------------------------------------------------------------------------------------


def verb(clone: Clone, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *arguments: str) -> int:
    monkeypatch.chdir(clone.root)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    return int(_code(["pairs", "--output", str(tmp_path / "p"), *arguments]))


def test_exit_codes_of_pairs(clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    assert verb(clone, monkeypatch, tmp_path, "--base", "main") == 3
    assert "not evaluated: no serving config changed" in capsys.readouterr().out
    assert verb(clone, monkeypatch, tmp_path) == 2
    clone.write("README.md", "other\n")
    clone.commit()
    assert verb(clone, monkeypatch, tmp_path / "b", "--base", "main", "--allow-no-change") == 0
    clone.write("serving/a.yaml", SERVING + "trust-remote-code: true\n")
    clone.commit()
    assert verb(clone, monkeypatch, tmp_path / "c", "--base", "main", "--allow-no-change") == 2
    clone.write("serving/a.yaml", SERVING + "seed: 1\n")
    clone.commit()
    assert verb(clone, monkeypatch, tmp_path / "d", "--base", "main") == 0


def test_the_events_commits_are_compared_and_a_forks_are_not(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    clone.write("serving/a.yaml", SERVING + "seed: 1\n")
    head = clone.commit()
    event = tmp_path / "event.json"
    side = {"repo": {"full_name": "acme/llm"}}
    document = {"pull_request": {"number": 1, "head": {"sha": head, **side}, "base": {"sha": clone.base, **side}}}
    monkeypatch.chdir(clone.root)
    for name, value in {"ACTIONS": "true", "EVENT_NAME": "pull_request", "EVENT_PATH": str(event)}.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    event.write_text(json.dumps(document))
    assert _code(["pairs", "--output", str(tmp_path / "p")]) == 0
    document["pull_request"]["head"]["repo"] = {"full_name": "eve/llm"}
    event.write_text(json.dumps(document))
    assert _code(["pairs", "--output", str(tmp_path / "q")]) == 2
    assert "a fork's" in capsys.readouterr().err
    monkeypatch.setenv("GITHUB_EVENT_NAME", "merge_group")
    event.write_text(json.dumps({"merge_group": {"base_sha": clone.base, "head_sha": head}}))
    assert _code(["pairs", "--output", str(tmp_path / "r")]) == 0


def on_the_fake_engine(clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A branch `change` that changes one serving config, gated on the fake engine; both arms keep their contracts."""
    engine = install(tmp_path / "bin")
    clone.git("switch", "-q", "-C", "main")
    prompts = [{"id": f"p{n}", "category": "c", "prompt": f"number {n}.", "expect": {"json": True}} for n in range(24)]
    clone.write("prompts.jsonl", "".join(json.dumps(each) + "\n" for each in prompts))
    clone.write("servegate.yaml", GATE + f"engine: {{executable: {engine}, start_timeout_s: 20, request_timeout_s: 5}}\n")
    clone.commit()
    clone.git("switch", "-q", "-C", "change")
    clone.write("serving/a.yaml", SERVING.replace("8", "16"))
    clone.commit()
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps({f"number {n}.": json.dumps({"n": n}) for n in reversed(range(24))}))
    monkeypatch.setenv("FAKE_VLLM_ANSWERS", str(answers))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.chdir(clone.root)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def test_ci_measures_every_pair_and_a_pair_that_is_left_is_no_pass(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """On the fake engine: one changed config is measured, a deleted one keeps the whole from passing, and both are told."""
    on_the_fake_engine(clone, tmp_path, monkeypatch)
    assert _code(["ci", "--base", "main", "--output", str(tmp_path / "runs")]) == 0
    index = json.loads((tmp_path / "runs/index.json").read_text())
    assert list(index["outcomes"].values()) == ["pass"]
    [gate] = index["outcomes"]
    run = json.loads((tmp_path / "runs" / gate / "run.json").read_text())["data"]
    again = (tmp_path / "runs" / gate / "report/reproduce.sh").read_text()
    assert f"exec servegate ci --config=servegate.yaml --base={index['base']} --head={index['head']}" in again
    assert str(tmp_path / "runs") not in (tmp_path / "runs" / gate / "report/report.md").read_text()
    assert run["git"]["head"] == index["head"]
    verdict = json.loads((tmp_path / "runs" / gate / "verdict.json").read_text())["data"]
    assert verdict["policy"]["changed_in_head"] is False
    assert _code(["ci", "--base", "main", "--output", str(tmp_path / "runs")]) == 2
    assert "pass --force to replace it" in capsys.readouterr().err.replace("\n", " ")
    (clone.root / "serving/b.yaml").unlink()
    clone.commit()
    assert _code(["ci", "--base", "main", "--output", str(tmp_path / "runs"), "--force"]) == 3
    comment = (tmp_path / "runs" / gate / "report/comment.md").read_text()
    assert "What differs in `serving/a.yaml`, baseline → candidate:" in comment
    index = json.loads((tmp_path / "runs/index.json").read_text())
    assert f"serving config `serving/a.yaml`, commits `{index['merge_base'][:12]} -> {index['head'][:12]}`" in comment
    assert "not measured: serving/b.yaml: was deleted" in capsys.readouterr().out
    (tmp_path / "bin/vllm").unlink()
    assert _code(["ci", "--base", "main", "--output", str(tmp_path / "none"), "--force"]) == 2
    told = json.loads((tmp_path / "none/index.json").read_text())["not_measured"]
    assert [each["path"] for each in told] == ["serving/b.yaml", "serving/a.yaml"]
    assert "engine not found" in told[1]["reason"]
    capsys.readouterr()
    assert _code(["publish", str(tmp_path / "runs")]) == 0
    said = capsys.readouterr().out
    assert "the verdict is pass" in said.lower()
    assert "The verdict is review: 1 of 2 changed serving configs were not measured: serving/b.yaml: was deleted" in said


# -- what one pull request may cost ---------------------------------------------------------------------------------


class Hours:
    """A clock that a measurement moves on, and what stands for one: nothing is served here, only the budget is looked at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *minutes: float, busy: bool = False) -> None:
        self.now, self.left, self.begun = 0.0, list(minutes), []
        self.busy = busy
        monkeypatch.setattr("servegate.cli.ci.time.monotonic", lambda: self.now)
        monkeypatch.setattr("servegate.cli.ci.measure", self.measure)
        monkeypatch.setattr("servegate.cli.ci.pipeline.compare", lambda _run: verdict_of(Outcome.PASS, "no damage found"))
        monkeypatch.setattr("servegate.cli.ci.pipeline.report", lambda _run: {})

    def measure(self, found: Any, *_: Any, **__: Any) -> Any:
        self.begun.append(found.plan.arms["candidate"].config.path)
        self.now += 60 * self.left.pop(0)
        if self.busy:
            raise RunnerError("NVIDIA H200 (GPU-1) is taken by gate x", advice="Run again later.")
        return SimpleNamespace(root=found.run_root, read_verdict=lambda: verdict_of(Outcome.PASS, "no damage found"))


def three_changed(clone: Clone, minutes: float) -> None:
    clone.git("switch", "-q", "-C", "main")
    clone.write("servegate.yaml", GATE.replace("max_pairs: 3", f"max_pairs: 3\n  budget_minutes: {minutes}"))
    clone.write("serving/c.yaml", SERVING.replace("org/m", "org/c"))
    clone.commit()
    clone.git("switch", "-q", "-C", "change")
    for name in "abc":
        path = clone.root / f"serving/{name}.yaml"
        path.write_text(path.read_text().replace("8", "16"))
    clone.commit()


@pytest.mark.parametrize(
    ("minutes", "taken", "measured", "code"),
    [
        (120, (30, 30, 30), "abc", 0),
        (120, (70, 30, 30), "a", 3),  # another one as long as the longest would not fit
        (120, (50, 60, 30), "ab", 3),
        (10, (30, 30, 30), "a", 3),  # the first one is always measured: something has to be said
    ],
)
def test_a_pull_request_over_its_budget_is_a_review_that_says_what_was_skipped(
    clone: Clone,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
    minutes: float,
    taken: Any,
    measured: str,
    code: int,
) -> None:
    hours = Hours(monkeypatch, *taken)
    three_changed(clone, minutes)
    monkeypatch.chdir(clone.root)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert _code(["ci", "--base", "main", "--output", str(tmp_path / "runs")]) == code
    assert hours.begun == [f"serving/{name}.yaml" for name in measured]
    index = read_index(tmp_path / "runs")
    skipped = [f"serving/{name}.yaml" for name in "abc" if name not in measured]
    reason = f"was not started: `changes.budget_minutes: {minutes:g}` would not hold it"
    assert [(each.path, each.code, each.reason) for each in index.not_measured] == [
        (path, "budget", reason) for path in skipped
    ]
    if not skipped:
        return
    # The overview is what a branch protection requires: no PASS of the measured ones hides what was skipped.
    rows = [Row(path, Outcome.PASS, "no damage found", True) for path in hours.begun]
    rows += [Row(each.path, Outcome.REVIEW, each.reason, False) for each in index.not_measured]
    assert overall(rows)[0] is Outcome.REVIEW
    text = overview(rows, (), {"base": "a" * 40, "head": "b" * 40}).decode()
    for path in skipped:
        assert f"**not measured** `{path}`: was not started" in text


def test_a_card_that_stays_busy_is_an_error_of_the_runner_and_no_refusal_of_the_change(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    Hours(monkeypatch, 10, 10, 10, busy=True)
    three_changed(clone, 240)
    monkeypatch.chdir(clone.root)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert _code(["ci", "--base", "main", "--output", str(tmp_path / "runs")]) == 5
    found = read_index(tmp_path / "runs").not_measured
    assert {each.weight for each in found} == {"failed"}
    assert "is taken by gate x" in found[0].reason
    capsys.readouterr()
    assert _code(["publish", str(tmp_path / "runs")]) == 0
    assert "The verdict is error: 3 of 3 changed serving configs were not measured" in capsys.readouterr().out


def test_each_arm_of_a_pull_request_is_measured_by_itself(
    clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the action does it: pairs, all baselines, all candidates in a copy of their output, then joined and judged."""
    on_the_fake_engine(clone, tmp_path, monkeypatch)
    clone.write("serving/b.yaml", SERVING.replace("8", "32"))
    (clone.root / "serving/a.yaml").rename(clone.root / "serving/c.yaml")
    clone.write("serving/new.yaml", "model: org/m\ntrust-remote-code: true\n")
    clone.commit()
    pairs, out, kept, runs = (tmp_path / name for name in ("pairs", "out", "kept", "runs"))
    _code(["pairs", "--base", "main", "--head", "HEAD", "--output", str(pairs)])
    index = read_index(pairs)
    assert [(pair.before, pair.after) for pair in index.pairs] == [("serving/a.yaml", "serving/c.yaml")]
    assert {each.path: each.weight for each in index.not_measured} == {
        "serving/b.yaml": "refused", "serving/new.yaml": "review",
    }  # fmt: skip
    measure = ["ci", "--pairs", str(pairs), "--output", str(out)]
    assert _code([*measure, "--arm", "baseline"]) == 2, "b.yaml is refused, whatever is measured"
    assert not list(out.rglob("verdict.json")), "nothing is judged by who measured it"
    assert not list(out.glob("*/arms/candidate/prompts.json"))
    shutil.copytree(out, kept)
    assert _code([*measure, "--arm", "candidate"]) == 2
    assert _code(["join", "--baseline", str(kept), "--candidate", str(out), "--output", str(runs), "--pairs", str(pairs)]) == 0
    joined = read_index(runs)
    assert (joined.pairs, joined.head) == (index.pairs, index.head)
    assert set(index.not_measured) <= set(joined.not_measured)
    for pair in index.pairs:
        assert _code(["compare", str(runs / pair.gate)]) == 0
        for arm in ("baseline", "candidate"):
            assert json.loads((runs / pair.gate / f"arms/{arm}/prompts.json").read_text())["status"] == "measured"


def test_each_half_of_the_budget_bounds_one_arm(clone: Clone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair whose baseline was not started for want of time is in the index, and its candidate is not started either."""
    on_the_fake_engine(clone, tmp_path, monkeypatch)
    clone.git("switch", "-q", "main")
    config = (clone.root / "servegate.yaml").read_text()
    clone.write("servegate.yaml", config.replace("  max_pairs: 3", "  max_pairs: 3\n  budget_minutes: 0.0001"))
    clone.write("serving/b.yaml", SERVING)
    clone.commit()
    clone.git("switch", "-q", "-C", "more")
    for name, seats in (("a", "16"), ("b", "32")):
        clone.write(f"serving/{name}.yaml", SERVING.replace("8", seats))
    clone.commit()
    pairs, out = tmp_path / "pairs", tmp_path / "out"
    assert _code(["pairs", "--base", "main", "--head", "HEAD", "--output", str(pairs)]) == 0
    measure = ["ci", "--pairs", str(pairs), "--output", str(out)]
    assert _code([*measure, "--arm", "baseline"]) == 3
    assert [each.code for each in read_index(out).not_measured] == ["budget"]
    assert _code([*measure, "--arm", "candidate"]) == 3
    assert [each.code for each in read_index(out).not_measured] == ["budget"]
    assert len(list(out.glob("*/arms/candidate/prompts.json"))) == 1
