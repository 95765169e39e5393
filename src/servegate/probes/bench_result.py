"""The argv of `vllm bench serve` and the result file it writes; pure functions, tested on recorded files.

Written for vLLM 0.25 to 0.32, whose flags and result keys used here are the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from servegate.domain.records import Json
from servegate.domain.strict_json import parse_json
from servegate.domain.workload import Endpoint, LoadResult, LoadSpec
from servegate.probes.tools import compact

PERCENTILES = (50, 90, 95, 99)
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
        f"--num-prompts={spec.requests}",
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


def read_bench(content: bytes, spec: LoadSpec, command: tuple[str, ...]) -> LoadResult:
    """Return what a result file says about a point.

    Raises:
        ValueError: it is not strict JSON, lacks a number, contradicts itself, is about another point, or nothing completed.
    """
    result = parse_json(content)
    if not isinstance(result, dict):
        raise ValueError("the result is no JSON object")
    requests, completed = _count(result, "num_prompts"), _count(result, "completed")
    failed = _count(result, "failed") if "failed" in result else requests - completed
    if requests != spec.requests or result.get("max_concurrency") != spec.concurrency:
        raise ValueError(f"the result is about {requests} requests at {result.get('max_concurrency')!r} in flight")
    if completed == 0:
        raise ValueError(f"none of {requests} requests was completed{_first_error(result)}")
    if completed + failed != requests:
        raise ValueError(f"{completed} completed and {failed} failed requests are not {requests}")
    return LoadResult(
        requests=requests,
        completed=completed,
        failed=failed,
        input_tokens=_count(result, "total_input_tokens"),
        output_tokens=_total(result, "total_output_tokens", "output_lens"),
        duration_s=_positive(result, "duration"),
        output_tokens_per_second=_positive(result, "output_throughput"),
        ttft_ms=_percentiles(result, "ttft"),
        tpot_ms=_percentiles(result, "tpot"),
        itl_ms=_percentiles(result, "itl"),
        e2e_latency_s={name: value / 1000 for name, value in _percentiles(result, "e2el").items()},
        command=command,
    )


def _percentiles(result: dict[str, Any], metric: str) -> dict[str, float]:
    return {
        name: _number(result, f"{name}_{metric}_ms")
        for name in ("mean", "std", *(f"p{percentile}" for percentile in PERCENTILES))
    }


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


def _total(result: dict[str, Any], name: str, lengths: str) -> int:
    """Return a total and check it against the lengths per request, when the result holds them."""
    total, each = _count(result, name), result.get(lengths)
    if isinstance(each, list) and all(type(length) is int for length in each) and sum(each) != total:
        raise ValueError(f"{name} is {total}, but {lengths} add up to {sum(each)}")
    return total


def _first_error(result: dict[str, Any]) -> str:
    errors = [error for error in result.get("errors") or () if isinstance(error, str) and error.strip()]
    return f": {errors[0].strip().splitlines()[-1][:300]}" if errors else ""
