"""Asking: rendering the prompts once on the baseline, then one round of all of them on one arm.

Both arms get the same token ids in the same shuffled order, with every sampling parameter pinned. A cache salt that is
new for every round keeps one round from reading the prefix cache of another, which changes answers.

Tool calls and separate reasoning exist on the chat route alone, where the arm's own template renders the messages. Prompts
with tools go there, and all prompts when the baseline has a reasoning parser; what the engine says it was given is then
the hash that must be equal in both arms. On either route each arm also renders every prompt by its own template once: the
ids that are sent are the baseline's, and a template that changed along would never be seen otherwise.
"""

from __future__ import annotations

import math
import random
import secrets
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from servegate.checks.answers import by_id
from servegate.checks.contract import Inputs, MeasureContext
from servegate.checks.prompts.asking import has_reasoning_parser
from servegate.checks.prompts.nearness import with_cosines
from servegate.checks.prompts.records import Answer, Prompt, PromptsInputs, PromptsMeasurement, Round
from servegate.checks.prompts.settings import PromptsSettings
from servegate.domain.evidence import Columns, EngineFacts, sha256_of_token_ids
from servegate.domain.plan import sha256_of
from servegate.domain.workload import Chat, ChatPrompt, Completion, CompletionRequest
from servegate.errors import MeasurementError, UsageError
from servegate.ports import Probes

NOT_SAMPLING = {"id", "token_ids", "cache_salt", "stream", "chat"}
"""Fields of a request that do not change how its answer is drawn. `chat` counts by itself, so that requests without it
keep the hash that they had before there was one."""
NOT_STATED = "the engine did not state it"
NAMED = 5


def prepare(probes: Probes, _settings: PromptsSettings, inputs: Inputs, engine: EngineFacts) -> Inputs:
    """Return the prompts with their token ids under the baseline's chat template.

    Raises:
        UsageError: a prompt and its answer do not fit into the model's context; names the prompts.
        MeasurementError: a prompt came back without its token ids.
    """
    if not isinstance(inputs, PromptsInputs):
        raise TypeError(f"the inputs of this check are prompts, not {type(inputs).__name__}")
    parses = has_reasoning_parser(engine)
    rendered = {item.id: item.token_ids for item in probes.completions.render([_unrendered(one) for one in inputs.prompts])}
    for prompt in inputs.prompts:
        if not rendered.get(prompt.id):
            raise MeasurementError(f"the prompt {prompt.id!r} was not rendered to token ids")
    _refuse_too_long(inputs.prompts, rendered, engine.max_model_len)
    return PromptsInputs(
        prompts=tuple(
            prompt.model_copy(
                update={
                    "route": "chat" if parses or prompt.tools else "completions",
                    "token_ids": rendered[prompt.id],
                    "token_ids_sha256": sha256_of_token_ids(rendered[prompt.id]),
                    "token_ids_sha256_reason": None,
                }
            )
            for prompt in inputs.prompts
        )
    )


def _refuse_too_long(prompts: Sequence[Prompt], rendered: dict[str, tuple[int, ...]], longest: int | None) -> None:
    if longest is None:  # the engine did not say; a prompt that is too long will come back as failed
        return
    too_long = [
        f"{prompt.id} ({len(rendered[prompt.id])} + {prompt.max_tokens})"
        for prompt in prompts
        if len(rendered[prompt.id]) + prompt.max_tokens > longest
    ]
    if too_long:
        more = f" and {len(too_long) - NAMED} more" if len(too_long) > NAMED else ""
        raise UsageError(
            f"prompt and answer do not fit into the context of {longest} tokens: {', '.join(too_long[:NAMED])}{more}",
            why="In brackets: tokens of the rendered prompt + max_tokens.",
            advice="Shorten the prompt, lower its max_tokens, or serve with a larger max-model-len.",
        )


def measure(probes: Probes, settings: PromptsSettings, context: MeasureContext[PromptsMeasurement]) -> PromptsMeasurement:
    """Return one round (`context.step`) of one arm.

    Raises:
        MeasurementError: the prompts were not rendered, or the probe lost or invented an answer.
    """
    inputs = context.inputs
    if not isinstance(inputs, PromptsInputs) or any(not prompt.token_ids for prompt in inputs.prompts):
        raise MeasurementError("the prompts were not rendered on the baseline before they were measured")
    salt = f"{context.arm}-{context.step}-{secrets.token_hex(8)}"
    requests = [request_of(prompt, settings, salt) for prompt in inputs.prompts]
    random.Random(f"prompts-{context.step}").shuffle(requests)  # noqa: S311 - an order, not a secret
    own = _own_rendering(probes, inputs.prompts) if context.step == 0 else {}
    begin = time.perf_counter()
    completions = probes.completions.complete(requests, settings.concurrency, context.advance)
    seconds = time.perf_counter() - begin
    found = by_id(requests, completions)
    sampling = {request.id: sampling_sha256(request) for request in requests}
    answers: list[Answer] = []
    row = 0
    for prompt in inputs.prompts:
        answer = answer_of(prompt, context.step, sampling[prompt.id], found[prompt.id], row)
        if prompt.id in own:
            sha256, why_not = own[prompt.id]
            answer = answer.model_copy(update={"own_token_ids_sha256": sha256, "own_token_ids_sha256_reason": why_not})
        answers.append(answer)
        row += answer.rows
    asked = "contracts" if all(prompt.expect for prompt in inputs.prompts) else "all"
    name = f"round {context.step}"
    return PromptsMeasurement(
        rounds=(Round(round=context.step, name=name, concurrency=settings.concurrency, seconds=seconds, asked=asked),),
        answers=with_cosines(probes, settings, context, answers),
        columns=_columns([found[prompt.id] for prompt in inputs.prompts], settings.top_logprobs),
    )


