"""The one record of an answer that came, whichever route brought it: its status, its text, and its thoughts taken apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servegate.domain.evidence import ItemStatus
from servegate.domain.records import Json
from servegate.domain.workload import Completion, CompletionRequest, calls_as_text
from servegate.http import Reply
from servegate.probes.reply_parts import one_line, usage_of


def completed(
    request: CompletionRequest,
    reply: Reply,
    document: Json,
    *,
    choice: Mapping[str, Json],
    message: Mapping[str, Json],
    content: str,
    token_ids: tuple[int, ...],
    calls: tuple[dict[str, Json], ...] = (),
    **more: Any,
) -> Completion:
    """Return the record of an answer. `message` holds the fields beside its text, `more` what only one of the routes states.

    Raises:
        UnusableReplyError: the engine counts other tokens than came.
    """
    reasoning, field, answer = reasoning_of(content, message)
    said = calls_as_text(calls)
    text = f"{content}\n{said}" if content and said else content + said
    finish = choice.get("finish_reason")
    status, error = status_of(finish, text, answer + said, reasoning, len(token_ids), request.max_tokens)
    return Completion(
        id=request.id,
        status=status,
        finish_reason=finish if isinstance(finish, str) else None,
        text=text,
        reasoning=reasoning,
        reasoning_field=field,
        tool_calls=calls,
        token_ids=token_ids,
        e2e_latency_s=reply.seconds,
        error=error,
        **usage_of(document, len(token_ids)),
        **more,
    )


def status_of(
    finish: Json, text: str, answer: str, reasoning: str | None, tokens: int, max_tokens: int
) -> tuple[ItemStatus, str | None]:
    """Return the status and its explanation. A cap hit is told before emptiness: the answer may only have been cut.

    `text` is all that was shown, `answer` what of it is no think block.
    """
    thought = reasoning is not None and bool(reasoning.strip())
    if (text or thought) and not tokens:
        return ItemStatus.FAILED, "there is an answer, and it came without the ids of its tokens"
    if finish == "length":
        if thought and not text.strip():  # the parser took the thought out, so no mark in the text says that it did not end
            return ItemStatus.REASONING_ONLY, f"cut at {tokens} tokens while it was thinking"
        short = tokens < max_tokens
        return ItemStatus.TRUNCATED, f"the server stopped at {tokens} of {max_tokens} tokens" if short else None
    if finish not in ("stop", "tool_calls"):
        return ItemStatus.FAILED, one_line(f"finish_reason is {finish!r}")
    if answer.strip():
        return ItemStatus.OK, None
    if thought:
        return ItemStatus.REASONING_ONLY, "the answer holds reasoning and nothing after it"
    return ItemStatus.EMPTY, "the model ended at once" if not text else "the answer is nothing but white space"


def reasoning_of(text: str, holder: Mapping[str, Json]) -> tuple[str | None, str | None, str]:
    """Split off reasoning: return it, where it stood, and the rest of the text.

    It stands in a field of its own, of either name (vLLM renamed `reasoning_content` to `reasoning`), or in a think block,
    whose start may be in the prompt. The record keeps the text whole; an unclosed block is all reasoning and no answer.
    """
    for field in ("reasoning", "reasoning_content"):
        stated = holder.get(field)
        if isinstance(stated, str) and stated:
            return stated, field, text
    thought, closed, answer = text.partition("</think>")
    if closed:
        return thought.removeprefix("<think>"), "text", answer
    if text.lstrip().startswith("<think>"):
        return text.lstrip().removeprefix("<think>"), "text", ""
    return None, None, text
