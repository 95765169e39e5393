"""How long prompts and answers are, counted by the engine's own tokenizer, since lm-eval's log holds texts only.

Two things hang on it. A prompt that leaves no room for its answer would be cut, or its answer would be: such a pass is
refused. And an answer that is as long as an answer may be was cut at the limit: lm-eval scores it like any other, while
it is neither right nor wrong. The log does not carry the reason why an answer ended, so it is taken from its length.

A token has at least one byte, so short texts need not be counted at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from servegate.domain.records import Json
from servegate.domain.workload import Endpoint, EvaluationSpec
from servegate.errors import MeasurementError, UsageError
from servegate.http import Call, HttpError
from servegate.probes.asking import client_of
from servegate.probes.reply_parts import UnusableReplyError, document_of, ids_of

COUNT_CONCURRENCY = 16
FIRST_TOKENS, FIRST_CHARACTERS = 4, 1000
SLACK_TOKENS = 1
"""A text may have a token less than were generated for it: its last one may be half of a character."""


def refuse_long(
    endpoint: Endpoint,
    timeout_s: float,
    spec: EvaluationSpec,
    prompts: Iterable[str],
    error_type: Callable[..., UsageError | MeasurementError],
) -> None:
    """Raise `error_type` when a prompt and its answer do not fit the context."""
    room = spec.max_length - spec.max_tokens
    doubtful = [prompt for prompt in dict.fromkeys(prompts) if len(prompt.encode()) + 2 > room]
    counts = token_counts(endpoint, timeout_s, spec.task, doubtful, special=spec.add_bos)
    longest, text = max(zip(counts, doubtful, strict=True), default=(0, ""))
    if longest > room:
        raise error_type(
            f"task {spec.task}: a prompt of {longest} tokens leaves no room for {spec.max_tokens} more in a context of "
            f"{spec.max_length}",
            why=f"It ends with: {text[-200:]!r}",
            advice="Use fewer shots, lower max_tokens, or serve a longer max-model-len.",
        )


def cut_documents(endpoint: Endpoint, timeout_s: float, spec: EvaluationSpec, answers: Mapping[int, str]) -> tuple[int, ...]:
    """Return the documents whose answer reached `max_tokens`, in ascending order."""
    limit = spec.max_tokens - SLACK_TOKENS
    doubtful = {doc_id: text for doc_id, text in answers.items() if len(text.encode("utf-8", "replace")) >= limit}
    counts = token_counts(endpoint, timeout_s, spec.task, list(doubtful.values()), special=False)
    return tuple(sorted(doc_id for doc_id, count in zip(doubtful, counts, strict=True) if count >= limit))


def first_token_ids(endpoint: Endpoint, timeout_s: float, text: str, *, special: bool) -> tuple[int, ...] | None:
    """Return the ids of a text's first tokens, the beginning-of-text token included where there is one; None: not told."""
    body: Json = {"model": endpoint.model, "prompt": text[:FIRST_CHARACTERS], "add_special_tokens": special}
    try:
        with client_of(endpoint, timeout_s) as client:
            document, _ = document_of(client.post("/tokenize", body))
        return ids_of(document.get("tokens") if isinstance(document, dict) else None, "tokens")[:FIRST_TOKENS]
    except (HttpError, UnusableReplyError):
        return None


def token_counts(endpoint: Endpoint, timeout_s: float, task: str, texts: list[str], *, special: bool) -> list[int]:
    """Return how many tokens each text has, in order. Raises MeasurementError when the engine cannot say."""
    calls = [Call("/tokenize", {"model": endpoint.model, "prompt": text, "add_special_tokens": special}) for text in texts]
    counts: dict[int, int] = {}
    if not calls:
        return []
    with client_of(endpoint, timeout_s) as client:
        for outcome in client.results(calls, COUNT_CONCURRENCY):
            if outcome is None:
                continue
            index, reply = outcome
            document, problem = (None, reply.what) if isinstance(reply, HttpError) else document_of(reply)
            count = document.get("count") if isinstance(document, dict) else None
            if type(count) is not int:
                raise MeasurementError(f"task {task}: the engine could not count a text's tokens: {problem or count}")
            counts[index] = count
    return [counts[index] for index in range(len(texts))]
