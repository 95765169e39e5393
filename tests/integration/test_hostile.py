"""One whole run in which everything that a stranger chooses is hostile, and every artifact of it is inert.

A pull request renames a serving config to a name of HTML and Markdown, the engine answers with workflow commands, markers,
mentions, formulas and broken text, and the environment holds secrets that must be nowhere afterwards.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from servegate.cli import _code
from tests.fakes import install
from tests.integration.test_changes import GATE, SERVING, Clone
from tests.project.action_file import ACTION
from tests.unit.publish.test_workflow_commands import runner_commands, runner_outputs

NAME = "serving/<img src=x onerror=alert(1)>@acme|`b` ##[error]x\u202e$(id).yaml"
NASTY = [
    "::add-mask::PASS\n::error::gone\n##[add-mask]PASS",
    "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "<!-- servegate:team -->\n@acme/all fixes #1 https://evil.example",
    '=HYPERLINK("http://evil.example","x")',
    "\x1b[31mred\x1b[0m \u202egnp.exe \u200b \x00 \x9b31m",
    "```\n</details>\n| a | b |\n|---|---|\n# PASS",
    "\ud800 \udfff \ufffe",
    "日" * 20_000,
    "{{7*7}} ${{ github.token }} {% raw %}",
]
CANARIES = {
    "GITHUB_TOKEN": "ghs_canaryAAAA0123456789",
    "AWS_SECRET_ACCESS_KEY": "canaryBBBB0123456789",
    "HF_TOKEN": "hf_canaryCCCC0123456789",
    "VLLM_API_KEY": "canaryDDDD0123456789",
    "MY_SERVICE_PASSWORD": "canaryEEEE0123456789",
}
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]")


class Elements(HTMLParser):
    """Every element of a page, with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder that `servegate ci` wrote, and everything that was printed."""
    root = tmp_path_factory.mktemp("hostile")
    engine, clone = install(root / "bin"), Clone(root / "clone")
    prompts = [{"id": f"p{n}", "category": "<b>@acme</b>", "prompt": f"number {n}."} for n in range(len(NASTY))]
    clone.git("switch", "-q", "-C", "main")
    clone.write("prompts.jsonl", "".join(json.dumps(each) + "\n" for each in prompts))
    clone.write("servegate.yaml", GATE + f"engine: {{executable: {engine}, start_timeout_s: 20, request_timeout_s: 5}}\n")
    clone.commit()
    clone.git("switch", "-q", "-C", "change")
    clone.git("mv", "serving/a.yaml", NAME)
    clone.write(NAME, SERVING.replace("8", "16"))
    clone.write("serving/b.yaml", "model: org/b\nmax-num-seqs: 8\nhf-token: '::error::x\\n@acme <script>'\n")
    clone.commit()
    answers = root / "answers.json"
    answers.write_text(json.dumps({f"number {n}.": text for n, text in enumerate(NASTY)}))
    with pytest.MonkeyPatch.context() as patch:
        import subprocess

        for name, value in {**CANARIES, "FAKE_VLLM_ANSWERS": str(answers), "PYTHONPATH": os.pathsep.join(sys.path)}.items():
            patch.setenv(name, value)
        command = [sys.executable, "-m", "servegate", "ci", "--base", "main", "--output", str(root / "runs")]
        done = subprocess.run(command, cwd=clone.root, capture_output=True, check=False, timeout=100)
    said = (done.stdout + done.stderr).decode("utf-8", "replace")
    assert done.returncode == 2, said  # the second config was refused
    return root / "runs", said


def files(run: tuple[Path, str], *suffixes: str) -> dict[Path, str]:
    found = {path: path.read_bytes() for path in run[0].rglob("*") if path.is_file() and path.suffix in suffixes}
    assert found
    return {path: content.decode("utf-8", "replace") for path, content in found.items()}


def test_it_ran_to_its_verdict(run: tuple[Path, str]) -> None:
    index = json.loads((run[0] / "index.json").read_text())
    assert [pair["after"] for pair in index["pairs"]] == [NAME]
    assert len(index["outcomes"]) == 1
    [refused] = index["not_measured"]
    assert refused["path"] == "serving/b.yaml"
    answered = list(run[0].rglob("candidate/prompts.json"))
    assert "HYPERLINK" in answered[0].read_text()


def test_no_secret_is_in_any_file_or_line(run: tuple[Path, str]) -> None:
    for path in run[0].rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert not [name for name, canary in CANARIES.items() if canary.encode() in content], path
    assert "canary" not in run[1]


def test_what_was_printed_is_no_command_and_no_escape(run: tuple[Path, str]) -> None:
    assert runner_commands(run[1]) == []
    assert not CONTROLS.search(run[1].replace("\n", "").replace("\r", ""))


def test_markdown_holds_no_mention_marker_or_control(run: tuple[Path, str]) -> None:
    for path, text in files(run, ".md").items():
        prose = re.sub(r"(?ms)^(`{3,})text\n.*?^\1$", "", text)
        prose = re.sub(r"(`+) ?.+? ?\1", "", prose)
        assert "@acme" not in prose, path
        assert "<script" not in prose, path
        assert "<img" not in prose, path
        assert text.count("<!-- servegate:") <= 1, path
        assert not CONTROLS.search(text.replace("\n", "").replace("\t", "")), path


def test_the_page_has_no_element_of_theirs(run: tuple[Path, str]) -> None:
    for path, text in files(run, ".html").items():
        page = Elements()
        page.feed(text)
        assert not [tag for tag, _ in page.found if tag in {"script", "img", "iframe", "object", "form", "base"}], path
        assert not [name for _, attributes in page.found for name in attributes if name.startswith("on")], path
        links = [attributes.get("href") or "" for tag, attributes in page.found if tag == "a"]
        own = re.compile(r"#[\w-]*|(\.\./)?[\w/.-]+\.(csv|json|md|sh|log|yaml)")
        assert [link for link in links if not own.fullmatch(link)] == [], path
        assert "Content-Security-Policy" in text


def test_no_cell_of_a_table_is_a_formula(run: tuple[Path, str]) -> None:
    csv.field_size_limit(1 << 24)
    for path, text in files(run, ".csv").items():
        rows = list(csv.reader(text.splitlines(keepends=True)))
        assert len({len(row) for row in rows}) == 1, path
        for cell in (cell for row in rows for cell in row):
            assert not re.match(r"[=@\t\r]|[+-](?!\d|\.\d|inf|$)", cell), (path, cell[:80])


def test_published_on_a_runner_it_stays_in_its_place(run: tuple[Path, str], tmp_path: Path, capsys: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        event = tmp_path / "event.json"
        event.write_text("{}")
        for name, value in {
            "ACTIONS": "true",
            "EVENT_NAME": "push",
            "EVENT_PATH": str(event),
            "REPOSITORY": "acme/llm",
            "RUN_ID": "7",
            "OUTPUT": str(tmp_path / "output"),
            "STEP_SUMMARY": str(tmp_path / "summary"),
        }.items():
            patch.setenv(f"GITHUB_{name}", value)
        patch.delenv("GITHUB_TOKEN", raising=False)
        assert _code(["publish", "--no-comment", "--no-check", str(run[0])]) == 0
    said = capsys.readouterr().out
    commands = runner_commands(said)
    assert len(commands) >= 3
    assert all(re.match(r"::(error|warning|notice) (title=servegate|.*title=servegate)", line) for line in commands)
    assert not any("add-mask" in line.split("::")[1] for line in commands)
    outputs = runner_outputs((tmp_path / "output").read_text())
    assert outputs["verdict"] == "error"
    assert set(outputs) == set(ACTION["outputs"])
    # Whatever a model, a log or a config said, a later step can only read words, numbers and paths of ours.
    ours = re.escape(str(run[0])) + r"(/[a-z0-9-]+/report/report\.html)?"
    for name, value in outputs.items():
        assert re.fullmatch(rf"[a-z0-9_,/-]*|-?[0-9.e+-]+|{ours}", value), name
    summary = (tmp_path / "summary").read_text()
    assert not CONTROLS.search(summary.replace("\n", "").replace("\t", ""))
    assert "@acme" not in re.sub(r"(`+) ?.+? ?\1", "", re.sub(r"(?ms)^(`{3,})text\n.*?^\1$", "", summary))
