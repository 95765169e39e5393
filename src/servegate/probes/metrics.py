"""Counters of an engine's `/metrics` page (Prometheus text format), of one served model, summed over its engines.

They are the engine's own account of a load test, beside the client's: what its prefix cache answered, how many requests
it finished (more than were sent means that somebody else uses the endpoint), how long they waited to be scheduled.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from servegate.domain.workload import Endpoint
from servegate.http import HttpError
from servegate.probes.asking import client_of

QUERIES, HITS = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
"""Tokens looked up in the prefix cache, and tokens found there; names checked on vLLM 0.25.1 and 0.32.0."""
FINISHED, PROMPT_TOKENS = "vllm:request_success_total", "vllm:prompt_tokens_total"
PREEMPTIONS = "vllm:num_preemptions_total"
QUEUE_S, QUEUED = "vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_count"
RUNNING, WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
NAMES = frozenset({QUERIES, HITS, FINISHED, PROMPT_TOKENS, PREEMPTIONS, QUEUE_S, QUEUED, RUNNING, WAITING})
SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}\s+(\S+)')
LABEL = re.compile(r'model_name="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class PrefixCache:
    """Tokens looked up and found, since the engine started."""

    queries: float
    hits: float


Counters = dict[str, float]
"""Name of a counter -> its value; a counter that the page does not show is not in here."""


def counters(page: str, model: str) -> Counters:
    """Return the counters of a model that are read here; one that is no finite number is left out."""
    totals: Counters = {}
    broken: set[str] = set()
    for line in page.split("\n"):
        sample = SAMPLE.match(line)
        if sample is None or sample[1] not in NAMES:
            continue
        label = LABEL.search(sample[2])
        if label is None or label[1] != model:
            continue
        try:
            value = float(sample[3])
        except ValueError:
            value = math.nan
        if math.isfinite(value):
            totals[sample[1]] = totals.get(sample[1], 0.0) + value
        else:
            broken.add(sample[1])
    return {name: value for name, value in totals.items() if name not in broken}


def read_counters(endpoint: Endpoint, timeout_s: float = 10.0) -> Counters | None:
    """Ask the engine; None when it does not say."""
    try:
        with client_of(endpoint, timeout_s) as client:
            reply = client.get("/metrics")
            return counters(reply.text(), endpoint.model) if reply.status == 200 else None
    except HttpError:
        return None


def prefix_cache(page: str, model: str) -> PrefixCache | None:
    """Return the prefix-cache counters of a model, or None when the page does not hold both."""
    return cache_of(counters(page, model))


def cache_of(found: Counters | None) -> PrefixCache | None:
    """Return the prefix-cache counters, or None when one is missing."""
    return PrefixCache(found[QUERIES], found[HITS]) if found is not None and {QUERIES, HITS} <= found.keys() else None


def gained(before: Counters | None, after: Counters | None, name: str) -> float | None:
    """Return what a counter gained between two readings; None when a reading lacks it or it went back."""
    if before is None or after is None or name not in after or name not in before:
        return None
    gain = after[name] - before[name]
    return gain if gain >= 0 else None


def hit_rate(before: PrefixCache | None, after: PrefixCache | None) -> tuple[float | None, str | None]:
    """Return the share of prompt tokens found in the cache between two readings, or None and why it is not known."""
    if before is None or after is None:
        return None, "the engine's /metrics page does not hold the prefix-cache counters"
    queries, hits = after.queries - before.queries, after.hits - before.hits
    if queries < 0 or hits < 0:
        return None, "the counters of the engine's prefix cache went back, as if another engine had answered"
    if queries == 0:
        return None, "the engine's prefix cache was not asked (it may be off)"
    return hits / queries, None
