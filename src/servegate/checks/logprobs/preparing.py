"""Cuts the corpus into windows of token ids, once, on the baseline's tokenizer.

Text goes to the engine in pieces that cannot exceed its context (a token takes at least one byte), cut where a word begins,
since that is where tokenizers split as well. The pieces' ids are joined again per document and cut into windows: both arms
get the same ids whatever their tokenizers would make of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from servegate.checks.contract import Inputs
from servegate.checks.logprobs.record import LogprobsInputs, WindowInput
from servegate.checks.logprobs.settings import LogprobsSettings
from servegate.domain.evidence import EngineFacts, sha256_of_token_ids
from servegate.domain.workload import ChatPrompt
from servegate.errors import MeasurementError, UnsupportedError, UsageError
from servegate.ports import Probes, PromptLogprobs

MOST_PIECE_BYTES = 32_768
PIECES_AT_ONCE = 64
SHORTEST_WINDOW = 32
"""The rest of a document is a window of its own from this many tokens on; a shorter one says too little to be a cluster."""
MARK_TOKENS, MARKS_ONE_IN = 16, 16
COPIED_SHARE = 0.5
"""A window of which more marks stood in windows before is a copy: it is scored, and tells nothing that is new."""
WORD_START = re.compile(r"\s\S")
NAMED = 5


def prepare(probes: Probes, settings: LogprobsSettings, inputs: Inputs, engine: EngineFacts) -> LogprobsInputs:
    """Return the windows, and the user's own prompts with their ids.

    Raises:
        UsageError: the corpus is shorter than one window, or a prompt does not fit into the context.
        MeasurementError: the engine did not tokenize.
    """
    if not isinstance(inputs, LogprobsInputs):
        raise TypeError(f"the inputs of this check are a corpus, not {type(inputs).__name__}")
    if probes.prompt_logprobs is None:
        raise UnsupportedError("this engine offers no way to score a given text")
    # One token is generated after the window, the least that an engine accepts.
    longest = engine.max_model_len - 1 if engine.max_model_len is not None else settings.corpus.window_tokens
    bos = _bos(probes.prompt_logprobs) if settings.corpus.bos == "auto" else ()
    length = min(settings.corpus.window_tokens, longest) - len(bos)
    if length < SHORTEST_WINDOW:
        raise UsageError(
            f"windows of {length} tokens are too short to score (the context holds {longest})",
            advice=f"Serve with a larger max-model-len: a window needs at least {SHORTEST_WINDOW} tokens.",
        )
    pieces = _pieces(inputs.documents, min(longest, MOST_PIECE_BYTES))
    windows = _windows(_tokenized(probes.prompt_logprobs, pieces), length, bos, settings.corpus.windows)
    if not windows:
        raise UsageError(
            f"{settings.corpus.file}: no document has the {SHORTEST_WINDOW} tokens of the shortest window",
            advice="Give a longer text: 100 windows of 2,048 tokens are about 900 kB of English.",
        )
    return inputs.model_copy(
        update={
            "documents": (),
            "windows": windows,
            "bos_token_ids": bos,
            "copies": _copies(windows, len(bos)),
            "traffic": _rendered(probes, settings, inputs, longest),
        }
    )


def _bos(instrument: PromptLogprobs) -> tuple[int, ...]:
    """Return what the tokenizer puts before a text: asked both ways, since its configuration is often wrong about it."""
    (plain,), (special,) = (instrument.tokenize(["text"], special=choice) for choice in (False, True))
    for size in range(len(special) + 1):
        if plain and special[size : size + len(plain)] == plain:
            return special[:size]
    raise MeasurementError("the tokenizer changes a text when it adds special tokens, so its BOS cannot be told")


def _pieces(documents: Sequence[str], most_bytes: int) -> Iterator[tuple[int, str]]:
    """Yield (document, piece): at most `most_bytes` of UTF-8 each, cut before the white space in front of a word."""
    for number, text in enumerate(documents):
        start = 0
        while start < len(text):
            end = start + _fitting(text, start, most_bytes)
            if end < len(text):
                cuts = [match.start() for match in WORD_START.finditer(text, start + 1, end)]
                end = cuts[-1] if cuts else end
            yield number, text[start:end]
            start = end


def _fitting(text: str, start: int, most_bytes: int) -> int:
    """Return how many characters from `start` on fit; at least one."""
    raw = text[start : start + most_bytes].encode()[:most_bytes]
    return max(1, len(raw.decode("utf-8", "ignore")))


def _tokenized(instrument: PromptLogprobs, pieces: Iterator[tuple[int, str]]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield (document, ids) piece by piece, in order; no more is tokenized than is asked for."""
    while batch := list(islice(pieces, PIECES_AT_ONCE)):
        tokens = instrument.tokenize([text for _, text in batch], special=False)
        yield from ((number, ids) for (number, _), ids in zip(batch, tokens, strict=True))


