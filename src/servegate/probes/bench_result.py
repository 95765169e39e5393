"""The argv of `vllm bench serve` and the result file it writes; pure functions, tested on recorded files.

Written for vLLM 0.25 to 0.32, whose flags and result keys used here are the same.

A start of the tool costs more than a window of load (about 20 s against 5 s on an H200), so one run of it serves all windows
of a point. The tool keeps the time of every request, and the run is cut where the requests end: the requests that are done
first are the lead-in, which fills the engine and is not counted; the next `requests` are the first window, and so on. A
window lasts from the end of the one before it to the end of its own last request. In a closed loop that is its time: there
is no gap between windows, no overlap, and no cold start in any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servegate.domain.load import Load, LoadResult, LoadSpec
from servegate.domain.records import Json
from servegate.domain.strict_json import parse_json
from servegate.domain.workload import Endpoint
from servegate.probes.bench_agreement import Request, durations_agree, most_in_flight, totals_agree
from servegate.probes.tools import compact

PERCENTILES = (50, 90, 95, 99)
MOST_S, MOST_TOKENS = 1e12, 2**31 - 1
"""Beyond these a number is no time of a clock, and no length of a prompt."""
PINNED_SAMPLING: dict[str, Json] = {
    "temperature": 0.0,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""Sent with every request, since a parameter left out is filled from the model's generation_config.json."""


def bench_argv(executable: str, endpoint: Endpoint, spec: LoadSpec, result_path: Path, *, cache_salt: str) -> tuple[str, ...]:
    """Return the command of one load point: fixed lengths, no end of text, everything sent at once.

    The tool has a warm-up of its own (`--num-warmups`), which repeats its first prompt and so leaves that prompt in the
    prefix cache; it is not used.
    """
    return (
        executable,
        "bench",
        "serve",
        "--backend=openai",
        f"--base-url={endpoint.base_url.rstrip('/')}",
        "--endpoint=/v1/completions",
        f"--model={endpoint.model}",
        f"--tokenizer={endpoint.tokenizer}",
        "--dataset-name=random",
        f"--random-input-len={spec.input_tokens}",
        f"--random-output-len={spec.output_tokens}",
        "--random-range-ratio=0.0",
        "--random-prefix-len=0",
        "--ignore-eos",
        f"--num-prompts={spec.total}",
        f"--max-concurrency={spec.concurrency}",
        "--request-rate=inf",
        "--num-warmups=0",
        "--ready-check-timeout-sec=0",
        f"--seed={spec.seed}",
        f"--extra-body={compact({**PINNED_SAMPLING, 'seed': spec.seed, 'cache_salt': cache_salt})}",
        "--temperature=0",
        "--percentile-metrics=ttft,tpot,itl,e2el",
        f"--metric-percentiles={','.join(map(str, PERCENTILES))}",
        "--disable-tqdm",
        "--save-result",
        "--save-detailed",
        f"--result-dir={result_path.parent}",
        f"--result-filename={result_path.name}",
    )


@dataclass(frozen=True)
class Span:
    """From when to when a window lasted, in seconds of the tool's monotonic clock."""

    started_s: float
    ended_s: float


def read_bench(content: bytes, spec: LoadSpec, command: tuple[str, ...]) -> tuple[Load, tuple[Span, ...]]:
    """Return what a result file says about a point: its windows, a row a request, and when each window was.

    Raises:
        ValueError: it is not strict JSON, lacks a number, contradicts itself, is about another point, or nothing completed.
    """
    result = parse_json(content)
    if not isinstance(result, dict):
        raise ValueError("the result is no JSON object")
    requests, completed = _count(result, "num_prompts"), _count(result, "completed")
    failed = _count(result, "failed") if "failed" in result else requests - completed
    if requests != spec.total or result.get("max_concurrency") != spec.concurrency:
        raise ValueError(f"the result is about {requests} requests at {result.get('max_concurrency')!r} in flight")
    if completed == 0:
        raise ValueError(f"none of {requests} requests was completed{_first_error(result)}")
    if completed + failed != requests:
        raise ValueError(f"{completed} completed and {failed} failed requests are not {requests}")
    _positive(result, "duration")
    _positive(result, "output_throughput")
    for metric in ("ttft", "tpot", "itl", "e2el"):
        _number(result, f"p50_{metric}_ms")
    done = _completed(result, completed)
    span_s = max(each.ended_s for each in done) - min(each.started_s for each in done)
    if failed == 0:  # a request that failed late lengthens the tool's duration and brings nothing
        durations_agree(result["duration"], span_s, completed)
        totals_agree(result, done)
    if (most := most_in_flight(done)) > spec.concurrency:
        raise ValueError(f"{most} requests were in flight at once, and {spec.concurrency} were asked for at most")
    return _cut(sorted(done, key=lambda each: each.ended_s), failed, spec, command)


