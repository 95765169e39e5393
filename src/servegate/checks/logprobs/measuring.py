"""Has one arm score every window, and the baseline's own samples: one step is one round over all windows.

The order is shuffled anew in each round, with a cache salt of its own, so that values which depend on the order of requests
or on a prefix cache show up as noise of an arm against itself instead of as a difference between arms.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from servegate.checks.contract import Inputs, MeasureContext
from servegate.checks.logprobs.record import LogprobsInputs, LogprobsMeasurement, Sample, ScoringPass, Window
from servegate.checks.logprobs.settings import LogprobsSettings, OwnTraffic
from servegate.domain.evidence import Columns, EngineFacts, ItemStatus, sha256_of_token_ids
from servegate.domain.workload import CompletionRequest, PromptScore, ScoreRequest
from servegate.errors import MeasurementError, UnsupportedError
from servegate.ports import Probes, PromptLogprobs

CAPABILITY_TOKENS = 8
SCORINGS = 2
"""The samples are scored so often in each arm: scoring the same text twice is the noise of the estimate."""
DRAW_CONCURRENCY = 16
MODE_OPTION = "--logprobs-mode"
RAW = "raw_logprobs"


@dataclass(frozen=True)
class Drawn:
    """An answer that the baseline drew; `problem` when there is none."""

    sample_id: str
    prompt_id: str
    prompt_tokens: int
    token_ids: tuple[int, ...]
    problem: str | None = None


def items(_settings: LogprobsSettings, inputs: Inputs | None) -> int | None:
    """Return how many windows a round has."""
    return len(inputs.windows) if isinstance(inputs, LogprobsInputs) else None


def measure(probes: Probes, settings: LogprobsSettings, context: MeasureContext[LogprobsMeasurement]) -> LogprobsMeasurement:
    """Return one round (`context.step`) of one arm.

    Raises:
        UnsupportedError: the engine cannot score a prompt, or reports something other than logprobs.
        MeasurementError: the windows were not cut, or the probe lost or invented a score.
    """
    inputs, instrument = context.inputs, probes.prompt_logprobs
    if not isinstance(inputs, LogprobsInputs) or not inputs.windows:
        raise MeasurementError("the corpus was not cut into windows on the baseline before it was measured")
    if instrument is None:
        raise UnsupportedError("this engine offers no way to score a given text")
    mode = _mode(context.engine)
    if context.step == 0:
        reason = instrument.why_unsupported(inputs.windows[0].token_ids[:CAPABILITY_TOKENS], settings.top_k)
        if reason is not None:
            raise UnsupportedError(f"the engine does not support prompt_logprobs={settings.top_k}: {reason}")
    salt = f"{context.arm}-{context.step}-{secrets.token_hex(8)}"
    requests = [ScoreRequest(id=one.window_id, token_ids=one.token_ids, cache_salt=salt) for one in inputs.windows]
    random.Random(f"logprobs-{context.step}").shuffle(requests)  # noqa: S311 - an order, not a secret
    wall_s, client_cpu_s = time.perf_counter(), time.process_time()
    scores = _scored(requests, instrument.score(requests, settings.top_k, settings.concurrency, context.advance))
    rows = _Rows(settings.top_k)
    windows = []
    for one in inputs.windows:
        score = scores[one.window_id]
        windows.append(
            Window(
                window_id=one.window_id,
                document_id=one.document_id,
                round=context.step,
                token_ids_sha256=one.token_ids_sha256,
                **rows.add(one.token_ids, score),
            )
        )
    scored = ScoringPass(
        round=context.step,
        windows=len(windows),
        positions=sum(max(window.rows - 1, 0) for window in windows),
        wall_s=time.perf_counter() - wall_s,
        client_cpu_s=time.process_time() - client_cpu_s,
    )
    samples = _samples(probes, instrument, settings, context, rows) if context.step == 0 and settings.own_traffic else ()
    return LogprobsMeasurement(
        windows=tuple(windows),
        samples=samples,
        passes=(scored,),
        top_k=settings.top_k,
        logprobs_mode=mode,
        columns=rows.columns(),
    )


def _mode(engine: EngineFacts) -> str:
    """Return what the engine reports. Raises UnsupportedError when it reports logits, which are no probabilities."""
    stated = [argument.partition("=")[2] for argument in engine.argv if argument.startswith(f"{MODE_OPTION}=")]
    mode = stated[-1] if stated else RAW
    if not mode.endswith("_logprobs"):
        raise UnsupportedError(f"the engine is told to report {mode!r}, which are no logprobs ({MODE_OPTION})")
    return mode


def _scored(requests: Sequence[ScoreRequest], scores: Sequence[PromptScore]) -> dict[str, PromptScore]:
    found = {score.id: score for score in scores}
    if len(found) != len(scores) or found.keys() != {request.id for request in requests}:
        raise MeasurementError(f"{len(requests)} texts were sent to be scored, {len(scores)} scores of {len(found)} came back")
    return found


# -- own traffic -----------------------------------------------------------------------------------------------


def _samples(
    probes: Probes,
    instrument: PromptLogprobs,
    settings: LogprobsSettings,
    context: MeasureContext[LogprobsMeasurement],
    rows: _Rows,
) -> tuple[Sample, ...]:
    own, inputs = settings.own_traffic, context.inputs
    assert own is not None
    assert isinstance(inputs, LogprobsInputs)
    drawn = _drawn_before(context.baseline) if context.baseline is not None else _draw(probes, inputs, own)
    found: list[Sample] = []
    for scoring in range(SCORINGS):
        salt = f"{context.arm}-samples-{scoring}-{secrets.token_hex(8)}"
        requests = [
            ScoreRequest(id=one.sample_id, token_ids=one.token_ids, cache_salt=salt) for one in drawn if one.problem is None
        ]
        scores = _scored(requests, instrument.score(requests, 0, settings.concurrency, lambda _: None))
        for one in drawn:
            score = scores.get(one.sample_id) or PromptScore.nothing(
                one.sample_id, ItemStatus.SKIPPED, one.problem or "the baseline did not draw it", 0
            )
            found.append(
                Sample(
                    sample_id=one.sample_id,
                    prompt_id=one.prompt_id,
                    scoring=scoring,
                    prompt_tokens=one.prompt_tokens,
                    token_ids_sha256=sha256_of_token_ids(one.token_ids),
                    **rows.add(one.token_ids, score),
                )
            )
    return tuple(found)


def _draw(probes: Probes, inputs: LogprobsInputs, own: OwnTraffic) -> tuple[Drawn, ...]:
    """Draw from the whole distribution: temperature 1, no top-p, no top-k, no penalty; a cut answer is a sample as well."""
    chosen = [inputs.traffic[number % len(inputs.traffic)] for number in range(own.samples)]
    requests = [
        CompletionRequest(
            id=f"s{number:05d}", token_ids=prompt.token_ids, max_tokens=own.max_tokens, temperature=1.0, seed=number,
            cache_salt=secrets.token_hex(8),
        )
        for number, prompt in enumerate(chosen)
    ]  # fmt: skip
    answers = {answer.id: answer for answer in probes.completions.complete(requests, DRAW_CONCURRENCY, lambda _: None)}
    return tuple(
        Drawn(
            sample_id=request.id,
            prompt_id=prompt.id,
            prompt_tokens=len(prompt.token_ids),
            token_ids=(*prompt.token_ids, *answers[request.id].token_ids),
            problem=None if answers[request.id].token_ids else answers[request.id].error or "nothing was drawn",
        )
        for request, prompt in zip(requests, chosen, strict=True)
    )


def _drawn_before(baseline: LogprobsMeasurement) -> tuple[Drawn, ...]:
    """Return the baseline's samples with the ids that its columns hold."""
    return tuple(
        Drawn(
            sample_id=one.sample_id,
            prompt_id=one.prompt_id,
            prompt_tokens=one.prompt_tokens,
            token_ids=tuple(baseline.columns["token_id"][one.first_row : one.first_row + one.rows].tolist()),
            problem=None if one.rows else "the baseline did not score it",
        )
        for one in baseline.samples
        if one.scoring == 0
    )


