"""Phases of a start of vLLM: when one begins, for whoever watches, and how long each took, for a start that nobody timed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from servegate.engines.log_lines import Line, first, number

PHASES = {
    "spawn": "starting processes",
    "load": "loading the model",
    "compile": "compiling",
    "warm_up": "warming up",
    "ready": "waiting for the first answer",
}
"""Phases of a start in their order, in words; `phase_begun` tells when the next one begins."""

_BEGINS = (
    ("load", re.compile(r"Initializing a V1 LLM engine")),
    ("compile", re.compile(r"for vLLM's torch\.compile|Warming up model for the compilation")),
    ("warm_up", re.compile(r"KV cache size: [\d,]+ tokens")),
    ("ready", re.compile(r"Starting vLLM (?:API )?server|Application startup complete")),
)


def phase_begun(text: str) -> str | None:
    """Return the last phase whose beginning a piece of the log shows, or None."""
    return next((phase for phase, pattern in reversed(_BEGINS) if pattern.search(text)), None)


def logged_phases(lines: Sequence[Line]) -> dict[str, float]:
    """Return the seconds that the log gives, for a start that nobody timed; load includes online quantization."""
    phases: dict[str, float] = {}
    load = number(first(lines, r"Model loading took [\d.]+ GiB and ([\d.]+) seconds"))
    if load is None:
        parts = [
            number(first(lines, pattern))
            for pattern in (
                r"Initializing model took ([\d.]+) seconds",
                r"Loading weights took ([\d.]+) seconds",
                r"Online quantization as part of model loading took ([\d.]+) seconds",
            )
        ]
        known = [part for part in parts if part is not None]
        load = sum(known) if known else None
    if load is not None:
        phases["load"] = load
    compiled = number(first(lines, r"torch\.compile (?:and initial profiling/warmup run together )?took ([\d.]+) s"))
    if compiled is not None:
        phases["compile"] = compiled
    initialized = number(first(lines, r"init engine \([^()]{0,300}\) took ([\d.]+) s"))
    if initialized is not None:
        phases["warm_up"] = max(0.0, initialized - (compiled or 0.0))
    return phases
