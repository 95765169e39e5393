"""The few requests by which an engine proves that it serves: which model, which version, one generation.

Plain standard library on purpose: a start asks a dozen times, one request at a time. Answers are bounded in time and
size, proxies from the environment are not used (the engine is on this machine), redirects are not followed.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from servegate.domain.records import Json

MAX_ANSWER_BYTES = 8 << 20
_CHUNK = 65536
_REFUSED = "connection refused"
_LATE = "no answer within"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())


@dataclass(frozen=True)
class Answer:
    """What came back: `status` 0 means that nobody answered, and `problem` says why in a few words."""

    status: int
    value: Json | None = None
    problem: str = ""

    @property
    def refused(self) -> bool:
        """Whether nobody listens there (yet)."""
        return self.status == 0 and self.problem == _REFUSED

    @property
    def timed_out(self) -> bool:
        """Whether somebody listens and said nothing in time."""
        return self.status == 0 and self.problem.startswith(_LATE)


def ask(url: str, timeout_s: float, body: Json | None = None, *, api_key: str = "") -> Answer:
    """Ask once, with GET or (with a body) POST; every failure comes back as an Answer with its problem."""
    deadline = time.monotonic() + timeout_s
    data = None if body is None else json.dumps(body).encode("ascii")
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {api_key}"} if api_key else {})}
    request = urllib.request.Request(url, data=data, headers=headers)  # noqa: S310 - our URL
    try:
        with _OPENER.open(request, timeout=timeout_s) as reply:
            status, payload = reply.status, _read(reply, deadline)
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, problem=f"HTTP {error.code}: {_excerpt(_read_quietly(error, deadline))}")
    except TimeoutError:
        return Answer(0, problem=f"{_LATE} {timeout_s:.1f} s")
    except urllib.error.URLError as error:
        if isinstance(error.reason, TimeoutError):
            return Answer(0, problem=f"{_LATE} {timeout_s:.1f} s")
        return Answer(0, problem=_REFUSED if isinstance(error.reason, ConnectionRefusedError) else str(error.reason))
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Answer(0, problem=f"{type(error).__name__}: {_excerpt(str(error).encode('utf-8', 'replace'))}")
    try:
        return Answer(status, json.loads(payload))
    except (ValueError, RecursionError):
        return Answer(status, problem=f"no JSON: {_excerpt(payload)}")


def fetch(url: str, timeout_s: float) -> bytes | None:
    """Return the body of a GET that was answered with 200, or None for everything else."""
    deadline = time.monotonic() + timeout_s
    try:
        with _OPENER.open(url, timeout=timeout_s) as reply:
            return _read(reply, deadline) if reply.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError):  # HTTPError and timeouts are OSErrors
        return None


def _read(reply: Any, deadline: float) -> bytes:
    payload = b""
    while chunk := reply.read1(_CHUNK):  # what is there, so that the deadline is seen between two drops
        payload += chunk
        if len(payload) > MAX_ANSWER_BYTES:
            raise ValueError(f"an answer of more than {MAX_ANSWER_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    return payload


def _read_quietly(reply: Any, deadline: float) -> bytes:
    try:
        return _read(reply, deadline)
    except (OSError, http.client.HTTPException, ValueError):
        return b""


def _excerpt(payload: bytes) -> str:
    text = payload[:300].decode("utf-8", "replace")
    return "".join(character if character.isprintable() else " " for character in text)


def listed_model(answer: Answer, model: str) -> dict[str, object] | None:
    """Return what `/v1/models` says of a model, or None."""
    if answer.status != 200:
        return None
    return next((item for item in _items(answer) if item.get("id") == model), None)


def model_names(answer: Answer) -> list[str]:
    """Return the first names of models that `/v1/models` lists."""
    return [str(item.get("id")) for item in _items(answer)][:5]


def _items(answer: Answer) -> list[dict[str, object]]:
    data = answer.value.get("data") if isinstance(answer.value, dict) else None
    return [item for item in data if isinstance(item, dict)] if isinstance(data, list) else []


def text_at(value: object, key: str) -> str | None:
    """Return the text under a key of an answer, or None."""
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else None