def sampling_sha256(request: CompletionRequest) -> str:
    """Return the hash of everything that decides how an answer is drawn."""
    asked = {name: value for name, value in request.to_json().items() if name not in NOT_SAMPLING}
    if request.chat is not None:
        asked["chat"] = {name: value for name, value in request.chat.to_json().items() if name != "messages"}
    return sha256_of(asked)


def _unrendered(prompt: Prompt) -> ChatPrompt:
    return ChatPrompt(
        id=prompt.id, messages=prompt.messages, tools=prompt.tools, chat_template_kwargs=prompt.chat_template_kwargs
    )


def _own_rendering(probes: Probes, prompts: Sequence[Prompt]) -> dict[str, tuple[str | None, str | None]]:
    """Return the hash of each prompt under this arm's own chat template, or why there is none."""
    try:
        rendered = probes.completions.render([_unrendered(prompt) for prompt in prompts])
    except MeasurementError as error:
        return {prompt.id: (None, error.what) for prompt in prompts}
    return {one.id: (sha256_of_token_ids(one.token_ids), None) for one in rendered}


def request_of(prompt: Prompt, settings: PromptsSettings, salt: str) -> CompletionRequest:
    """Return what is sent for one prompt: greedy, every sampling parameter pinned."""
    chat = None
    if prompt.route == "chat":
        chat = Chat(
            messages=prompt.messages,
            tools=prompt.tools,
            tool_choice=prompt.tool_choice,
            chat_template_kwargs=prompt.chat_template_kwargs,
        )
    return CompletionRequest(
        id=prompt.id,
        token_ids=prompt.token_ids,
        max_tokens=prompt.max_tokens,
        top_logprobs=settings.top_logprobs,
        cache_salt=salt,
        chat=chat,
    )


def answer_of(prompt: Prompt, step: int, sampling: str, completion: Completion, row: int) -> Answer:
    """Return what is kept of one answer, whose tokens begin at `row` of the columns."""
    reason, given = completion.error or NOT_STATED, completion.prompt_token_ids
    numbers = ("prompt_tokens", "completion_tokens", "cached_tokens", "e2e_latency_s")
    return Answer(
        prompt_id=prompt.id,
        round=step,
        prompt_sha256=prompt.prompt_sha256,
        token_ids_sha256=prompt.token_ids_sha256 or "" if given is None else sha256_of_token_ids(given),
        sampling_sha256=sampling,
        status=completion.status,
        finish_reason=completion.finish_reason,
        text=completion.text,
        reasoning=completion.reasoning,
        reasoning_field=completion.reasoning_field,
        tool_calls=completion.tool_calls,
        ttft_ms=completion.ttft_ms,
        ttft_ms_reason=None if completion.ttft_ms is not None else completion.ttft_ms_reason or reason,
        error=completion.error,
        first_row=row,
        rows=len(completion.token_ids),
        **{name: getattr(completion, name) for name in numbers},
        **{f"{name}_reason": reason if getattr(completion, name) is None else None for name in numbers},
    )


def _columns(completions: Sequence[Completion], k: int) -> Columns:
    """Return the columns of all answers one after the other. Logprobs that do not match the tokens in number are left out."""
    rows = sum(len(completion.token_ids) for completion in completions)
    columns: Columns = {
        "token_id": np.full(rows, -1, dtype="<i4"),
        "logprob": np.full(rows, math.nan, dtype="<f4"),
        "top_id": np.full((rows, k), -1, dtype="<i4"),
        "top_logprob": np.full((rows, k), math.nan, dtype="<f4"),
        "arrival_ms": np.full(rows, math.nan, dtype="<f4"),
    }
    row = 0
    for completion in completions:
        count = len(completion.token_ids)
        columns["token_id"][row : row + count] = completion.token_ids
        if len(completion.logprobs) == count:
            columns["logprob"][row : row + count] = [math.nan if value is None else value for value in completion.logprobs]
        if len(completion.arrivals_ms) == count:
            columns["arrival_ms"][row : row + count] = completion.arrivals_ms
        if len(completion.top_ids) == len(completion.top_logprobs) == count:
            _fill_tops(completion, columns["top_id"][row : row + count], columns["top_logprob"][row : row + count], k)
        row += count
    return columns


def _fill_tops(completion: Completion, ids: npt.NDArray[np.int32], logprobs: npt.NDArray[np.float32], k: int) -> None:
    """Write the likeliest tokens of one answer; all rows at once where every row is full, as an engine gives them."""
    if k and all(len(row) == k for row in completion.top_ids) and all(len(row) == k for row in completion.top_logprobs):
        ids[:], logprobs[:] = completion.top_ids or ids, completion.top_logprobs or logprobs
        return
    for place, (row, values) in enumerate(zip(completion.top_ids, completion.top_logprobs, strict=True)):
        if len(row) == len(values):
            ids[place, : len(row[:k])], logprobs[place, : len(values[:k])] = row[:k], values[:k]
