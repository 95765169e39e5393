"""lm-eval: its command, what is refused before and after a pass, and the real tool against a small server."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from servegate.domain.workload import EvaluationSpec
from servegate.errors import MeasurementError, UsageError
from servegate.probes.evaluator import NULL_ANSWER, LmEval
from servegate.probes.lm_eval_task import prompt_of, write_task
from servegate.probes.relay import prompt_hash
from servegate.subprocesses import Completed, run
from tests.conftest import missing
from tests.fakes.completions_server import MODEL, CompletionsServer, replies, says

FEWSHOT = tuple({"question": f"What is {i} + 1?", "answer": f"{i} + 1 = {i + 1}.\n#### {i + 1}"} for i in range(3))
HOSTILE = (
    "{{ 7 * 7 }} {% for x in range(9) %}{% endfor %} {# gone #}?",
    "one\u2028two\u2029three\x85four\r\nfive?",
    "2020-01-01",
    "- yaml: [1, 2]\n!!python/object:os.system x?",
    "\\ \" ' é \U0001f600 \x00 \x1b[31m?",
    "[1, 2]",
)
QUESTIONS = tuple({"question": question, "answer": "#### 3"} for question in HOSTILE)
LOCAL = EvaluationSpec(
    task="my problems",
    shots=2,
    fewshot=FEWSHOT,
    questions=QUESTIONS,
    max_tokens=32,
    concurrency=64,
    max_length=2048,
    add_bos=False,
    seed=11,
    label="round-0",
)
NAMED = LOCAL.model_copy(update={"task": "arith", "shots": 5, "fewshot": (), "questions": (), "limit": 4})


class Tool:
    """A stand-in for `subprocesses.run` that leaves recorded files in the output directory."""

    def __init__(self, files: Path | None, *, returncode: int = 0, stderr: str = "") -> None:
        self.files, self.returncode, self.stderr = files, returncode, stderr
        self.commands: list[tuple[str, ...]] = []
        self.environment: dict[str, str] = {}

    def __call__(
        self, command: Sequence[str], *, timeout_s: float, environment: Mapping[str, str] | None, check: bool
    ) -> Completed:
        self.commands.append(tuple(command))
        self.environment = dict(environment or {})
        if self.files is not None:
            shutil.copytree(self.files, Path(self.option("output_path")) / MODEL)
        return Completed(tuple(command), self.returncode, "", self.stderr, 1.0)

    def option(self, name: str) -> str:
        return next(word.partition("=")[2] for word in self.commands[-1] if word.startswith(f"--{name}="))


def lm_eval(server: CompletionsServer, directory: Path, tool: Any) -> LmEval:
    return LmEval(server.endpoint, "/opt/lm_eval", directory, 60, tool)


def test_a_named_task(server: CompletionsServer, recorded: Path, tmp_path: Path) -> None:
    tool = Tool(recorded / "lm_eval")
    result = lm_eval(server, tmp_path, tool).evaluate(NAMED)
    assert (result.task, result.metric, result.filters) == ("arith", "exact_match", ("strict-match", "flexible-extract"))
    assert (len(result.rows), result.lm_eval, result.null_answer) == (8, "0.4.13", NULL_ANSWER)
    assert result.command == tool.commands[0]
    assert result.command[:3] == ("/opt/lm_eval", "run", "--model=local-completions")
    assert {"--tasks=arith", "--num_fewshot=5", "--limit=4", "--seed=11", "--log_samples"} <= set(result.command)
    assert not [word for word in result.command if "cache" in word.split("=")[0]]
    assert json.loads(tool.option("model_args")) == {
        "model": MODEL, "base_url": f"{server.base_url}/v1/completions", "tokenizer_backend": "None",
        "tokenized_requests": False, "num_concurrent": 64, "max_length": 2048, "max_gen_toks": 32, "max_retries": 3,
        "timeout": 300, "add_bos_token": False, "seed": 11,
    }  # fmt: skip
    generation = json.loads(tool.option("gen_kwargs"))
    assert (generation["temperature"], generation["repetition_penalty"], generation["top_k"]) == (0.0, 1.0, 0)
    assert (generation["do_sample"], generation["add_special_tokens"], generation["max_gen_toks"]) == (False, False, 32)
    assert tool.environment["LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER"] == NULL_ANSWER
    assert "HF_HUB_OFFLINE" not in tool.environment
    assert result.first_token_ids == tuple(b"Ques"), "the server's tokens are bytes"


def test_a_known_answer_that_comes_back_as_another_ends_the_pass(
    server: CompletionsServer, recorded: Path, tmp_path: Path
) -> None:
    """The recorded rows are what lm-eval made of the answers; one of them is claimed to have been something else."""
    tool = Tool(recorded / "lm_eval")
    rows = lm_eval(server, tmp_path, tool).evaluate(NAMED).rows
    known: dict[str, str | None] = {row.prompt_hash: row.response for row in rows}
    assert lm_eval(server, tmp_path, tool).evaluate(NAMED, known).rows == rows
    asked_at = json.loads(tool.option("model_args"))["base_url"]
    assert asked_at.startswith("http://127.0.0.1:")
    assert not asked_at.startswith(server.base_url)
    for other in ("something else", None):
        with pytest.raises(MeasurementError, match="the known answer to question 1 came back changed"):
            lm_eval(server, tmp_path, tool).evaluate(NAMED, {**known, rows[1].prompt_hash: other})


@pytest.mark.parametrize(("max_tokens", "cut"), [(62, ()), (61, (2,)), (59, (2, 3)), (32, (0, 1, 2, 3))])
def test_an_answer_as_long_as_it_may_be_was_cut(
    server: CompletionsServer, recorded: Path, tmp_path: Path, max_tokens: int, cut: tuple[int, ...]
) -> None:
    """The server counts a byte as a token; the recorded answers have 56, 48, 60 and 58, and one may be missing."""
    result = lm_eval(server, tmp_path, Tool(recorded / "lm_eval")).evaluate(NAMED.model_copy(update={"max_tokens": max_tokens}))
    assert result.cut == cut
    assert result.higher_is_better is True


def test_a_metric_that_cannot_be_judged_ends_the_pass(server: CompletionsServer, recorded: Path, tmp_path: Path) -> None:
    shutil.copytree(recorded / "lm_eval", tmp_path / "files")
    path = next((tmp_path / "files").glob("results_*.json"))
    path.write_text(path.read_text().replace('"exact_match": true', '"exact_match": false'))
    with pytest.raises(
        MeasurementError, match="task arith: metric 'exact_match' can not be judged: it is better when it is lower"
    ):
        lm_eval(server, tmp_path / "run", Tool(tmp_path / "files")).evaluate(NAMED)


def test_two_passes_share_no_salt_and_no_directory(server: CompletionsServer, recorded: Path, tmp_path: Path) -> None:
    tool = Tool(recorded / "lm_eval")
    salts = set()
    for label in ("round-0", "round-0", "round-1"):
        lm_eval(server, tmp_path, tool).evaluate(NAMED.model_copy(update={"label": label}))
        salts.add(json.loads(tool.option("gen_kwargs"))["cache_salt"])
    assert len(salts) == 3


def test_a_named_task_whose_prompts_were_too_long_is_refused_afterwards(
    server: CompletionsServer, recorded: Path, tmp_path: Path
) -> None:
    """The recorded prompts are about 700 bytes, which the server counts as so many tokens."""
    spec = NAMED.model_copy(update={"max_length": 600})
    with pytest.raises(MeasurementError, match=r"a prompt of \d{3} tokens leaves no room for 32 more in a context of 600"):
        lm_eval(server, tmp_path, Tool(recorded / "lm_eval")).evaluate(spec)


def test_a_local_prompt_that_is_too_long_is_refused_before_the_pass(server: CompletionsServer, tmp_path: Path) -> None:
    rows = (*QUESTIONS, {"question": "long " * 500, "answer": "#### 1"})
    tool = Tool(None)
    with pytest.raises(
        UsageError, match=r"a prompt of 2\d{3} tokens leaves no room for 32 more in a context of 2048"
    ) as caught:
        lm_eval(server, tmp_path, tool).evaluate(LOCAL.model_copy(update={"questions": rows}))
    assert "long long" in caught.value.why
    assert tool.commands == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"shots": 4}, "4 shots are asked for, but only 3 examples are given"),
        ({"questions": ({"question": "a?", "answer": "#### 1"}, {"question": "b?"})}, "question row 1: 'answer' is missing"),
        ({"questions": ({"question": "x\ud800?", "answer": "#### 1"},)}, "question row 0: 'question' holds a lone surrogate"),
        ({"fewshot": ({"question": " ", "answer": "#### 1"}, FEWSHOT[0])}, "few-shot row 0: 'question' is missing or empty"),
        ({"max_tokens": 2048}, "answers of 2048 tokens leave no room in a context of 2048"),
        ({"questions": (), "task": "gsm8k,arc --x"}, "not the name of an lm-eval task"),
    ],
)
def test_what_cannot_work_is_refused(server: CompletionsServer, tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    tool = Tool(None)
    with pytest.raises(UsageError, match=said):
        lm_eval(server, tmp_path, tool).evaluate(LOCAL.model_copy(update=changes))
    assert tool.commands == []


def test_a_log_of_other_questions_is_refused(server: CompletionsServer, recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(MeasurementError, match="does not hold exactly the 6 questions"):
        lm_eval(server, tmp_path, Tool(recorded / "lm_eval")).evaluate(LOCAL)
    with pytest.raises(MeasurementError, match="question 0 came back changed"):
        lm_eval(server, tmp_path, Tool(recorded / "lm_eval")).evaluate(LOCAL.model_copy(update={"limit": 4}))


def test_a_failed_pass_is_quoted(server: CompletionsServer, tmp_path: Path) -> None:
    tool = Tool(None, returncode=1, stderr="Traceback\nConnectionError: Couldn't reach 'openai/gsm8k'\n")
    with pytest.raises(MeasurementError, match="ended with exit code 1") as caught:
        lm_eval(server, tmp_path, tool).evaluate(NAMED)
    assert "Couldn't reach" in caught.value.why
    with pytest.raises(MeasurementError, match="found 0"):
        lm_eval(server, tmp_path, Tool(None)).evaluate(NAMED)


def test_warnings_and_repeated_attempts_are_kept(server: CompletionsServer, recorded: Path, tmp_path: Path) -> None:
    stderr = (
        "2026 INFO  [x:1] Retry attempt 1\n2026 WARNING  [x:2] API request failed!\n2026 WARNING  [x:2] API request failed!\n"
    )
    result = lm_eval(server, tmp_path, Tool(recorded / "lm_eval", stderr=stderr)).evaluate(NAMED)
    assert result.warnings == (
        "1 attempts at a request failed and were repeated by lm-eval",
        "[x:2] API request failed!",
    )
    assert result.repeated == 1


def test_the_task_file_holds_no_user_text(tmp_path: Path) -> None:
    write_task(tmp_path / "a[b]*", LOCAL)
    task = yaml.safe_load((tmp_path / "a[b]*" / "task.yaml").read_text())
    text = json.dumps(task)
    assert not [word for word in ("7 * 7", "yaml: [", "2020", "my problems") if word in text]
    assert task["dataset_kwargs"]["data_files"]["test"].endswith("/a[[]b][*]/test.jsonl")
    lines = (tmp_path / "a[b]*" / "test.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["question"] for line in lines] == list(HOSTILE)


def test_the_prompt_is_gsm8k_form() -> None:
    assert prompt_of(LOCAL, "Q?") == (
        "Question: What is 0 + 1?\nAnswer: 0 + 1 = 1.\n#### 1\n\nQuestion: What is 1 + 1?\nAnswer: 1 + 1 = 2.\n#### 2\n\n"
        "Question: Q?\nAnswer:"
    )


@pytest.mark.service
@pytest.mark.timeout(300)
def test_the_real_tool_asks_hostile_questions_unharmed_twice(server: CompletionsServer, tmp_path: Path) -> None:
    """Needs lm-eval 0.4.13 (the extra `eval`) beside this Python; about 10 s a pass."""
    executable = Path(sys.executable).with_name("lm_eval")
    if not executable.is_file():
        missing("lm_eval (the extra `eval`)")
    server.text_faults = {
        f"Question: {HOSTILE[2]}\n": replies(text=None),
        f"Question: {HOSTILE[5]}\n": replies(text=" It is 3.\n#### 3."),
    }
    tool = LmEval(server.endpoint, str(executable), tmp_path / "r[a]w", 100, run)
    for number in (1, 2):
        result = tool.evaluate(LOCAL.model_copy(update={"label": f"round-{number}"}))
        assert len(server.bodies) == 6 * number
        assert {body["prompt"] for body in server.bodies[-6:]} == {prompt_of(LOCAL, question) for question in HOSTILE}
        assert len({body["cache_salt"] for body in server.bodies}) == number
        assert {body["add_special_tokens"] for body in server.bodies} == {False}
        scores = {(row.doc_id, row.filter): row.score for row in result.rows}
        assert scores == {(i, f): float(i == 5) for i in range(6) for f in ("strict-match", "flexible-extract")}
        responses = {row.doc_id: row.response for row in result.rows}
        assert responses[2] == result.null_answer
        assert (result.version, result.lm_eval) == ("1.0", "0.4.13")
        assert any("null content" in warning for warning in result.warnings)


@pytest.mark.service
@pytest.mark.timeout(300)
def test_the_real_tool_asks_the_engine_only_for_what_is_not_known(server: CompletionsServer, tmp_path: Path) -> None:
    """Known answers, an empty one and a null among them, are scored like all others; an unknown one comes from the engine."""
    executable = Path(sys.executable).with_name("lm_eval")
    if not executable.is_file():
        missing("lm_eval (the extra `eval`)")
    server.text_faults = {f"Question: {HOSTILE[5]}\n": replies(text=" It is 3.\n#### 3.")}
    prompts = [prompt_of(LOCAL, question) for question in HOSTILE]
    texts: list[str | None] = [" 3.\n#### 3", "", None, "#### 3 \x00\u2028\U0001f600", " no"]
    known = {prompt_hash(prompt): text for prompt, text in zip(prompts, texts, strict=False)}
    result = LmEval(server.endpoint, str(executable), tmp_path, 100, run).evaluate(LOCAL, known)
    assert [body["prompt"] for body in server.bodies] == [prompts[5]]
    assert server.bodies[0]["temperature"] == 0
    responses = {row.doc_id: row.response for row in result.rows}
    assert responses == {**dict(enumerate(texts)), 2: result.null_answer, 5: " It is 3.\n#### 3."}
    scores = {row.doc_id: row.score for row in result.rows if row.filter == "flexible-extract"}
    assert scores == {0: 1.0, 1: 0.0, 2: 0.0, 3: 1.0, 4: 0.0, 5: 1.0}
    assert {row.prompt_hash for row in result.rows} == set(map(prompt_hash, prompts))


@pytest.mark.service
@pytest.mark.timeout(300)
def test_the_real_tool_gives_up_when_requests_fail(server: CompletionsServer, tmp_path: Path) -> None:
    """A failed request is never scored: lm-eval ends, and its pass with it."""
    executable = Path(sys.executable).with_name("lm_eval")
    if not executable.is_file():
        missing("lm_eval (the extra `eval`)")
    server.text_faults = {"2020": says('{"error": {"message": "boom"}}', 500)}
    tool = LmEval(server.endpoint, str(executable), tmp_path, 100, run)
    with pytest.raises(MeasurementError, match="ended with exit code 1") as caught:
        tool.evaluate(LOCAL)
    assert "500" in caught.value.why
    assert sum("2020" in body["prompt"] for body in server.bodies) == 3
