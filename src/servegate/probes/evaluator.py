"""Scores a task against an endpoint with `lm_eval`, run as an executable; written for lm-eval 0.4.13.

Prompts are sent as text (`tokenizer_backend=None`), so lm-eval never cuts one: with a tokenizer it cuts every prompt to
`max_length - max_gen_toks` before the test that would warn of it, and `prompt_hash`, taken earlier, does not show it.
The engine has a quieter cut: it lowers `max_tokens` to what the context leaves. Both are excluded by counting, with the
engine's own tokenizer, every prompt that could be too long: before the pass where the prompts are known (local rows),
after it where only lm-eval knows them (a task by name), and a pass with one prompt that does not fit is refused.

`add_bos_token` has no effect on text prompts; whether the engine adds a BOS is decided by `add_special_tokens`, which
is therefore sent with each request, beside every sampling parameter and a cache salt that no other pass has.

A null answer becomes `NULL_ANSWER` instead of lm-eval's default, an empty string, so that it cannot pass for one; it is
given back as `Evaluation.null_answer`. lm-eval's own response cache is never used.
"""

from __future__ import annotations

import math
import re
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from servegate.domain.records import Json
from servegate.domain.workload import Endpoint, Evaluation, EvaluationSpec
from servegate.errors import MeasurementError, UsageError
from servegate.probes.bench_result import PINNED_SAMPLING
from servegate.probes.lm_eval_lengths import cut_documents, first_token_ids, refuse_long
from servegate.probes.lm_eval_samples import (
    Sample,
    check_complete,
    check_judgeable,
    check_known,
    find_files,
    read_results,
    read_samples,
)
from servegate.probes.lm_eval_task import TASK_NAME, check_rows, prompt_of, write_task
from servegate.probes.relay import relay
from servegate.probes.tools import Runner, compact, failure, run_tool

LABEL = re.compile(r"[a-z0-9-]+")
TASK = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,99}")
NULL_ANSWER = "[servegate: the engine answered null]"
MAX_ATTEMPTS = 3
"""Of one request; lm-eval then gives up the whole pass, so no failed request is ever scored."""
WARNING_LIMIT = 20


class LmEval:
    """Passes of tasks against one endpoint; answers `ports.Evaluator`."""

    def __init__(
        self,
        endpoint: Endpoint,
        executable: str,
        raw_directory: Path,
        timeout_s: float,
        runner: Runner,
        *,
        request_timeout_s: float = 300.0,
    ) -> None:
        """Keep the settings. `timeout_s` limits a whole pass, `request_timeout_s` one attempt at one request."""
        self._endpoint = endpoint
        self._executable = executable
        self._raw_directory = raw_directory
        self._timeout_s = timeout_s
        self._runner = runner
        self._request_timeout_s = request_timeout_s

    def evaluate(self, spec: EvaluationSpec, known: Mapping[str, str | None] | None = None) -> Evaluation:
        """Run one pass of one task; the engine is not asked for answers that are `known`, by `prompt_hash` (None: a null).

        Raises:
            UsageError: the task, its rows or its lengths cannot work.
            MeasurementError: lm-eval failed, its files are unusable, or a prompt was longer than what the context leaves.
        """
        if not LABEL.fullmatch(spec.label):
            raise ValueError(f"a label of a pass is [a-z0-9-]+, not {spec.label!r}")
        if spec.max_tokens >= spec.max_length:
            raise UsageError(
                f"task {spec.task}: answers of {spec.max_tokens} tokens leave no room in a context of {spec.max_length}",
                advice="Lower max_tokens, or serve a longer max-model-len.",
            )
        directory = self._raw_directory / spec.label
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        if spec.questions:
            check_rows(spec)
            prompts = (prompt_of(spec, row["question"]) for row in _asked(spec))
            refuse_long(self._endpoint, self._request_timeout_s, spec, prompts, UsageError)
            write_task(directory / "task", spec)
        elif not TASK.fullmatch(spec.task):
            raise UsageError(f"not the name of an lm-eval task: {spec.task!r}", advice="`lm_eval ls tasks` lists them.")
        log_path = directory / "lm_eval.log"
        with tempfile.TemporaryDirectory(prefix="servegate-datasets-") as cache, self._address(known or {}) as base_url:
            argv = self._argv(spec, directory, base_url)
            done = run_tool(
                self._runner,
                argv,
                overlay=_environment(spec, cache),
                api_key=self._endpoint.api_key,
                log_path=log_path,
                timeout_s=self._timeout_s,
                what=f"`lm_eval` (task {spec.task}, {spec.label})",
            )
        try:
            evaluation, samples = _read(spec, directory / "output", argv)
            check_known(samples, known or {}, NULL_ANSWER)
        except (OSError, ValueError) as error:
            what = f"`lm_eval` left nothing usable (task {spec.task}, {spec.label}): {error}"
            raise failure(what, done, log_path) from error
        if not spec.questions:
            prompts = (sample.prompt for sample in samples)
            refuse_long(self._endpoint, self._request_timeout_s, spec, prompts, MeasurementError)
        answers = {sample.row.doc_id: sample.row.response for sample in samples if sample.row.response != NULL_ANSWER}
        said = done.stderr + done.stdout
        repeated = said.count("Retry attempt ")
        return evaluation.model_copy(
            update={
                "warnings": (*evaluation.warnings, *_warnings(said, repeated)),
                "repeated": repeated,
                "cut": cut_documents(self._endpoint, self._request_timeout_s, spec, answers),
                "first_token_ids": first_token_ids(
                    self._endpoint,
                    self._request_timeout_s,
                    min(samples, key=lambda sample: sample.row.doc_id).prompt,
                    special=spec.add_bos,
                ),
            }
        )

    def _address(self, known: Mapping[str, str | None]) -> AbstractContextManager[str]:
        """Give the address to ask at: the engine's own, or one that answers what is known."""
        if known:
            return relay(self._endpoint, known, timeout_s=self._request_timeout_s)
        return nullcontext(self._endpoint.base_url.rstrip("/"))

    def _argv(self, spec: EvaluationSpec, directory: Path, base_url: str) -> tuple[str, ...]:
        model_args: dict[str, Json] = {
            "model": self._endpoint.model,
            "base_url": f"{base_url}/v1/completions",
            "tokenizer_backend": "None",
            "tokenized_requests": False,
            "num_concurrent": spec.concurrency,
            "max_length": spec.max_length,
            "max_gen_toks": spec.max_tokens,
            "max_retries": MAX_ATTEMPTS,
            "timeout": math.ceil(self._request_timeout_s),  # 0 would be no limit
            "add_bos_token": spec.add_bos,
            "seed": spec.seed,
        }
        generation: dict[str, Json] = {
            **PINNED_SAMPLING,
            "do_sample": False,
            "max_gen_toks": spec.max_tokens,
            "n": 1,
            "ignore_eos": False,
            "min_tokens": 0,
            "skip_special_tokens": True,
            "add_special_tokens": spec.add_bos,
            "cache_salt": f"servegate-{spec.label}-{secrets.token_hex(16)}",
        }
        argv = [
            self._executable,
            "run",
            "--model=local-completions",
            f"--model_args={compact(model_args)}",
            f"--gen_kwargs={compact(generation)}",
            f"--tasks={TASK_NAME if spec.questions else spec.task}",
            "--batch_size=1",
            f"--seed={spec.seed}",
            "--log_samples",
            f"--output_path={(directory / 'output').resolve()}",
        ]
        if spec.questions:
            argv.append(f"--include_path={(directory / 'task').resolve()}")
        else:
            argv.append(f"--num_fewshot={spec.shots}")
        if spec.limit is not None:
            argv.append(f"--limit={spec.limit}")
        return tuple(argv)


