"""A corpus from the hub: fetched once from a server on loopback, kept, and one clear error where it is not to be had."""

from __future__ import annotations

import io
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from servegate.config.files import reader
from servegate.config.hub import from_hub
from servegate.errors import UsageError

TEXT = "\n = Robert Boulter = \n\n Robert Boulter is an English film , television and theatre actor .\n"
MEMBER = "wikitext-2-raw/wiki.test.raw"


def archive(member: str = MEMBER, content: bytes = TEXT.encode()) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as opened:
        opened.writestr(member, content)
    return made.getvalue()


class Hub(BaseHTTPRequestHandler):
    """Redirects once, as the hub does, and counts."""

    body = b""
    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if "/resolve/" in self.path:
            self.send_response(302)
            self.send_header("Location", "/blob")
            self.end_headers()
            return
        self.send_response(200 if self.body else 404)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_arguments: object) -> None:
        return


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[dict[str, str]]:
    Hub.body, Hub.asked = archive(), []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}/", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    server.shutdown()
    server.server_close()


def test_it_is_fetched_once_and_hashed_like_any_input(hub: dict[str, str], tmp_path: Path) -> None:
    hashes: dict[str, str] = {}
    read = reader(tmp_path, hashes, lambda name: from_hub(name, hub))
    assert read("hub:wikitext-2").decode() == TEXT
    assert len(hashes["hub:wikitext-2"]) == 64
    assert Hub.asked == ["/datasets/ggml-org/ci/resolve/main/wikitext-2-raw-v1.zip", "/blob"]
    assert from_hub("hub:wikitext-2", {**hub, "HF_HUB_OFFLINE": "1"}).decode() == TEXT  # kept
    assert len(Hub.asked) == 2


def test_offline_is_one_clear_error_that_says_how_to_do_without(hub: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="HF_HUB_OFFLINE forbids fetching it") as caught:
        from_hub("hub:wikitext-2", {**hub, "HF_HUB_OFFLINE": "1"})
    assert "a UTF-8 text of your own" in caught.value.advice
    with pytest.raises(UsageError, match=r"could not be fetched from http://127\.0\.0\.1:9/.*refused"):
        from_hub("hub:wikitext-2", {**hub, "HF_ENDPOINT": "http://127.0.0.1:9"})
    with pytest.raises(UsageError, match=r"must be an http\(s\) address"):
        from_hub("hub:wikitext-2", {**hub, "HF_ENDPOINT": "file:///etc"})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "Not Found"),
        (b"<html>", "not a zip"),
        (archive("other.txt"), "no item named"),
        (archive(MEMBER, b"\xff"), "utf-8"),
    ],
)
def test_what_is_not_the_archive_is_not_kept(hub: dict[str, str], body: bytes, said: str, tmp_path: Path) -> None:
    Hub.body = body
    with pytest.raises(UsageError, match=f"(?i){said}"):
        from_hub("hub:wikitext-2", hub)
    assert not (tmp_path / "cache").exists()


def test_another_name_lists_the_known_ones(hub: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="hub:wikitext-103 is not known") as caught:
        from_hub("hub:wikitext-103", hub)
    assert "hub:wikitext-2" in caught.value.advice
    assert Hub.asked == []


def test_a_cache_that_can_not_be_written_costs_nothing(hub: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file in the way")
    assert from_hub("hub:wikitext-2", hub).decode() == TEXT
