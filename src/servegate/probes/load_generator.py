"""Loads an endpoint with `vllm bench serve`, run as an executable.

The tool's own file is kept in the run directory for people; what is judged is read from it here, strictly. Each point
has a fresh cache salt: the same seed makes the same prompts in every round and arm, and without one a second round on
the same engine would measure the prefix cache.

The tool waits six hours for an answer, so a hung engine is told by a deadline: three times what the point would take
if its requests ran one after another, each as slow as the slowest of the warm-up, and five minutes.
"""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from servegate.domain.load import Load, LoadResult, LoadSpec
from servegate.domain.records import Json
from servegate.domain.workload import Endpoint
from servegate.errors import MeasurementError
from servegate.http import Call, HttpError
from servegate.probes.asking import client_of
from servegate.probes.bench_result import PINNED_SAMPLING, Span, bench_argv, read_bench
from servegate.probes.metrics import (
    FINISHED,
    PREEMPTIONS,
    PROMPT_TOKENS,
    QUEUE_S,
    QUEUED,
    RUNNING,
    WAITING,
    Counters,
    cache_of,
    gained,
    hit_rate,
    read_counters,
)
from servegate.probes.reply_parts import error_of
from servegate.probes.telemetry import Sampler, Watch
from servegate.probes.tools import Runner, failure, run_tool

LABEL = re.compile(r"[a-z0-9-]+")
MAX_RESULT_BYTES = 256 << 20
SLACK_S = 300.0
"""Seconds allowed for the start of the tool itself (14 s on two cores) and for making its prompts."""
WARM_UP_TOKEN_IDS = range(100, 1000)
"""Ids that every vocabulary has; what the warm-up says does not matter, only its shape."""


class VllmBench:
    """Load points of one endpoint; answers `ports.LoadGenerator`."""

    def __init__(
        self,
        endpoint: Endpoint,
        executable: str,
        raw_directory: Path,
        timeout_s: float,
        runner: Runner,
        environment: Mapping[str, str],
        *,
        request_timeout_s: float = 600.0,
        watch: Watch | None = None,
    ) -> None:
        """Keep the settings.

        `timeout_s` limits one point, `request_timeout_s` one request of its warm-up; `environment` is laid over
        servegate's own for the tool; `watch` looks at the machine meanwhile (None: nobody does, and the result says so).
        """
        self._endpoint = endpoint
        self._executable = executable
        self._raw_directory = raw_directory
        self._timeout_s = timeout_s
        self._request_timeout_s = request_timeout_s
        self._runner = runner
        self._watch = watch
        self._environment = dict(environment)
        if Path(endpoint.tokenizer).is_dir():
            self._environment |= {"HF_HUB_OFFLINE": "1"}

    def load(self, spec: LoadSpec) -> Load:
        """Warm up, run one point, and read its result. Raises MeasurementError."""
        if not LABEL.fullmatch(spec.label):
            raise ValueError(f"a label of a load point is [a-z0-9-]+, not {spec.label!r}")
        self._raw_directory.mkdir(parents=True, exist_ok=True)
        result_path = (self._raw_directory / f"{spec.label}.json").resolve()
        log_path = self._raw_directory / f"{spec.label}.log"
        result_path.unlink(missing_ok=True)
        slowest_s = self._warm_up(spec)
        argv = bench_argv(self._executable, self._endpoint, spec, result_path, cache_salt=_salt(spec.label))
        before = read_counters(self._endpoint)
        with Sampler(self._watch) as sampler:
            done = run_tool(
                self._runner,
                argv,
                overlay=self._environment,
                api_key=self._endpoint.api_key,
                log_path=log_path,
                timeout_s=self._timeout_s if slowest_s is None else min(self._timeout_s, _deadline_s(spec, slowest_s)),
                what=f"`vllm bench serve` (load point {spec.label})",
            )
        after = read_counters(self._endpoint)
        try:
            load, spans = read_bench(_content(result_path), spec, argv)
        except (OSError, ValueError) as error:
            what = f"`vllm bench serve` left no usable result (load point {spec.label}): {error}"
            raise failure(what, done, log_path) from error
        said = _said_by_the_engine(before, after, spec)
        windows = zip(load.windows, spans, strict=True)
        return Load(tuple(_observed(window, span, sampler, said) for window, span in windows), load.columns)

    def _warm_up(self, spec: LoadSpec) -> float | None:
        """Send requests of the point's shape and return the longest latency, in seconds; None when there are none.

        All prompts are different and under a salt of their own, so that nothing they leave in the cache is hit later.
        """
        generator, salt = random.Random(spec.seed), _salt(f"{spec.label}-warm-up")  # noqa: S311 - no secret
        calls = [Call("/v1/completions", self._warm_up_body(spec, salt, generator)) for _ in range(spec.warm_up_requests)]
        slowest_s: float | None = None
        if not calls:
            return None
        with client_of(self._endpoint, min(self._timeout_s, self._request_timeout_s)) as client:
            for outcome in client.results(calls, spec.concurrency):
                if outcome is None:
                    continue
                reply = outcome[1]
                if isinstance(reply, HttpError):
                    raise _cold(spec, reply.what)
                if (problem := error_of(reply)) is not None:
                    raise _cold(spec, problem)
                slowest_s = max(slowest_s or 0.0, reply.seconds)
        return slowest_s

    def _warm_up_body(self, spec: LoadSpec, salt: str, generator: random.Random) -> Json:
        return {
            **PINNED_SAMPLING,
            "model": self._endpoint.model,
            "prompt": generator.choices(WARM_UP_TOKEN_IDS, k=spec.input_tokens),
            "max_tokens": spec.output_tokens,
            "ignore_eos": True,
            "seed": spec.seed,
            "cache_salt": salt,
        }