def _asked(spec: EvaluationSpec) -> tuple[dict[str, str], ...]:
    return spec.questions if spec.limit is None else spec.questions[: spec.limit]


def _environment(spec: EvaluationSpec, cache: str) -> dict[str, str]:
    environment = {
        "LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER": NULL_ANSWER,
        "LMEVAL_LOG_LEVEL": "INFO",
        "PYTHONUNBUFFERED": "1",
    }
    if spec.questions:
        environment |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_DATASETS_CACHE": cache}
    return environment


def _read(spec: EvaluationSpec, output: Path, argv: tuple[str, ...]) -> tuple[Evaluation, list[Sample]]:
    results_path, samples_path = find_files(output)
    results = read_results(results_path)
    samples, warnings = read_samples(samples_path, spec.metric)
    metric, filters = check_complete(samples, results.documents)
    check_judgeable(spec.task, samples, metric, results.higher_is_better, MeasurementError)
    if spec.questions:
        _check_local(spec, samples)
    evaluation = Evaluation(
        task=spec.task,
        version=results.version,
        metric=metric,
        filters=filters,
        rows=tuple(sample.row for sample in samples),
        lm_eval=results.lm_eval,
        command=argv,
        warnings=tuple(warnings),
        null_answer=NULL_ANSWER,
        higher_is_better=results.higher_is_better.get(metric),
    )
    return evaluation, samples


def _check_local(spec: EvaluationSpec, samples: list[Sample]) -> None:
    """Raise ValueError unless every question came back as it was given, in the prompt that was meant."""
    asked = _asked(spec)
    if {sample.row.doc_id for sample in samples} != set(range(len(asked))):
        raise ValueError(f"the sample log does not hold exactly the {len(asked)} questions that were given")
    for sample in samples:
        row = asked[sample.row.doc_id]
        if sample.doc != {"question": row["question"], "answer": row["answer"]} or sample.row.target != row["answer"]:
            raise ValueError(f"question {sample.row.doc_id} came back changed")
        if sample.prompt != prompt_of(spec, row["question"]):
            raise ValueError(f"question {sample.row.doc_id} was asked in another prompt than meant")


def _warnings(text: str, retried: int) -> list[str]:
    """Return lm-eval's own warnings, each once, and the number of attempts that had to be repeated."""
    found: dict[str, None] = {}
    for line in text.split("\n"):
        _, marker, message = line.partition("WARNING")
        if marker and "Overwriting default num_fewshot" not in line and "specified through cli" not in line:
            shown = "".join(char if char.isprintable() else " " for char in message[:200]).strip()
            found.setdefault(shown)
    repeated = [f"{retried} attempts at a request failed and were repeated by lm-eval"] if retried else []
    return [*repeated, *list(found)[:WARNING_LIMIT]]