def _windows(
    pieces: Iterator[tuple[int, tuple[int, ...]]], length: int, bos: tuple[int, ...], most: int
) -> tuple[WindowInput, ...]:
    found: list[WindowInput] = []

    def add(document: int, ids: Sequence[int]) -> None:
        whole = (*bos, *ids)
        found.append(
            WindowInput(
                window_id=f"w{len(found):05d}",
                document_id=f"d{document:05d}",
                token_ids=whole,
                token_ids_sha256=sha256_of_token_ids(whole),
            )
        )

    current, waiting = -1, list[int]()
    for document, ids in pieces:
        if document != current:
            if len(waiting) >= SHORTEST_WINDOW and len(found) < most:
                add(current, waiting)
            current, waiting = document, []
        waiting += ids
        while len(waiting) >= length and len(found) < most:
            add(document, waiting[:length])
            waiting = waiting[length:]
        if len(found) >= most:
            return tuple(found)
    if len(waiting) >= SHORTEST_WINDOW:
        add(current, waiting)
    return tuple(found)


def _copies(windows: Sequence[WindowInput], bos: int) -> int:
    """Return how many windows mostly repeat the text of earlier ones."""
    seen: set[int] = set()
    copies = 0
    for window in windows:
        marks = _marks(window.token_ids[bos:])
        copies += len(marks & seen) > COPIED_SHARE * len(marks)
        seen |= marks
    return copies


def _marks(ids: Sequence[int]) -> set[int]:
    """Return hashes that a copy shares wherever it starts: of every 16 tokens in a row those that are 0 modulo 16, and all.

    Choosing by the hash and not by the place finds a paragraph that is repeated out of step with the windows.
    """
    rows = (hash(tuple(ids[start : start + MARK_TOKENS])) for start in range(len(ids) - MARK_TOKENS + 1))
    return {each for each in rows if each % MARKS_ONE_IN == 0} or {hash(tuple(ids))}


def _rendered(probes: Probes, settings: LogprobsSettings, inputs: LogprobsInputs, longest: int) -> tuple[object, ...]:
    own = settings.own_traffic
    if own is None:
        return ()
    asked = [ChatPrompt(id=prompt.id, messages=prompt.messages) for prompt in inputs.traffic]
    ids = {item.id: item.token_ids for item in probes.completions.render(asked)}
    too_long = [prompt.id for prompt in inputs.traffic if len(ids[prompt.id]) + own.max_tokens > longest]
    if too_long:
        raise UsageError(
            f"{own.file}: prompt and answer do not fit into the {longest + 1} tokens of context: {', '.join(too_long[:NAMED])}",
            advice="Shorten the prompts, or lower own_traffic.max_tokens.",
        )
    return tuple(
        prompt.model_copy(update={"token_ids": ids[prompt.id], "token_ids_sha256": sha256_of_token_ids(ids[prompt.id]),
                                  "token_ids_sha256_reason": None})
        for prompt in inputs.traffic
    )  # fmt: skip
