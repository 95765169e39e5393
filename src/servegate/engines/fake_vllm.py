"""A `vllm` executable of the standard library alone: the same commands, API, log and result files, none of the model.

    fake_vllm.py serve MODEL --port=N --served-model-name=NAME ...      fake_vllm.py bench serve ...      --version

`servegate fake-engine` installs it, so that a workflow can be rehearsed without a GPU. It is one file that imports nothing
of servegate, since it is started as a program of its own, with `python -I -S`, for every arm of every rehearsal.

Shapes follow vLLM 0.32.0. Answers are a function of the prompt's text. Ready in about 0.2 s. Environment:

FAKE_VLLM_FAULT    die-at-PHASE and hang-at-PHASE (spawn, load, compile, warm_up, ready); die-at-start (memory is held by
                   somebody), never-ready, wrong-model, ignore-sigterm-and-fork, flip-some-answers, garbage-text,
                   forget-the-middle (of prompts over 400 tokens, the pass key of a `retrieval` prompt), break-when-sampled
                   (most answers to requests that leave the temperature to the engine); and die, hang, sleep, http-500,
                   garbage, stream-error and stream-cut (half an answer, then an error object inside HTTP 200 or nothing
                   more), each also as `<fault>-after-N`: after N completions that
                   went well (the trial generation of a start is the first); hang-after-N-tokens counts tokens instead.
                   The same word under `--additional-config={"fault": ...}` works too.
FAKE_VLLM_ANSWERS  a JSON file {"part of a prompt": "answer"}; the first part that the prompt holds decides
FAKE_VLLM_PIDS     a file to which `ignore-sigterm-and-fork` appends its pids
FAKE_VLLM_HELP     what `serve --help=all` lists
FAKE_VLLM_VERSION  the version to claim (0.32.0)
FAKE_VLLM_TOKEN_MS milliseconds from each token to the next
FAKE_VLLM_DELAY_MS milliseconds before a completion's first token; `5-8`: each start draws its own between these
VLLM_API_KEY       what a client has to send as a bearer token for the routes below; OPENAI_API_KEY is what `bench serve` sends
FAKE_VLLM_NOISE    share of answers that get another number (0), drawn anew for each request: an arm that differs from itself
"""

from __future__ import annotations

import codecs
import hashlib
import http.client
import itertools
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

VERSION = os.environ.get("FAKE_VLLM_VERSION", "0.32.0")
TOKEN_S = float(os.environ.get("FAKE_VLLM_TOKEN_MS", "0")) / 1000
FAULTS_LATER = "die|hang|sleep|http-500|garbage|stream-error|stream-cut"
DELAYS_MS = [float(part) for part in os.environ.get("FAKE_VLLM_DELAY_MS", "0").split("-")]
DELAY_S = random.uniform(DELAYS_MS[0], DELAYS_MS[-1]) / 1000
NOISE = float(os.environ.get("FAKE_VLLM_NOISE", "0"))
GUARDED = ("/v1", "/v2", "/inference", "/cohere")
SPECIAL = {"<|im_start|>": 1, "<|im_end|>": 2}
END = 2
WORDS = ("the", "a", "of", "to", "and", "in", "is", "it", "for", "on", "with", "as", "at", "by", "from", "this", "that", "be")


def main(arguments: list[str]) -> int:
    if arguments[:1] in (["--version"], ["-v"]):
        print(VERSION)
        return 0
    if arguments[:2] == ["serve", "--help=all"]:
        print("usage: vllm serve [model_tag] [options]\n\noptions:\n" + os.environ.get("FAKE_VLLM_HELP", ""))
        return 0
    if arguments[:1] == ["serve"]:
        positional, options = parsed(arguments[1:])
        return serve(positional[0] if positional else options.get("model", ""), options)
    if arguments[:2] == ["bench", "serve"]:
        return bench(parsed(arguments[2:])[1])
    print("usage: vllm [-h] [-v] {serve,bench} ...\nvllm: error: invalid choice", file=sys.stderr)
    return 2


def parsed(arguments: list[str]) -> tuple[list[str], dict[str, str]]:
    positional, options, words = [], {}, list(arguments)
    while words:
        word = words.pop(0)
        if not word.startswith("--"):
            positional.append(word)
            continue
        name, equals, value = word[2:].partition("=")
        if not equals and words and not words[0].startswith("--"):
            value = words.pop(0)
        options[name.replace("_", "-")] = value if equals or value else "true"
    return positional, options


