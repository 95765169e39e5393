r"""Reads a streamed answer: server-sent events become the document that the same request gives without streaming.

A stream is read when it has ended, in one go: the client notes only when each piece came (`Reply.arrivals`), so parsing
never delays the clock of another answer, and a character, a line or an event that was cut by the network is whole again
before anybody looks at it. The rules are those of the HTML standard: lines end at LF, CRLF or CR, `:` starts a comment
(servers send some to keep a connection alive), the `data` lines of one event belong together.

Status 200 was sent before the first token, so everything that goes wrong later comes inside the stream: an error object,
or an end without `[DONE]`. Both are failures, whatever text had come before; half an answer is never a short one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from servegate.domain.records import Json
from servegate.domain.strict_json import parse_json
from servegate.http import Reply

MEDIA_TYPE = "text/event-stream"
DONE = b"[DONE]"


class BrokenStreamError(ValueError):
    """The stream holds an error or has no end; the message says which."""


class _Logprobs(msgspec.Struct, gc=False):
    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float | None] | None] | None = None


class _Choice(msgspec.Struct, gc=False):
    text: str = ""
    index: int = 0
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    prompt_token_ids: list[int] | None = None
    token_ids: list[int] | None = None


class _Event(msgspec.Struct, gc=False):
    choices: list[_Choice] = []
    usage: dict[str, Json] | None = None
    error: Json = None
    object: str | None = None


_DECODER = msgspec.json.Decoder(_Event)


@dataclass
class Streamed:
    """One streamed completion: the document, and for each token the seconds from the request to the piece that held it."""

    document: dict[str, Json]
    arrivals_s: list[float] = field(default_factory=list)


def is_stream(reply: Reply) -> bool:
    """Whether an answer came as events; a server may answer a request for a stream with one document (errors always are)."""
    return reply.status == 200 and reply.media_type == MEDIA_TYPE


def events(reply: Reply) -> Iterator[tuple[str, bytes, float]]:
    """Yield (type, data, seconds from the request to the piece in which the event ended) of each event."""
    pieces = iter(reply.arrivals)
    end, at = next(pieces, (len(reply.body), reply.seconds))
    kind, place = "", 0
    data: list[bytes] = []
    for line in (*reply.body.removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True), b"\n"):
        place += len(line)
        while end < place:
            end, at = next(pieces, (place, reply.seconds))
        bare = line.rstrip(b"\r\n")
        if not bare:
            if data:
                yield kind, b"\n".join(data), at
            kind, data = "", []
            continue
        name, _, value = bare.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif name == b"event":
            kind = value.strip().decode("ascii", "replace")


def streamed(reply: Reply) -> Streamed:
    """Return the completion of a stream in the form of an answer that was not streamed.

    Raises:
        BrokenStreamError: an event is an error or cannot be read, or the stream did not end with `[DONE]`.
    """
    made, ended = _Folding(), False
    for kind, data, at in events(reply):
        if ended:
            raise BrokenStreamError("the stream went on after [DONE]")
        if data == DONE:
            ended = True
            continue
        event = _decoded(data)
        stated = event.error if event.error is not None else ("an event of the type error" if kind == "error" else None)
        if stated is not None or event.object == "error":
            raise BrokenStreamError(f"an error inside the stream after {made.tokens} tokens: {_message(stated, data)}")
        made.add(event, at)
    if not ended:
        raise BrokenStreamError(f"the stream ended after {made.tokens} tokens without [DONE]")
    return made.whole()


class _Folding:
    """The choice so far."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.token_ids: list[int] = []
        self.has_ids = False
        self.logprobs: _Logprobs | None = None
        self.finish_reason: str | None = None
        self.stop_reason: int | str | None = None
        self.prompt_token_ids: list[int] | None = None
        self.usage: dict[str, Json] | None = None
        self.arrivals_s: list[float] = []
        self.choices = 0

    @property
    def tokens(self) -> int:
        return len(self.token_ids)

    def add(self, event: _Event, at: float) -> None:
        if event.usage is not None:
            self.usage = event.usage
        if not event.choices:
            return
        choice = event.choices[0]
        if len(event.choices) > 1 or choice.index:
            raise BrokenStreamError("the stream does not hold exactly one choice")
        self.choices = 1
        self.texts.append(choice.text)
        if choice.prompt_token_ids is not None:
            self.prompt_token_ids = choice.prompt_token_ids
        if choice.token_ids is not None:
            self.has_ids = True
            self.token_ids += choice.token_ids
            self.arrivals_s += [at] * len(choice.token_ids)
        if choice.logprobs is not None:
            self._add(choice.logprobs)
        if choice.finish_reason is not None:
            self.finish_reason, self.stop_reason = choice.finish_reason, choice.stop_reason

    def _add(self, more: _Logprobs) -> None:
        if self.logprobs is None:
            self.logprobs = more
            return
        self.logprobs.tokens += more.tokens
        self.logprobs.token_logprobs += more.token_logprobs
        if self.logprobs.top_logprobs is not None and more.top_logprobs is not None:
            self.logprobs.top_logprobs += more.top_logprobs

    def whole(self) -> Streamed:
        logprobs = self.logprobs and {
            "tokens": self.logprobs.tokens,
            "token_logprobs": self.logprobs.token_logprobs,
            "top_logprobs": self.logprobs.top_logprobs,
        }
        choice = {
            "index": 0,
            "text": joined(self.texts),
            "logprobs": logprobs,
            "finish_reason": self.finish_reason,
            "stop_reason": self.stop_reason,
            "prompt_token_ids": self.prompt_token_ids,
            "token_ids": self.token_ids if self.has_ids else None,
        }
        return Streamed({"choices": [choice] if self.choices else [], "usage": self.usage}, self.arrivals_s)


def joined(texts: list[str]) -> str:
    r"""Return the whole text. Halves of one character (`\ud83d` and `\ude00` in two events) become that character."""
    text = "".join(texts)
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text


def _decoded(data: bytes) -> _Event:
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError:  # a lone surrogate, another shape, or no JSON at all
        try:
            return msgspec.convert(parse_json(data), _Event)
        except (ValueError, msgspec.ValidationError) as error:
            raise BrokenStreamError(f"an event cannot be read ({error}): {data[:200].decode('utf-8', 'replace')}") from None


def _message(stated: Json, data: bytes) -> str:
    if isinstance(stated, dict) and isinstance(stated.get("message"), str):
        return str(stated["message"])
    return stated if isinstance(stated, str) else json.dumps(stated) if stated else data[:300].decode("utf-8", "replace")
