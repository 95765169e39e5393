"""Asking: one round over all prompts, greedy, every sampling parameter pinned, the same token ids to both arms."""

from __future__ import annotations

import random
import secrets
import time

from servegate.checks.answers import by_id
from servegate.checks.contract import MeasureContext
from servegate.checks.prompts.measure import sampling_sha256
from servegate.checks.retrieval.record import LongPrompt, Pass, RetrievalInputs, RetrievalMeasurement, Stated
from servegate.checks.retrieval.settings import RetrievalSettings
from servegate.domain.workload import Completion, CompletionRequest
from servegate.errors import MeasurementError
from servegate.ports import Probes

NOT_STATED = "the engine did not state it"


def measure(probes: Probes, settings: RetrievalSettings, context: MeasureContext[RetrievalMeasurement]) -> RetrievalMeasurement:
    """Return one round (`context.step`) of one arm.

    Raises:
        MeasurementError: the prompts were not written on the baseline, or the probe lost or invented an answer.
    """
    inputs = context.inputs
    if not isinstance(inputs, RetrievalInputs) or not inputs.prompts:
        raise MeasurementError("the long prompts were not rendered on the baseline before they were measured")
    salt = f"{context.arm}-{context.step}-{secrets.token_hex(8)}"
    requests = [_request(prompt, settings, salt) for prompt in inputs.prompts]
    random.Random(f"retrieval-{context.step}").shuffle(requests)  # noqa: S311 - an order, not a secret
    begin = time.perf_counter()
    completions = probes.completions.complete(requests, settings.concurrency, context.advance)
    seconds = time.perf_counter() - begin
    found = by_id(requests, completions)
    sampling = {request.id: sampling_sha256(request) for request in requests}
    return RetrievalMeasurement(
        rounds=(Pass(round=context.step, concurrency=settings.concurrency, seconds=seconds),),
        answers=tuple(_stated(prompt, context.step, sampling[prompt.id], found[prompt.id]) for prompt in inputs.prompts),
    )


def _request(prompt: LongPrompt, settings: RetrievalSettings, salt: str) -> CompletionRequest:
    return CompletionRequest(id=prompt.id, token_ids=prompt.token_ids, max_tokens=settings.max_tokens, cache_salt=salt)


def _stated(prompt: LongPrompt, step: int, sampling: str, completion: Completion) -> Stated:
    reason = completion.error or NOT_STATED
    return Stated(
        prompt_id=prompt.id,
        round=step,
        token_ids_sha256=prompt.token_ids_sha256,
        sampling_sha256=sampling,
        status=completion.status,
        text=completion.text,
        finish_reason=completion.finish_reason,
        completion_tokens=completion.completion_tokens,
        completion_tokens_reason=reason if completion.completion_tokens is None else None,
        error=completion.error,
    )