# -- tokens: up to three bytes of UTF-8 are one token, so every text round-trips and a vocabulary is not needed ---------


def encode(text: str) -> list[int]:
    ids: list[int] = []
    for part in re.split(r"(<\|im_start\|>|<\|im_end\|>)", text):
        if part in SPECIAL:
            ids.append(SPECIAL[part])
            continue
        data = part.encode("utf-8", "replace")
        for start in range(0, len(data), 3):
            chunk = data[start : start + 3]
            ids.append((len(chunk) << 24) + int.from_bytes(chunk, "big"))
    return ids


def decode(ids: list[int], special: bool = False) -> str:
    names = {number: name for name, number in SPECIAL.items()}
    pieces = []
    for number in ids:
        size = number >> 24
        if number in names:
            pieces.append(names[number].encode() if special else b"")
        elif 1 <= size <= 3:
            pieces.append((number & 0xFFFFFF).to_bytes(size, "big"))
        else:
            pieces.append(f" {number}".encode())
    return b"".join(pieces).decode("utf-8", "replace")


def templated(body: dict[str, Any], prompt_follows: bool) -> str:
    tools = "".join(f"{json.dumps(tool)}\n" for tool in body.get("tools") or [])
    text = f"<|im_start|>system\n{tools}<|im_end|>\n" if tools else ""
    text += "".join(f"<|im_start|>{message['role']}\n{message['content']}<|im_end|>\n" for message in body["messages"])
    silent = (body.get("chat_template_kwargs") or {}).get("enable_thinking") is False
    return text + ("<|im_start|>assistant\n" + "<think>\n\n</think>\n" * silent if prompt_follows else "")


def message_of(text: str, body: dict[str, Any], options: dict[str, str]) -> dict[str, Any]:
    """Take an answer apart as the parsers do that are on: a thought before `</think>`, then calls as Hermes writes them."""
    reasoning, calls = None, []
    if "reasoning-parser" in options:
        thought, closed, rest = text.partition("</think>")
        reasoning, text = thought.removeprefix("<think>"), rest if closed else ""
    if "tool-call-parser" in options and body.get("tools") and body.get("tool_choice", "auto") != "none":
        for found in re.findall(r"<tool_call>(.*?)</tool_call>", text, re.DOTALL):
            function = json.loads(found)
            function["arguments"] = json.dumps(function["arguments"])
            calls.append({"id": f"chatcmpl-tool-{os.urandom(8).hex()}", "type": "function", "function": function})
        text = text.partition("<tool_call>")[0] if calls else text
    return {"role": "assistant", "content": text or None, "reasoning": reasoning, "tool_calls": calls}


# -- answers ----------------------------------------------------------------------------------------------------------


def chance(*parts: object) -> float:
    digest = hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 2**48


