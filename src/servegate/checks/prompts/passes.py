"""What each step of the check asks, after the gate's rounds and the further rounds of the contracts.

Two passes stand beside the rounds and never mix with them:

- `sampled`: every prompt with a contract several times, with no sampling parameter sent but a seed, so the engine draws
  as it does for its users (temperature and the rest from `generation_config.json`, where the serving config does not
  say otherwise). All samples are one pass, so that they batch.
- `sequential`: greedy, one request in flight. One request at a time is slow by nature, so by default it is a sample of
  the prompts with an end in sight, in an order that is the same in both arms; the candidate asks what the baseline asked.
"""

from __future__ import annotations

import random
import secrets
import time
from typing import Literal

from servegate.checks.answers import UNANSWERED, by_id
from servegate.checks.contract import Inputs, MeasureContext
from servegate.checks.prompts import measure as rounds_of
from servegate.checks.prompts.records import Answer, ExtraPass, Prompt, PromptsInputs, PromptsMeasurement
from servegate.checks.prompts.settings import PromptsSettings
from servegate.domain.workload import Completion
from servegate.errors import MeasurementError
from servegate.ports import Probes

SEQUENTIAL_PROMPTS, SEQUENTIAL_SECONDS = 32, 20.0
"""What `sequential: auto` costs at most in the baseline, but for the answer that is being made when the time is up."""
CANDIDATE_SHARE = 3.0
"""The candidate may take so much longer, and leaves out the rest: those prompts are then not in the table."""
FIRST_SEED = 1
"""Sample n is drawn with seed `FIRST_SEED` + n, in both arms."""

Kind = Literal["all", "contracts", "sampled", "sequential"]


def steps(settings: PromptsSettings, inputs: Inputs | None, rounds: int) -> int:
    """Return how many steps each arm has, given the gate's rounds."""
    return len(_kinds(settings, inputs, rounds))


def part(settings: PromptsSettings, inputs: Inputs, step: int, rounds: int) -> Inputs:
    """Return what one step asks."""
    if not isinstance(inputs, PromptsInputs):
        return inputs
    kind = _kinds(settings, inputs, rounds)[step]
    prompts = inputs.prompts
    if kind in ("contracts", "sampled"):
        prompts = tuple(prompt for prompt in prompts if prompt.expect)
    elif kind == "sequential" and settings.sequential == "auto":
        chosen = {prompt.id for prompt in _in_fixed_order(prompts)[:SEQUENTIAL_PROMPTS]}
        prompts = tuple(prompt for prompt in prompts if prompt.id in chosen)
    return PromptsInputs(prompts=prompts, asked=kind)


def items(settings: PromptsSettings, inputs: Inputs | None) -> int | None:
    """Return how many answers one step waits for; of `sequential: auto`, how many at most."""
    if not isinstance(inputs, PromptsInputs):
        return None
    return len(inputs.prompts) * (settings.samples if inputs.asked == "sampled" else 1)


def measure(probes: Probes, settings: PromptsSettings, context: MeasureContext[PromptsMeasurement]) -> PromptsMeasurement:
    """Return one step (`context.step`) of one arm.

    Raises:
        MeasurementError: the prompts were not rendered, or the probe lost or invented an answer.
    """
    inputs = context.inputs
    if not isinstance(inputs, PromptsInputs) or inputs.asked not in ("sampled", "sequential"):
        return rounds_of.measure(probes, settings, context)
    if any(not prompt.token_ids for prompt in inputs.prompts):
        raise MeasurementError("the prompts were not rendered on the baseline before they were measured")
    begin = time.perf_counter()
    if inputs.asked == "sampled":
        answers, concurrency = _sampled(probes, settings, context, inputs.prompts), settings.concurrency
    else:
        answers, concurrency = _sequential(probes, settings, context, inputs.prompts), 1
    made = ExtraPass(name=inputs.asked, concurrency=concurrency, seconds=time.perf_counter() - begin, answers=len(answers))
    return PromptsMeasurement(rounds=(), answers=(), passes=(made,), **{inputs.asked: answers})


def _kinds(settings: PromptsSettings, inputs: Inputs | None, rounds: int) -> tuple[Kind, ...]:
    """Return what every step asks, in order."""
    held = isinstance(inputs, PromptsInputs) and any(prompt.expect for prompt in inputs.prompts)
    kinds: list[Kind] = ["all"] * rounds
    if held:
        kinds += ["contracts"] * (settings.contract_rounds - rounds)
        kinds += ["sampled"] if settings.samples else []
    batched = settings.concurrency > 1 and isinstance(inputs, PromptsInputs) and len(inputs.prompts) > 1
    kinds += ["sequential"] if settings.sequential != "never" and batched else []
    return tuple(kinds)


def _in_fixed_order(prompts: tuple[Prompt, ...]) -> list[Prompt]:
    """Return the prompts mixed, so that the first few are of all kinds; the order depends on their number alone."""
    mixed = list(prompts)
    random.Random("sequential").shuffle(mixed)  # noqa: S311 - an order, not a secret
    return mixed


def _salt(context: MeasureContext[PromptsMeasurement]) -> str:
    return f"{context.arm}-{context.step}-{secrets.token_hex(8)}"


def _sampled(
    probes: Probes, settings: PromptsSettings, context: MeasureContext[PromptsMeasurement], prompts: tuple[Prompt, ...]
) -> tuple[Answer, ...]:
    salt = _salt(context)
    asked = {f"{number}:{prompt.id}": (prompt, number) for number in range(settings.samples) for prompt in prompts}
    requests = [
        rounds_of.request_of(prompt, settings, salt)
        .as_served(FIRST_SEED + number)
        .model_copy(update={"id": name, "top_logprobs": 0})
        for name, (prompt, number) in asked.items()
    ]
    random.Random("prompts-sampled").shuffle(requests)  # noqa: S311 - an order, not a secret
    completions = probes.completions.complete(requests, settings.concurrency, context.advance)
    found = by_id(requests, completions)
    hashes = {request.id: rounds_of.sampling_sha256(request) for request in requests}
    return tuple(_bare(prompt, number, hashes[name], found[name]) for name, (prompt, number) in asked.items())


def _sequential(
    probes: Probes, settings: PromptsSettings, context: MeasureContext[PromptsMeasurement], prompts: tuple[Prompt, ...]
) -> tuple[Answer, ...]:
    before = None if context.baseline is None else {answer.prompt_id for answer in context.baseline.sequential}
    seconds = SEQUENTIAL_SECONDS * (1 if before is None else CANDIDATE_SHARE)
    salt, answers, begin = _salt(context), [], time.perf_counter()
    for prompt in _in_fixed_order(prompts):
        if before is not None and prompt.id not in before:
            continue
        if settings.sequential == "auto" and time.perf_counter() - begin > seconds:
            break
        request = rounds_of.request_of(prompt, settings, salt)
        completions = probes.completions.complete([request], 1, context.advance)
        answer = by_id([request], completions)[prompt.id]
        answers.append(_bare(prompt, 0, rounds_of.sampling_sha256(request), answer))
        if answer.status in UNANSWERED:  # one at a time, an engine that hangs would cost a deadline a prompt
            break
    return tuple(answers)


def _bare(prompt: Prompt, number: int, sampling: str, completion: Completion) -> Answer:
    """Return an answer without rows: what is compared of it is its text."""
    return rounds_of.answer_of(prompt, number, sampling, completion, 0).model_copy(update={"rows": 0})
