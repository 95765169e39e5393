import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from servegate.engines.readiness import ask


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", "/json")
            self.end_headers()
            return
        body = {"/json": b'{"a": 1}', "/html": b"<html>\x1b[31m", "/500": b"no\n", "/deep": b"[" * 100_000}.get(self.path, b"")
        self.send_response(500 if self.path == "/500" else 200)
        self.end_headers()
        if self.path == "/flood":
            for _ in range(10):
                self.wfile.write(b"x" * (1 << 20))
        if self.path == "/drip":
            for _ in range(100):
                self.wfile.write(b" ")
                time.sleep(0.02)
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.rfile.read(int(self.headers["Content-Length"])))

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def base():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_answers(base):
    assert ask(f"{base}/json", 5).value == {"a": 1}
    assert ask(f"{base}/x", 5, {"b": "\ud800"}).value == {"b": "\ud800"}


@pytest.mark.parametrize(
    ("path", "status", "problem"),
    [
        ("/500", 500, "HTTP 500: no "),
        ("/html", 200, "no JSON: <html> [31m"),
        ("/deep", 200, "no JSON"),
        ("/redirect", 302, "HTTP 302"),
    ],
)
def test_other_answers_are_told(base, path, status, problem):
    answer = ask(base + path, 5)
    assert (answer.status, answer.value) == (status, None)
    assert answer.problem.startswith(problem)


def test_a_flood_and_a_drip_are_cut(base):
    assert "more than" in ask(f"{base}/flood", 5).problem
    started = time.monotonic()
    assert ask(f"{base}/drip", 0.2).timed_out
    assert time.monotonic() - started < 1.5


def test_nobody_and_silence():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        assert ask(url, 1).refused
        listener.listen()
        assert ask(url, 0.2).timed_out


def test_a_proxy_of_the_environment_is_not_used(base, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert ask(f"{base}/json", 5).value == {"a": 1}
