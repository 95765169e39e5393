"""Counters of an engine's `/metrics` page (Prometheus text format), of one served model, summed over its engines."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from servegate.domain.workload import Endpoint
from servegate.http import HttpClient, HttpError

QUERIES, HITS = "vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"
"""Tokens looked up in the prefix cache, and tokens found there; names checked on vLLM 0.25.1 and 0.32.0."""
SAMPLE = re.compile(r'([a-zA-Z_:][\w:]*)\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}\s+(\S+)')
LABEL = re.compile(r'model_name="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class PrefixCache:
    """Tokens looked up and found, since the engine started."""

    queries: float
    hits: float


def prefix_cache(page: str, model: str) -> PrefixCache | None:
    """Return the prefix-cache counters of a model, or None when the page does not hold both."""
    totals: dict[str, float] = {}
    for line in page.split("\n"):
        sample = SAMPLE.match(line)
        if sample is None or sample[1] not in (QUERIES, HITS):
            continue
        label = LABEL.search(sample[2])
        try:
            value = float(sample[3])
        except ValueError:
            return None
        if label is not None and label[1] == model and math.isfinite(value):
            totals[sample[1]] = totals.get(sample[1], 0.0) + value
    return PrefixCache(totals[QUERIES], totals[HITS]) if {QUERIES, HITS} <= totals.keys() else None


def read_prefix_cache(endpoint: Endpoint, timeout_s: float = 10.0) -> PrefixCache | None:
    """Ask the engine; None when it does not say."""
    try:
        with HttpClient(endpoint.base_url, total_s=timeout_s) as client:
            reply = client.get("/metrics")
            return prefix_cache(reply.text(), endpoint.model) if reply.status == 200 else None
    except HttpError:
        return None


def hit_rate(before: PrefixCache | None, after: PrefixCache | None) -> tuple[float | None, str | None]:
    """Return the share of prompt tokens found in the cache between two readings, or None and why it is not known."""
    if before is None or after is None:
        return None, "the engine's /metrics page does not hold the prefix-cache counters"
    queries, hits = after.queries - before.queries, after.hits - before.hits
    if queries <= 0 or hits < 0:
        return None, "the engine's prefix cache was not asked (it may be off), or its counters were reset"
    return hits / queries, None
