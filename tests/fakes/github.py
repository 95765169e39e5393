"""Starts the GitHub replica for a test and speaks to its control side; PyGithub reaches it as api.github.com over TLS.

`Replica` is one process with one repository (`acme/llm`), one pull request (1, from `feat/x`) and two people who may
comment: `bot`, whom the token under test belongs to, and `dev`.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
REPOSITORY = "acme/llm"
PULL_REQUEST = 1


class Replica:
    """A running replica. Use as a context manager."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.control, self.gateway = _free_port(), _free_port()
        self.tokens: dict[str, str] = {}
        self.storage_tokens: list[str | None] = []

    def __enter__(self) -> Replica:
        self.directory.mkdir(parents=True, exist_ok=True)
        environment = {key: value for key, value in os.environ.items() if "proxy" not in key.lower()}
        self.process = subprocess.Popen(
            [
                *(sys.executable, str(HERE / "github_replica.py"), "serve", "--host", "127.0.0.1", "--no-passthrough"),
                *("--port", str(self.control), "--gateway", str(self.gateway), "--ca-dir", str(self.directory)),
            ],
            stdout=(self.directory / "replica.log").open("wb"),
            stderr=subprocess.STDOUT,
            env={**environment, "REPLICA_ARTIFACTS": str(self.directory / "artifacts"), "REPLICA_STORAGE": self._storage()},
            start_new_session=True,
        )
        try:
            self._wait()
            seed = json.loads((HERE / "github_seed.json").read_text())
            seed["spec"]["agents"] = {name: {"as": name, "task": "t"} for name in ("bot", "dev")}
            made = self._ask("POST", "/envs", seed)
            self.tokens = {name: made["credentials"][name]["github_token"] for name in ("bot", "dev")}
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait(10)
        self.storage.shutdown()
        self.storage.server_close()

    def reset(self) -> None:
        """Back to the seed: no comment, no artifact, no fault."""
        shutil.rmtree(self.directory / "artifacts", ignore_errors=True)
        self._ask("POST", "/envs/gate/reset", {})
        self.faults()

    def faults(self, *faults: dict[str, Any]) -> None:
        """Inject faults, for example {"kind": "timeout_after_commit", "tool": "github.issues.createComment", "on_call": 1}."""
        self._ask("PUT", "/instances/gate-github/faults", list(faults))

    def comments(self) -> list[dict[str, Any]]:
        """Comments of the pull request as they are stored: id, user, body."""
        stored: list[dict[str, Any]] = self._repository()["comments"].get(str(PULL_REQUEST), [])
        return stored

    def check_runs(self) -> list[dict[str, Any]]:
        """Check runs as they are stored, in the order in which they were made."""
        return list(self._repository().get("check_runs", {}).values())

    def commits(self) -> tuple[str, str]:
        """Commit ids of the pull request's base and head."""
        repository = self._repository()
        return repository["pulls"][str(PULL_REQUEST)]["base_sha"], repository["branches"]["feat/x"]

    def comment_as(self, name: str, body: str) -> int:
        """Comment on the pull request as somebody; returns the comment's id."""
        return int(self._as(name, "POST", f"issues/{PULL_REQUEST}/comments", {"body": body})["id"])

    def edit_as(self, name: str, comment: int, body: str) -> None:
        """Change a comment as somebody."""
        self._as(name, "PATCH", f"issues/comments/{comment}", {"body": body})

    def permit(self, name: str, permission: str) -> None:
        """Say what somebody may do in the repository: pull, push, maintain, admin."""
        self._as("bot", "PUT", f"collaborators/{name}", {"permission": permission})

    def upload(self, number: int, head: str, content: bytes) -> None:
        """Store an archive as the artifact of a workflow run."""
        store = self.directory / "artifacts"
        store.mkdir(exist_ok=True)
        (store / f"{number}-{head}.zip").write_bytes(content)

    def wait(self, seconds: int) -> None:
        """Let the replica's own clock run on."""
        self._ask("POST", "/envs/gate/advance", {"seconds": seconds})

    def _storage(self) -> str:
        """Serve uploaded archives as GitHub's storage does: another server, whose address is its own permission."""
        outer = self

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.storage_tokens.append(self.headers.get("authorization"))
                super().do_GET()

            def log_message(self, *_: Any) -> None:
                """Be quiet."""

        self.storage = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(self.directory / "artifacts")))
        threading.Thread(target=self.storage.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.storage.server_address[1]}"

    def _as(self, name: str, method: str, path: str, body: Any) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.control}/gw/api.github.com/repos/{REPOSITORY}/{path}",
            data=json.dumps(body).encode(),
            method=method,
            headers={"authorization": f"Bearer {self.tokens[name]}", "content-type": "application/json"},
        )
        return _read(request)

    def network(self) -> dict[str, str]:
        """Environment through which a client reaches the replica as api.github.com."""
        proxy = f"http://127.0.0.1:{self.gateway}"
        return {
            "HTTPS_PROXY": proxy,
            "https_proxy": proxy,
            "NO_PROXY": "",
            "REQUESTS_CA_BUNDLE": str(self.directory / "myworld-ca.pem"),
        }

    def event(self) -> dict[str, Any]:
        """A pull_request event's payload, as far as anything of ours reads it."""
        base, head = self.commits()
        return pull_request_event(PULL_REQUEST, head, base)

    def _repository(self) -> dict[str, Any]:
        repository: dict[str, Any] = self._ask("GET", "/instances/gate-github/state", None)["state"]["repos"][REPOSITORY]
        return repository

    def _ask(self, method: str, path: str, body: Any) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.control}{path}", data=data, method=method, headers={"content-type": "application/json"}
        )
        return _read(request)

    def _wait(self) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if self.process.poll() is not None:
                break
            try:
                self._ask("GET", "/instances", None)
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise RuntimeError(f"the replica did not start: {(self.directory / 'replica.log').read_text()[-2000:]}")


def pull_request_event(number: int, head: str, base: str, head_repository: str | None = REPOSITORY) -> dict[str, Any]:
    """A pull_request payload; `head_repository` None is a fork that was deleted."""
    return {
        "action": "synchronize",
        "pull_request": {
            "number": number,
            "head": {"sha": head, "ref": "feat/x", "repo": head_repository and {"full_name": head_repository}},
            "base": {"sha": base, "ref": "main", "repo": {"full_name": REPOSITORY}},
        },
    }


def _read(request: urllib.request.Request) -> Any:
    # The control side is on loopback; a proxy of this machine's user must not be asked for it.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as response:
        content = response.read()
    return json.loads(content) if content else None


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