class _Rows:
    """Collects the columns of texts one after the other."""

    def __init__(self, top_k: int) -> None:
        self._top_k = top_k
        self._ids: list[tuple[int, ...]] = []
        self._scores: list[PromptScore] = []
        self._next = 0

    def add(self, token_ids: tuple[int, ...], score: PromptScore) -> dict[str, object]:
        """Take a text's rows; return the fields of its record."""
        rows = len(score.logprob)
        if score.status is ItemStatus.OK and rows != len(token_ids):
            raise MeasurementError(f"{score.id}: {rows} rows came for {len(token_ids)} tokens")
        first, self._next = self._next, self._next + rows
        if rows:
            self._ids.append(token_ids)
            self._scores.append(score)
        return {
            "status": score.status, "clamped": score.clamped, "missing": score.missing, "error": score.error,
            "first_row": first, "rows": rows,
        }  # fmt: skip

    def columns(self) -> Columns:
        """Return all rows; texts that were scored with fewer top tokens are filled up with "missing"."""
        size, k = self._next, self._top_k
        ids = [np.asarray(one, dtype=np.int32) for one in self._ids]
        top_id, top_logprob = np.full((size, k), -1, dtype=np.int32), np.full((size, k), np.nan, dtype=np.float32)
        at = 0
        for score in self._scores:
            rows, width = score.top_id.shape
            top_id[at : at + rows, :width], top_logprob[at : at + rows, :width] = score.top_id, score.top_logprob
            at += rows
        return {
            "token_id": np.concatenate([*ids, np.zeros(0, dtype=np.int32)]),
            "logprob": np.concatenate([*(score.logprob for score in self._scores), np.zeros(0, dtype=np.float32)]),
            "rank": np.concatenate([*(score.rank for score in self._scores), np.zeros(0, dtype=np.int32)]),
            "top_id": top_id,
            "top_logprob": top_logprob,
        }
