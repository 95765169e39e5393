"""The proxy in front of an engine: known prompts never reach it, all others do, and what it says comes back as it is."""

from __future__ import annotations

import json
import threading

import pytest
from aiohttp import web

from servegate.domain.workload import Endpoint
from servegate.errors import MeasurementError
from servegate.http import Call, HttpClient, Reply
from servegate.probes import relay as module
from servegate.probes.relay import prompt_hash, relay
from tests.fakes.completions_server import REQUEST, CompletionsServer, hangs, says

PATH = "/v1/completions"


def posted(url: str, body: object, api_key: str = "") -> Reply:
    with HttpClient(url, api_key=api_key, total_s=5) as client:
        return client.post(PATH, body)  # type: ignore[arg-type]


def test_a_known_prompt_is_answered_without_the_engine(server: CompletionsServer) -> None:
    known = {prompt_hash("a \u2028\U0001f600?"): "yes\x00", prompt_hash("b"): None}
    with relay(server.endpoint, known, timeout_s=5) as url:
        texts = [posted(url, {"prompt": prompt}).json()["choices"][0]["text"] for prompt in ("a \u2028\U0001f600?", "b")]  # type: ignore[index, call-overload]
    assert texts == ["yes\x00", None]
    assert server.bodies == []


def test_everything_else_goes_to_the_engine_and_comes_back_as_it_is(server: CompletionsServer) -> None:
    server.text_faults = {"odd": says('{"error": {"message": "\\ud800"}}', 418), "broken": says("not json", 200)}
    for prompt in ("other", "odd", "broken", [1, 2], ["known"]):
        body = {"model": "m", "prompt": prompt, "max_tokens": 4, "cache_salt": "s"}
        direct = posted(server.base_url, body)
        with relay(server.endpoint, {prompt_hash("known"): "x"}, timeout_s=5) as url:
            through = posted(url, body)
        assert (through.status, through.body, through.media_type) == (direct.status, direct.body, direct.media_type)
    assert server.bodies[-1] == server.bodies[-2]


def test_the_proxy_asks_for_the_engines_key_and_hands_it_on(server: CompletionsServer) -> None:
    """Answers that are known are the gate's own as well; another user of the machine gets neither them nor the engine."""
    seen: list[str] = []

    async def noted(_: dict[str, object]) -> web.Response:
        seen.append(REQUEST.get().headers.get("Authorization", ""))
        return web.json_response({})

    server.text_faults = {"other": noted}
    guarded = server.endpoint.model_copy(update={"api_key": "s3cret"})
    with relay(guarded, {prompt_hash("known"): "x"}, timeout_s=5) as url:
        for prompt in ("known", "other"):
            for key in ("", "guessed", "s3cret2"):
                assert posted(url, {"prompt": prompt}, key).status == 401
        assert [posted(url, {"prompt": prompt}, "s3cret").status for prompt in ("known", "other")] == [200, 200]
    assert seen == ["Bearer s3cret"]


def test_an_engine_that_is_silent_or_gone_is_an_error_of_the_request(server: CompletionsServer) -> None:
    server.text_faults = {"slow": hangs()}
    with relay(server.endpoint, {"x": "y"}, timeout_s=0.2) as url:
        slow = posted(url, {"prompt": "slow"})
    with relay(Endpoint(base_url="http://127.0.0.1:9", model="m", tokenizer="m"), {"x": "y"}, timeout_s=5) as url:
        gone = posted(url, {"prompt": "p"})
    for reply in (slow, gone):
        assert reply.status == 502
        assert "the engine gave no answer" in json.loads(reply.body)["error"]["message"]


def test_many_at_once_and_nothing_is_left_behind(server: CompletionsServer) -> None:
    server.pause_s = 0.3
    before = threading.active_count()
    with relay(server.endpoint, {"x": "y"}, timeout_s=5) as url, HttpClient(url, total_s=5) as client:
        calls = [Call(PATH, {"prompt": f"{number}"}) for number in range(64)]
        replies = [outcome[1] for outcome in client.results(calls, 64) if outcome]
    assert all(isinstance(reply, Reply) and reply.status == 200 for reply in replies)
    assert server.most_in_flight > 32, "the proxy lets requests through one by one"
    assert threading.active_count() == before


def test_a_proxy_that_cannot_open_is_told(server: CompletionsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("no port is free")

    monkeypatch.setattr(module.web, "TCPSite", refuse)
    with pytest.raises(MeasurementError, match="no port could be opened") as caught, relay(server.endpoint, {}, timeout_s=1):
        pass
    assert "no port is free" in caught.value.why