def _observed(window: LoadResult, span: Span, sampler: Sampler, said: dict[str, Json]) -> LoadResult:
    telemetry, reason = sampler.between(span.started_s, span.ended_s)
    return window.model_copy(update={**said, "telemetry": telemetry, "telemetry_reason": reason})


def _said_by_the_engine(before: Counters | None, after: Counters | None, spec: LoadSpec) -> dict[str, Json]:
    """Return the engine's own account of a run of the tool; it holds for each of its windows."""
    rate, reason = hit_rate(cache_of(before), cache_of(after))
    finished, queue_s, queued = (gained(before, after, name) for name in (FINISHED, QUEUE_S, QUEUED))
    prompt_tokens, preemptions = gained(before, after, PROMPT_TOKENS), gained(before, after, PREEMPTIONS)
    foreign = None if finished is None else max(0, round(finished) - spec.total)
    if before is not None and after is not None and foreign is not None:
        # The tool has ended, so what still runs then is somebody else's as well; one that ran all along is counted once.
        foreign += round(max(page.get(RUNNING, 0.0) + page.get(WAITING, 0.0) for page in (before, after)))
    return {
        "prefix_cache_hit_rate": rate,
        "prefix_cache_hit_rate_reason": reason,
        "foreign_requests": foreign,
        "foreign_requests_reason": None if foreign is not None else "the engine's /metrics page does not count requests",
        "prompt_tokens_per_request": prompt_tokens / finished if prompt_tokens is not None and finished else None,
        "queue_time_s": queue_s / queued if queue_s is not None and queued else None,
        "preemptions": None if preemptions is None else round(preemptions),
    }


def _cold(spec: LoadSpec, problem: str) -> MeasurementError:
    return MeasurementError(
        f"the warm-up of load point {spec.label} failed: {problem}",
        advice="Check that input_tokens + output_tokens fit the model's context; see server.log.",
    )


def _deadline_s(spec: LoadSpec, slowest_s: float) -> float:
    return SLACK_S + 3 * spec.total * slowest_s


def _salt(label: str) -> str:
    return f"servegate-{label}-{secrets.token_hex(16)}"


def _content(path: Path) -> bytes:
    if path.stat().st_size > MAX_RESULT_BYTES:
        raise ValueError(f"{path.name} is larger than {MAX_RESULT_BYTES} bytes and was not read")
    return path.read_bytes()
