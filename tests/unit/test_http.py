"""The HTTP client against raw sockets: what it accepts, what it refuses, when it tries again, and how it is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from servegate.errors import Cancelled
from servegate.http import (
    Call,
    ConnectionFailedError,
    DeadlineError,
    HttpClient,
    InvalidReplyError,
    Reply,
    ReplyTooLargeError,
)

Handler = Callable[[socket.socket, int], None]


@contextlib.contextmanager
def serving(handler: Handler) -> Iterator[str]:
    """Run `handler(connection, number)` in a thread for every connection."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    threads: list[threading.Thread] = []
    connections: list[socket.socket] = []

    def handle(connection: socket.socket, number: int) -> None:
        with connection, contextlib.suppress(OSError):
            handler(connection, number)

    def accept() -> None:
        with contextlib.suppress(OSError):
            for number in range(100_000):
                connection, _ = listener.accept()
                connections.append(connection)
                threads.append(threading.Thread(target=handle, args=(connection, number), daemon=True))
                threads[-1].start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(5)


def read_request(connection: socket.socket) -> tuple[str, bytes] | None:
    """Return the request line and the body of the next request on a connection, or None at its end."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    length = next((int(line.split(":")[1]) for line in lines if line.lower().startswith("content-length")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return lines[0], body


def send(connection: socket.socket, body: bytes, status: str = "200 OK", headers: str = "") -> None:
    connection.sendall(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n{headers}\r\n".encode() + body)


def says(body: bytes, status: str = "200 OK", headers: str = "") -> Handler:
    def handler(connection: socket.socket, _: int) -> None:
        while read_request(connection):
            send(connection, body, status, headers)

    return handler


def test_posts_json_and_keeps_the_connection() -> None:
    seen: list[tuple[int, str, object]] = []

    def handler(connection: socket.socket, number: int) -> None:
        while request := read_request(connection):
            seen.append((number, request[0], json.loads(request[1])))
            send(connection, b'{"ok": true}')

    with serving(handler) as url, HttpClient(url + "/", total_s=5) as client:
        for value in (1, 2):
            reply = client.post("/v1/x", {"a": value, "text": "\ud800"})
            assert (reply.status, reply.json(), reply.retries) == (200, {"ok": True}, 0)
    assert seen == [(0, "POST /v1/x HTTP/1.1", {"a": value, "text": "\ud800"}) for value in (1, 2)]


def test_a_status_is_no_error_and_a_redirect_is_not_followed() -> None:
    with serving(says(b"moved", "302 Found", "location: /elsewhere\r\n")) as url, HttpClient(url, total_s=5) as client:
        reply = client.get("/")
    assert (reply.status, reply.text()) == (302, "moved")


def test_proxies_of_the_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with serving(says(b"direct")) as url, HttpClient(url, total_s=5) as client:
        assert client.get("/").text() == "direct"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"a": 1, "b": 2, "a": 3}', "the key 'a' is repeated"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": -Infinity}', "-Infinity is not JSON"),
        (b'{"a": 1e999}', "1e999 is out of range"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": ', "Expecting value"),
        (b"", "Expecting value"),
    ],
)
def test_lenient_json_is_refused(body: bytes, said: str) -> None:
    with pytest.raises(InvalidReplyError, match=said):
        Reply(200, body, 0.1).json()


def test_lone_surrogates_are_kept() -> None:
    assert Reply(200, b'"\\ud83d x"', 0.1).json() == "\ud83d x"


def test_an_excerpt_is_one_bounded_printable_line() -> None:
    assert Reply(500, b"\x1b[31ma\nb\xff" + b"x" * 10_000, 0.1).excerpt(12) == " [31ma b�xxx"


def test_a_reply_over_the_cap_is_not_read_to_its_end() -> None:
    sent = 0

    def handler(connection: socket.socket, _: int) -> None:
        nonlocal sent
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65536)
            sent += 65536

    refused = pytest.raises(ReplyTooLargeError, match="longer than 1048576 bytes")
    with serving(handler) as url, HttpClient(url, total_s=10, max_bytes=1 << 20) as client, refused:
        client.get("/")
    assert sent < 100 << 20


def test_pieces_of_an_answer_are_dated_as_they_come() -> None:
    pieces = [b"data: na\xc3", b"\xafve\n\n", b": keep-alive\n\n"]

    def handler(connection: socket.socket, _: int) -> None:
        read_request(connection)
        head = "HTTP/1.1 200 OK\r\ncontent-type: Text/Event-Stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
        connection.sendall(head.encode())
        for piece in pieces:
            connection.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            time.sleep(0.05)
        connection.sendall(b"0\r\n\r\n")

    with serving(handler) as url, HttpClient(url, total_s=5) as client:
        reply = client.post("/", {})
    assert reply.body == b"".join(pieces)
    assert reply.media_type == "text/event-stream"
    assert reply.arrivals[-1][0] == len(reply.body)
    assert [end for end, _ in reply.arrivals] == sorted({end for end, _ in reply.arrivals})
    assert [at for _, at in reply.arrivals] == sorted(at for _, at in reply.arrivals)
    assert reply.arrivals[-1][1] - reply.arrivals[0][1] > 0.05
    with serving(says(b"{}")) as url, HttpClient(url, total_s=5) as client:
        assert client.get("/").media_type == "", "none was named"


def test_a_stream_that_stops_coming_meets_the_deadline() -> None:
    def handler(connection: socket.socket, _: int) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
        time.sleep(5)

    with (
        serving(handler) as url,
        HttpClient(url, total_s=0.3) as client,
        pytest.raises(DeadlineError, match="no complete answer"),
    ):
        client.post("/", {})


def test_a_silent_server_meets_the_deadline() -> None:
    def handler(connection: socket.socket, _: int) -> None:
        while read_request(connection):
            pass

    started = time.monotonic()
    with serving(handler) as url, HttpClient(url, total_s=0.3) as client, pytest.raises(DeadlineError, match=r"within 0\.3 s"):
        client.post("/", {})
    assert time.monotonic() - started < 3


def test_a_silence_within_an_answer_meets_the_read_deadline() -> None:
    def handler(connection: socket.socket, _: int) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
        connection.recv(1)

    with serving(handler) as url, HttpClient(url, total_s=30, read_s=0.2) as client, pytest.raises(DeadlineError):
        client.get("/")


def test_a_connection_lost_before_any_byte_is_tried_again_and_counted() -> None:
    def handler(connection: socket.socket, number: int) -> None:
        read_request(connection)
        if number >= 2:
            send(connection, b"third time")

    with serving(handler) as url, HttpClient(url, total_s=5) as client:
        reply = client.post("/", {})
    assert (reply.text(), reply.retries) == ("third time", 2)


def test_an_answer_that_broke_off_is_not_asked_for_again() -> None:
    asked = []

    def handler(connection: socket.socket, _: int) -> None:
        asked.append(read_request(connection))
        connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")

    refused = pytest.raises(ConnectionFailedError, match="broke off")
    with serving(handler) as url, HttpClient(url, total_s=5) as client, refused:
        client.post("/", {})
    assert len(asked) == 1


def test_nobody_at_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with HttpClient(url, total_s=5) as client, pytest.raises(ConnectionFailedError, match=f"no answer from {url}/x"):
        client.get("/x")


def test_results_come_from_a_bounded_number_in_flight() -> None:
    in_flight = most = 0
    lock = threading.Lock()

    def handler(connection: socket.socket, _: int) -> None:
        nonlocal in_flight, most
        while request := read_request(connection):
            with lock:
                in_flight += 1
                most = max(most, in_flight)
            time.sleep(0.01)
            with lock:
                in_flight -= 1
            send(connection, request[1])

    with serving(handler) as url, HttpClient(url, total_s=5) as client:
        outcomes = [outcome for outcome in client.results((Call("/", {"i": i}) for i in range(60)), 7) if outcome]
    values = {index: reply.json() for index, reply in outcomes if isinstance(reply, Reply)}
    assert values == {i: {"i": i} for i in range(60)}
    assert 2 <= most <= 7


def test_failures_are_outcomes_and_waiting_ticks() -> None:
    def handler(connection: socket.socket, _: int) -> None:
        while read_request(connection):
            pass

    with serving(handler) as url, HttpClient(url, total_s=0.4) as client:
        outcomes = list(client.results([Call("/a"), Call("/b")], 2, tick_s=0.05))
    ends = [outcome for outcome in outcomes if outcome is not None]
    assert sorted(index for index, _ in ends) == [0, 1]
    assert all(isinstance(error, DeadlineError) for _, error in ends)
    assert outcomes.count(None) >= 3


def test_leaving_early_cancels_the_rest() -> None:
    asked = []

    def handler(connection: socket.socket, _: int) -> None:
        while request := read_request(connection):
            asked.append(request)
            time.sleep(0.02)
            send(connection, b"{}")

    with serving(handler) as url, HttpClient(url, total_s=5) as client:
        for outcome in client.results([Call("/", {}) for _ in range(200)], 2):
            if outcome is not None:
                break
        time.sleep(0.2)
    assert len(asked) < 20


def test_a_signal_reaches_the_waiting_caller_at_once() -> None:
    """Nothing may swallow a cancellation: not the loop, not a pending call."""

    def handler(connection: socket.socket, _: int) -> None:
        while read_request(connection):
            pass

    def cancel(number: int, _frame: object) -> None:
        raise Cancelled(number)

    before = signal.signal(signal.SIGUSR1, cancel)
    started = time.monotonic()
    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
    try:
        with serving(handler) as url, pytest.raises(Cancelled), HttpClient(url, total_s=60) as client:
            list(client.results([Call("/") for _ in range(8)], 4, tick_s=30))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert time.monotonic() - started < 5
    assert not [thread for thread in threading.enumerate() if thread.name == "servegate-http"]