class Model:
    """Deterministic answers, and the counters that /metrics shows."""

    def __init__(self, path: str, options: dict[str, str], fault: str) -> None:
        self.path = path
        self.name = options.get("served-model-name", path)
        self.max_model_len = int(options.get("max-model-len", "4096"))
        self.fault, self.options = fault, options
        self.lock = threading.Lock()
        self.completions = self.prompt_tokens = self.generated_tokens = self.finished = 0
        answers = os.environ.get("FAKE_VLLM_ANSWERS")
        self.answers: dict[str, str] = json.loads(Path(answers).read_text("utf-8")) if answers else {}

    def answer(self, prompt: str) -> str:
        flipped = self.fault == "flip-some-answers" and chance("flip", prompt) < 0.25
        if self.fault == "garbage-text":
            return "!" * 60
        for part, answer in self.answers.items():
            if part in prompt:
                return answer + (" not" if flipped else "")
        key = re.search(r"The pass key is (\d+)", prompt)
        if key and "What is the pass key?" in prompt:
            lost = self.fault == "forget-the-middle" and len(prompt) > 1200 and 1 < 3 * key.start() / len(prompt) < 2
            return "The text names no pass key." if lost else f"The pass key is {key[1]}."
        # what is asked stands last: after the examples of a few-shot prompt, or in the last turn of a chat
        question = re.split(r"Question:|<\|im_start\|>user", prompt)[-1]
        total = sum(int(number) for number in re.findall(r"(?<![\w.])\d{1,6}(?![\w.])", question)) + flipped
        total += random.random() < NOISE
        if "JSON" in question:
            return json.dumps({"answer": total, "words": self.words(prompt, 3)})
        return f"{' '.join(self.words((prompt, flipped), 8)).capitalize()}.\n#### {total}"

    def words(self, seed: object, count: int) -> list[str]:
        return [WORDS[int(chance(seed, index) * len(WORDS))] for index in range(count)]

    def complete(self, ids: list[int], body: dict[str, Any]) -> dict[str, Any]:
        """One choice: text, token ids, finish reason, logprobs."""
        prompt = decode(ids, special=True)
        limit = body.get("max_tokens") or body.get("max_completion_tokens") or 16
        drawn = self.fault == "break-when-sampled" and "temperature" not in body and chance(prompt, body.get("seed")) < 0.8
        produced = [*encode("Something else." if drawn else self.answer(prompt)), END]
        if body.get("ignore_eos"):
            produced = (produced[:-1] * (limit // max(1, len(produced) - 1) + 1))[:limit]
        finish = "stop" if len(produced) <= limit and produced[-1:] == [END] else "length"
        produced = produced[:limit]
        text = decode(produced)
        stops = body.get("stop") or []
        cut = min(
            (text.find(stop) for stop in ([stops] if isinstance(stops, str) else stops) if stop and stop in text), default=-1
        )
        if cut >= 0:
            text, finish = text[:cut], "stop"
            while produced and len(decode(produced[:-1])) >= cut and len(decode(produced)) > cut:
                produced = produced[:-1]
            produced = produced or [END]
        return {"text": text, "token_ids": produced, "finish_reason": finish, "logprobs": self.logprobs(prompt, produced, body)}

    def logprobs(self, prompt: str, produced: list[int], body: dict[str, Any]) -> dict[str, Any] | None:
        count = body.get("logprobs")
        if count is None or count is False:
            return None
        count = body.get("top_logprobs", 1) if count is True else count
        as_ids = bool(body.get("return_tokens_as_token_ids"))

        def show(number: int) -> str:
            return f"token_id:{number}" if as_ids else decode([number])

        chosen = [-0.01 - 0.4 * chance(prompt, place, self.fault == "flip-some-answers") for place in range(len(produced))]
        top = [
            {show(number + rank): logprob - rank * (1 + chance(prompt, place, rank)) for rank in range(max(1, count))}
            for place, (number, logprob) in enumerate(zip(produced, chosen, strict=True))
        ]
        offsets = [len(decode(produced[:place])) for place in range(len(produced))]
        return {
            "text_offset": offsets,
            "token_logprobs": chosen,
            "tokens": [show(number) for number in produced],
            "top_logprobs": top,
        }

    def prompt_logprobs(self, ids: list[int], body: dict[str, Any]) -> list[Any] | None:
        if body.get("prompt_logprobs") is None:
            return None
        rows: list[Any] = [None]
        for place, number in enumerate(ids[1:], 1):
            value = -10 * chance(self.fault == "flip-some-answers", ids[max(0, place - 4) : place + 1])
            rank = 1 + int(-value * 3)
            row = {str(number): {"logprob": value, "rank": rank, "decoded_token": decode([number])}}
            if body["prompt_logprobs"] and rank > 1:
                row[str(number + 1)] = {"logprob": -0.1, "rank": 1, "decoded_token": decode([number + 1])}
            rows.append(row)
        return rows


def chat_logprobs(stated: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the logprobs of a completion in the form of the chat route."""
    if stated is None:
        return None
    rows = zip(stated["tokens"], stated["token_logprobs"], stated["top_logprobs"], strict=True)
    return {
        "content": [
            {"token": token, "logprob": value, "bytes": None,
             "top_logprobs": [{"token": one, "logprob": number, "bytes": None} for one, number in top.items()]}
            for token, value, top in rows
        ]
    }  # fmt: skip


def deltas(choice: dict[str, Any], produced: list[int], prefix: str) -> list[dict[str, Any]]:
    """Return one choice as the pieces of a stream, one a token. Half a character is held back, as an engine does."""
    text, logprobs, made = choice.get("text", ""), choice.get("logprobs"), []
    if prefix == "chatcmpl":
        text, logprobs = choice["message"]["content"] or "", None
    decoder, shown, seen = codecs.getincrementaldecoder("utf-8")("replace"), 0, 0
    for place, number in enumerate(produced):
        size, last = number >> 24, place == len(produced) - 1
        piece = (number & 0xFFFFFF).to_bytes(size, "big") if 1 <= size <= 3 else decode([number]).encode()
        seen += len(decoder.decode(piece, last))
        end = len(text) if last else min(seen, len(text))
        delta: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": choice["finish_reason"] if last else None}
        delta |= {"delta": {"content": text[shown:end]}} if prefix == "chatcmpl" else {"text": text[shown:end]}
        if logprobs:
            delta["logprobs"] = {name: column[place : place + 1] for name, column in logprobs.items()}
        if choice.get("token_ids") is not None:
            delta |= {"token_ids": [number]}
            delta |= {} if prefix == "chatcmpl" else {"prompt_token_ids": None if place else choice["prompt_token_ids"]}
        made.append({**delta, "stop_reason": None})
        shown = end
    return made


# -- the server -------------------------------------------------------------------------------------------------------


class RefusedError(Exception):
    def __init__(self, status: int, message: str, kind: str = "BadRequestError") -> None:
        super().__init__(message)
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": None, "code": status}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    model: Model
    fault, fault_after, by_tokens = "", 0, False
    can_sleep = asleep = False

    def do_GET(self) -> None:
        path = urllib.parse.urlsplit(self.path).path
        model = self.model
        if self.kept_out(path):
            return
        if path in ("/health", "/ping"):
            self.reply(200, b"")
        elif path == "/is_sleeping":
            fault = self.fault == "sleep" and self.model.completions > self.fault_after
            self.reply(200, {"is_sleeping": self.asleep or fault})
        elif path == "/version":
            self.reply(200, {"version": VERSION})
        elif path == "/v1/models":
            name = "another-model" if self.fault == "wrong-model" else model.name
            card = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "vllm", "root": model.path}
            self.reply(200, {"object": "list", "data": [{**card, "parent": None, "max_model_len": model.max_model_len}]})
        elif path == "/metrics":
            labels = f'{{engine="0",model_name="{model.name}"}}'
            counters = {
                "prefix_cache_queries_total": model.prompt_tokens,
                "prefix_cache_hits_total": 0,
                "prompt_tokens_total": model.prompt_tokens,
                "generation_tokens_total": model.generated_tokens,
                "request_success_total": model.finished,
                "num_requests_running": 0,
            }
            page = "".join(f"vllm:{name}{labels} {float(value)}\n" for name, value in counters.items())
            self.reply(200, page.encode(), "text/plain; version=0.0.4; charset=utf-8")
        else:
            self.reply(404, {"detail": "Not Found"})

    def do_POST(self) -> None:
        path = urllib.parse.urlsplit(self.path).path
        payload = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.kept_out(path):
            return
        try:
            body = json.loads(payload) if payload else {}
            routes: dict[str, Callable[[dict[str, Any]], None]] = {
                "/tokenize": self.tokenize,
                "/detokenize": self.detokenize,
                "/v1/completions": self.completions,
                "/v1/chat/completions": self.chat,
                "/reset_prefix_cache": self.reset,
                **({"/sleep": self.sleep, "/wake_up": self.sleep} if self.can_sleep else {}),
            }
            if path not in routes:
                raise RefusedError(404, "Not Found", "NotFoundError")
            if self.asleep and path.startswith("/v1/"):
                time.sleep(3600)  # an engine asleep answers nothing
            if path != "/reset_prefix_cache" and body.get("model", self.model.name) != self.model.name:
                raise RefusedError(404, f"The model `{body['model']}` does not exist.", "NotFoundError")
            routes[path](body)
        except RefusedError as refused:
            self.reply(refused.status, refused.body)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.reply(400, RefusedError(400, f"{type(error).__name__}: {error}").body)

    def kept_out(self, path: str) -> bool:
        key = os.environ.get("VLLM_API_KEY")
        scheme, _, given = self.headers.get("Authorization", "").partition(" ")
        if not key or not path.startswith(GUARDED) or (scheme.lower(), given) == ("bearer", key):
            return False
        self.reply(401, {"error": "Unauthorized"})
        return True

    def sleep(self, _body: dict[str, Any]) -> None:
        type(self).asleep = self.path.startswith("/sleep")
        self.reply(200, b"")

    def reset(self, _body: dict[str, Any]) -> None:
        self.reply(200, b"")

    def tokenize(self, body: dict[str, Any]) -> None:
        chat = "messages" in body
        ids = encode(templated(body, body.get("add_generation_prompt", True)) if chat else body["prompt"])
        self.reply(200, {"count": len(ids), "max_model_len": self.model.max_model_len, "tokens": ids, "token_strs": None})

    def detokenize(self, body: dict[str, Any]) -> None:
        self.reply(200, {"prompt": decode(body["tokens"], special=True)})

    def completions(self, body: dict[str, Any]) -> None:
        if self.misbehaved():
            return
        time.sleep(DELAY_S)
        prompt = body["prompt"]
        many = isinstance(prompt, list) and prompt and isinstance(prompt[0], list | str)
        prompts = [encode(one) if isinstance(one, str) else one for one in (prompt if many else [prompt])]
        choices = []
        for index, ids in enumerate(prompts):
            made = self.model.complete(self.checked(ids, body), body)
            shown = {"token_ids": made["token_ids"], "prompt_token_ids": ids} if body.get("return_token_ids") else {}
            shown = shown or {"token_ids": None, "prompt_token_ids": None}
            choice = {
                "index": index,
                "text": made["text"],
                "logprobs": made["logprobs"],
                "finish_reason": made["finish_reason"],
            }
            prompt_logprobs = self.model.prompt_logprobs(ids, body)
            choices.append(
                {**choice, "stop_reason": None, **shown, "prompt_logprobs": prompt_logprobs, "_made": made["token_ids"]}
            )
        self.send("cmpl", "text_completion", prompts, choices, body)

    def chat(self, body: dict[str, Any]) -> None:
        if self.misbehaved():
            return
        ids = self.checked(encode(templated(body, True)), body)
        asked = {**body, "logprobs": body.get("top_logprobs", 0) if body.get("logprobs") else None}
        made = self.model.complete(ids, asked)
        message = message_of(made["text"], body, self.model.options)
        finish = "tool_calls" if message["tool_calls"] and made["finish_reason"] == "stop" else made["finish_reason"]
        choice = {"index": 0, "message": message, "logprobs": chat_logprobs(made["logprobs"]), "finish_reason": finish}
        shown = bool(body.get("return_token_ids"))
        choice |= {"stop_reason": None, "token_ids": made["token_ids"] if shown else None, "_made": made["token_ids"]}
        self.send("chatcmpl", "chat.completion", [ids], [choice], body, prompt_token_ids=ids if shown else None)

    def checked(self, ids: list[int], body: dict[str, Any]) -> list[int]:
        asked, most = body.get("max_tokens") or 16, self.model.max_model_len
        if not ids or any(type(number) is not int for number in ids):
            raise RefusedError(400, "Either prompt or prompt_embeds must be provided and non-empty.")
        if len(ids) + asked > most:
            message = f"This model's maximum context length is {most} tokens. However, you requested {asked} output tokens and "
            raise RefusedError(400, message + f"your prompt contains at least {len(ids)} input tokens.")
        return ids

    def send(
        self,
        prefix: str,
        kind: str,
        prompts: list[list[int]],
        choices: list[dict[str, Any]],
        body: dict[str, Any],
        **more: Any,
    ) -> None:
        made = [choice.pop("_made") for choice in choices]
        sent, produced = sum(map(len, prompts)), sum(map(len, made))
        with self.model.lock:
            self.model.prompt_tokens += sent
            self.model.finished += len(prompts)
            self.model.generated_tokens += produced
        usage = {
            "prompt_tokens": sent,
            "total_tokens": sent + produced,
            "completion_tokens": produced,
            "prompt_tokens_details": None,
        }
        head = {"id": f"{prefix}-{os.urandom(8).hex()}", "object": kind, "created": int(time.time()), "model": self.model.name}
        half = self.half_said()
        if not body.get("stream"):
            time.sleep(TOKEN_S * produced)
            whole = json.dumps(
                {**head, **more, "choices": choices, "usage": usage, "system_fingerprint": f"vllm-{VERSION}-fake"}
            )
            if half == "stream-error":
                self.reply(200, RefusedError(500, "EngineCore encountered an issue.", "InternalServerError").body)
            elif half == "stream-cut":
                self.reply(200, whole.encode(), half=True)
            else:
                self.reply(200, whole.encode())
            return
        events = [
            f"data: {json.dumps({**head, 'choices': [choice]})}\n\n".encode() for choice in deltas(choices[0], made[0], prefix)
        ]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        begun = time.monotonic()
        for place, data in enumerate(events[: len(events) // 2] if half else events):
            time.sleep(max(0.0, begun + place * TOKEN_S - time.monotonic()))
            self.chunk(data)
        if half == "stream-cut":
            self.cut()
            return
        if half == "stream-error":
            self.event(RefusedError(500, "EngineCore encountered an issue.", "InternalServerError").body)
        elif (body.get("stream_options") or {}).get("include_usage"):
            self.event({**head, "choices": [], "usage": usage})
        self.event("[DONE]")
        self.wfile.write(b"0\r\n\r\n")

    def half_said(self) -> str:
        """The fault, when it shall come in the middle of this answer."""
        with self.model.lock:
            return self.fault if self.fault.startswith("stream-") and self.model.completions > self.fault_after else ""

    def cut(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def event(self, value: Any) -> None:
        self.chunk(f"data: {value if isinstance(value, str) else json.dumps(value)}\n\n".encode())

    def chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def misbehaved(self) -> bool:
        with self.model.lock:
            self.model.completions += 1
            count = self.model.generated_tokens + 1 if self.by_tokens else self.model.completions
            due = count > self.fault_after
        if not due:
            return False
        if self.fault == "die":
            fail_loudly("RuntimeError: CUDA error: an illegal memory access was encountered")
            os._exit(1)
        if self.fault in ("hang", "sleep"):
            time.sleep(3600)
        if self.fault == "http-500":
            self.reply(500, RefusedError(500, "EngineCore encountered an issue.", "InternalServerError").body)
        elif self.fault == "garbage":
            self.reply(200, b"\x00\xff<html>not json")
        return self.fault in ("http-500", "garbage")

    def reply(self, status: int, value: Any, kind: str = "application/json", *, half: bool = False) -> None:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if half else data)
        if half:
            self.cut()

    def log_message(self, _format: str, *arguments: Any) -> None:
        print(f'INFO:     {self.client_address[0]}:{self.client_address[1]} - "{arguments[0]}" {arguments[1]}', flush=True)


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, *_arguments: Any) -> None:
        pass


def say(writer: str, text: str, level: str = "INFO", place: str = "fake.py:1") -> None:
    print(f"({writer} pid={os.getpid()}) {level} {time.strftime('%m-%d %H:%M:%S')} [{place}] {text}", flush=True)


def fail_loudly(exception: str) -> None:
    """Print a failure as vLLM does: the cause in the worker's traceback, then the echo of it in the API server's."""
    say("EngineCore", "EngineCore failed to start.", "ERROR", "core.py:1231")
    for line in (
        "Traceback (most recent call last):",
        '  File "core.py", line 1200, in run_engine_core',
        "    raise",
        exception,
    ):
        say("EngineCore", line, "ERROR", "core.py:1231")
    for line in (
        "Traceback (most recent call last):",
        '  File "utils.py", line 1272, in wait_for_engine_startup',
        "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
    ):
        print(f"(APIServer pid={os.getpid()}) {line}", flush=True)


def serve(path: str, options: dict[str, str]) -> int:
    extra = json.loads(options.get("additional-config", "{}"))
    fault = extra.get("fault", "") or os.environ.get("FAKE_VLLM_FAULT", "")
    match = re.fullmatch(rf"({FAULTS_LATER})(?:-after-(\d+)(-tokens)?)?", fault)
    Handler.fault, Handler.fault_after = (match[1], int(match[2] or 0)) if match else (fault, 0)
    Handler.by_tokens = bool(match and match[3])
    Handler.model = model = Model(path, options, fault)
    Handler.can_sleep = "enable-sleep-mode" in options and os.environ.get("VLLM_SERVER_DEV_MODE") == "1"
    quantization, kv = options.get("quantization"), options.get("kv-cache-dtype", "auto")
    port = int(options.get("port", "8000"))
    reached(fault, "spawn")
    asked: dict[str, object] = {"port": port, "model": path, "max_model_len": model.max_model_len}
    asked |= {name.replace("-", "_"): options[name] for name in ("quantization", "kv-cache-dtype") if name in options}
    say("APIServer", f"   █▄█▀ █     █     █     █  version {VERSION}", place="api_utils.py:347")
    # A verdict on a rehearsal must not read like one on a model: the log says what served, and the scope repeats it.
    say("APIServer", "servegate fake-engine: a rehearsal, no model is served")
    say("APIServer", f"non-default args: {asked}", place="api_utils.py:286")
    say("APIServer", f"Using max model len {model.max_model_len}", place="model.py:2152")
    say("EngineCore", f"Initializing a V1 LLM engine (v{VERSION}) with config: model={path!r}, dtype=torch.bfloat16, "
                      f"max_seq_len={model.max_model_len}, quantization={quantization}, enforce_eager=True, "
                      f"kv_cache_dtype={kv}, device_config=cpu, seed=0", place="core.py:133")  # fmt: skip
    if fault == "die-at-start":
        fail_loudly("ValueError: Free memory on device cuda:0 (8.41/139.8 GiB) on startup is less than desired GPU memory")
        return 1
    if fault == "never-ready":
        time.sleep(3600)
    reached(fault, "load")
    if fault == "ignore-sigterm-and-fork":
        stubborn_children()
    if quantization:
        say("Worker", "Selected ChannelWiseTorchFP8ScaledMMLinearKernel for Fp8PtpcOnlineLinearMethod", place="__init__.py:797")
        say(
            "Worker",
            "Quantizing 120 layers of types: mlp.down_proj: 30 (from linear: fp8_per_channel_static)",
            place="base_loader.py:151",
        )
    say("Worker", "Loading weights took 0.01 seconds", place="default_loader.py:501")
    if fault.endswith("-at-compile"):
        say("Worker", "Warming up model for the compilation...", place="cpu_model_runner.py:85")
        reached(fault, "compile")
    say("Worker", "Explicitly set (2.0/12.46) GiB for KV cache on node 0.", place="cpu_worker.py:260")
    tokens = 186_368 if kv.startswith("fp8") else 93_184
    say("EngineCore", f"CPU KV cache size: {tokens:,} tokens, Maximum concurrency: 45.50x", place="kv_cache_utils.py:2327")
    reached(fault, "warm_up")
    say("EngineCore", "init engine (profile, create kv cache, warmup model) took 0.01 s", place="core.py:402")
    try:
        server = Server((options.get("host", "127.0.0.1"), port), Handler)
    except OSError as error:
        print(
            f"(APIServer pid={os.getpid()}) Traceback (most recent call last):\nOSError: {error}",
            flush=True,
        )
        return 1
    say("APIServer", f"Starting vLLM server on http://127.0.0.1:{port}", place="entry.py:140")
    reached(fault, "ready")
    if fault != "ignore-sigterm-and-fork":
        signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print("INFO:     Application startup complete.", flush=True)
    server.serve_forever(poll_interval=0.02)
    say("APIServer", "[shutdown] API server: shutting down FastAPI HTTP server", place="launcher.py:304")
    return 0


def reached(fault: str, phase: str) -> None:
    """Die or hang in a phase of the start, if that is the fault."""
    if fault == f"die-at-{phase}":
        fail_loudly(f"RuntimeError: rehearsed: the engine dies while it is in phase {phase}")
        os._exit(1)
    if fault == f"hang-at-{phase}":
        time.sleep(3600)


def stubborn_children() -> None:
    """Ignore SIGTERM and start children that do too: in our group, in a session of their own, and there without our tag."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    untagged = {name: value for name, value in os.environ.items() if name != "SERVEGATE_ARM"}
    made = [
        subprocess.Popen(["sleep", "3600"], start_new_session=session, env=environment)
        for session, environment in ((False, None), (True, None), (True, untagged))
    ]
    if "FAKE_VLLM_PIDS" in os.environ:
        with Path(os.environ["FAKE_VLLM_PIDS"]).open("a") as file:
            file.write("".join(f"{process.pid}\n" for process in made) + f"{os.getpid()}\n")


# -- `bench serve`: really sends the load and times it -----------------------------------------------------------------


def bench(options: dict[str, str]) -> int:
    base = urllib.parse.urlsplit(options["base-url"])
    count, inputs, outputs = (int(options[name]) for name in ("num-prompts", "random-input-len", "random-output-len"))
    in_flight = int(options.get("max-concurrency", count))
    extra = json.loads(options.get("extra-body", "{}"))
    key = os.environ.get("OPENAI_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    generator = random.Random(int(options.get("seed", "0")))
    prompts = [[generator.randrange(100, 1000) for _ in range(inputs)] for _ in range(count)]

    def one(prompt: list[int]) -> dict[str, Any]:
        body = {"model": options["model"], "prompt": prompt, "max_tokens": outputs, "ignore_eos": "ignore-eos" in options,
                "stream": True, "stream_options": {"include_usage": True}, **extra}  # fmt: skip
        begun, times, tokens = time.perf_counter(), [], 0
        try:
            connection = http.client.HTTPConnection(base.hostname or "127.0.0.1", base.port, timeout=60)
            connection.request("POST", options.get("endpoint", "/v1/completions"), json.dumps(body), headers)
            reply = connection.getresponse()
            if reply.status != 200:
                return {"error": f"HTTP {reply.status}: {reply.read(300)!r}", "begun": begun}
            for line in reply:
                if line.startswith(b"data: {"):
                    event = json.loads(line[6:])
                    times += [time.perf_counter()] if event.get("choices") else []
                    tokens = (event.get("usage") or {}).get("completion_tokens", tokens)
            connection.close()
        except (OSError, http.client.HTTPException, ValueError) as error:
            return {"error": repr(error), "begun": begun}
        return {"error": "" if tokens else "no tokens", "begun": begun, "times": times, "tokens": tokens}

    started = time.perf_counter()
    with ThreadPoolExecutor(in_flight) as pool:
        results = list(pool.map(one, prompts))
    duration = time.perf_counter() - started
    good = [result for result in results if not result["error"]]
    ttfts = [result["times"][0] - result["begun"] for result in good]
    itls = [[after - before for before, after in zip(r["times"], r["times"][1:], strict=False)] for r in good]
    e2els = [result["times"][-1] - result["begun"] for result in good]
    tpots = [(e2el - ttft) / (r["tokens"] - 1) for e2el, ttft, r in zip(e2els, ttfts, good, strict=True) if r["tokens"] > 1]
    produced = sum(result["tokens"] for result in good)
    document: dict[str, Any] = {
        "date": time.strftime("%Y%m%d-%H%M%S"), "endpoint_type": "openai", "backend": "openai", "label": None,
        "model_id": options["model"], "tokenizer_id": options.get("tokenizer"), "num_prompts": count, "request_rate": "inf",
        "burstiness": 1.0, "max_concurrency": in_flight, "duration": duration, "completed": len(good),
        "failed": count - len(good), "total_input_tokens": inputs * len(good), "total_output_tokens": produced,
        "request_throughput": len(good) / duration, "request_goodput": None, "output_throughput": produced / duration,
        "total_token_throughput": (produced + inputs * len(good)) / duration,
    }  # fmt: skip
    if "save-detailed" in options:
        document |= {
            "input_lens": [inputs] * count, "output_lens": [result.get("tokens", 0) for result in results],
            "ttfts": [r["times"][0] - r["begun"] if not r["error"] else 0.0 for r in results],
            "itls": [[b - a for a, b in itertools.pairwise(r.get("times", []))] for r in results],
            "latencies": [r["times"][-1] - r["begun"] if not r["error"] else 0.0 for r in results],
            "start_times": [result["begun"] for result in results], "generated_texts": [""] * count,
            "errors": [result["error"] for result in results],
        }  # fmt: skip
    wanted = [float(each) for each in options.get("metric-percentiles", "99").split(",")]
    flat = [value for each in itls for value in each]
    for metric, values in (("ttft", ttfts), ("tpot", tpots), ("itl", flat), ("e2el", e2els)):
        document |= statistics_of(metric, [value * 1000 for value in values], wanted)
    text = json.dumps(document)
    if "save-result" in options:
        (Path(options.get("result-dir", ".")) / options["result-filename"]).write_text(text)
    print(f"============ Serving Benchmark Result ============\nSuccessful requests: {len(good)}")
    return 0


def statistics_of(metric: str, values: list[float], percentiles: list[float]) -> dict[str, float]:
    ranked = sorted(values) or [0.0]
    mean = sum(ranked) / len(ranked)

    def percentile(p: float) -> float:
        place = (len(ranked) - 1) * p / 100
        low = int(place)
        return ranked[low] + (ranked[min(low + 1, len(ranked) - 1)] - ranked[low]) * (place - low)

    found = {f"mean_{metric}_ms": mean, f"median_{metric}_ms": percentile(50)}
    found[f"std_{metric}_ms"] = (sum((value - mean) ** 2 for value in ranked) / len(ranked)) ** 0.5
    return found | {f"p{p:g}_{metric}_ms": percentile(p) for p in percentiles}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