def _completed(result: dict[str, Any], completed: int) -> list[Request]:
    """Return the requests that were completed."""
    names = ("start_times", "ttfts", "itls", "input_lens", "output_lens", "errors")
    lists: list[Any] = [result.get(name) for name in names]
    for name, values in zip(names, lists, strict=True):
        if not isinstance(values, list) or len(values) != result["num_prompts"]:
            raise ValueError(f"{name} is no list of {result['num_prompts']} values, one a request")
    latencies = result.get("latencies")
    if not isinstance(latencies, list) or len(latencies) != result["num_prompts"]:
        latencies = [None] * result["num_prompts"]  # since 0.32; before, the times between tokens add up to it
    found = []
    for started, ttft, itls, sent, brought, error, whole in zip(*lists, latencies, strict=True):
        if error or not brought:
            continue
        numbers = (started, ttft, *itls, 0.0 if whole is None else whole) if isinstance(itls, list) else (None,)
        if not all(
            isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_S for value in numbers
        ):
            raise ValueError("start_times, ttfts and itls hold something else than times")
        if type(sent) is not int or type(brought) is not int or not 0 <= sent <= MOST_TOKENS or not 0 <= brought <= MOST_TOKENS:
            raise ValueError("input_lens and output_lens hold something else than numbers of tokens")
        if whole is not None and whole < ttft:
            raise ValueError(f"a request ended {whole!r} s after it was sent, before its first token ({ttft!r} s)")
        found.append(Request(started, started + (ttft + sum(itls) if whole is None else whole), ttft, itls, sent, brought))
    if len(found) != completed:
        raise ValueError(f"completed is {completed}, but {len(found)} requests brought tokens and no error")
    total = _count(result, "total_output_tokens")
    if sum(each.tokens for each in found) != total:
        raise ValueError(f"total_output_tokens is {total}, but output_lens add up to {sum(each.tokens for each in found)}")
    return found


def _cut(ordered: list[Request], failed: int, spec: LoadSpec, command: tuple[str, ...]) -> tuple[Load, tuple[Span, ...]]:
    counted = ordered[spec.lead_in :] or ordered
    ended = ordered[spec.lead_in - 1].ended_s if 0 < spec.lead_in < len(ordered) else min(each.started_s for each in ordered)
    windows, spans = [], []
    parts = [counted[first : first + spec.requests] for first in range(0, len(counted), spec.requests)]
    for index, part in enumerate(parts):
        span = Span(ended, part[-1].ended_s)
        ended = span.ended_s
        if span.ended_s <= span.started_s:
            raise ValueError(f"window {index} has no length: its requests ended when the ones before it did")
        last = index == len(parts) - 1
        windows.append(_window(part, span, failed if last else 0, first_row=index * spec.requests, spec=spec, command=command))
        spans.append(span)
    columns = {
        "ttft_ms": _floats(1000 * each.ttft_s for each in counted),
        "tpot_ms": _floats(each.tpot_ms for each in counted),
        "e2e_ms": _floats(1000 * (each.ended_s - each.started_s) for each in counted),
        "tokens": np.asarray([each.tokens for each in counted], dtype="<i4"),
    }
    return Load(tuple(windows), columns), tuple(spans)


def _window(
    part: list[Request], span: Span, failed: int, *, first_row: int, spec: LoadSpec, command: tuple[str, ...]
) -> LoadResult:
    tokens, seconds = sum(each.tokens for each in part), span.ended_s - span.started_s
    return LoadResult(
        requests=len(part) + failed,
        completed=len(part),
        failed=failed,
        input_tokens=sum(each.prompt_tokens for each in part),
        output_tokens=tokens,
        duration_s=seconds,
        output_tokens_per_second=tokens / seconds,
        ttft_ms=_percentiles([1000 * each.ttft_s for each in part]),
        tpot_ms=_percentiles([each.tpot_ms for each in part if each.tokens > 1]),
        itl_ms=_percentiles([1000 * each for request in part for each in request.itls_s]),
        e2e_latency_s=_percentiles([each.ended_s - each.started_s for each in part]),
        wrong_lengths=sum(each.tokens != spec.output_tokens for each in part),
        first_row=first_row,
        rows=len(part),
        command=command,
    )


def _percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return mean, standard deviation and percentiles, interpolated between neighbours as the tool does; {} of nothing."""
    if not values:
        return {}
    array = np.asarray(values, dtype=np.float64)
    shares = dict(zip(PERCENTILES, np.percentile(array, PERCENTILES), strict=True))
    return {"mean": float(array.mean()), "std": float(array.std())} | {f"p{name}": float(v) for name, v in shares.items()}


def _floats(values: Any) -> npt.NDArray[np.float32]:
    return np.fromiter(values, dtype="<f4")


def _number(result: dict[str, Any], name: str) -> float:
    value = result.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"{name} is {value!r}")
    return float(value)


def _positive(result: dict[str, Any], name: str) -> float:
    value = _number(result, name)
    if value <= 0:
        raise ValueError(f"{name} is {value!r}")
    return value


def _count(result: dict[str, Any], name: str) -> int:
    value = result.get(name)
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} is {value!r}")
    return value


def _first_error(result: dict[str, Any]) -> str:
    errors = [error for error in result.get("errors") or () if isinstance(error, str) and error.strip()]
    return f": {errors[0].strip().splitlines()[-1][:300]}" if errors else ""
