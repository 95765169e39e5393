"""Fetching a stored run, and accepting by comment: real PyGithub against a small server on loopback."""

from __future__ import annotations

import io
import json
import stat
import zipfile
from pathlib import Path
from typing import Any

import pytest

from servegate.cli import _code
from servegate.errors import UsageError
from servegate.publish.acceptances import Comments
from servegate.publish.commands import Accept
from servegate.publish.fetching import download, unpack
from tests.fakes.github import REPOSITORY
from tests.integration.test_publish import HEAD, Scripted

OLD = "9" * 40
ROOT = f"/api/v3/repos/{REPOSITORY}"


def archive(files: dict[str, bytes], modes: dict[str, int] | None = None) -> io.BytesIO:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (modes or {}).get(name, 0o100644) << 16
            packed.writestr(info, content)
    stream.seek(0)
    return stream


def test_a_run_is_unpacked_whole(tmp_path: Path) -> None:
    unpack(archive({"run.json": b"{}", "arms/baseline/server.log": b"x" * 3_000_000}), tmp_path / "a/run")
    assert (tmp_path / "a/run/arms/baseline/server.log").stat().st_size == 3_000_000
    with pytest.raises(UsageError, match="is there already"):
        unpack(archive({"run.json": b"{}"}), tmp_path / "a/run")


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "a\\..\\evil", "C:evil"])
def test_a_path_that_leads_out_is_refused_and_nothing_is_left(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no plain file inside"):
        unpack(archive({"run.json": b"{}", name: b"x"}), tmp_path / "in/run")
    assert list((tmp_path / "in").iterdir()) == []


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_pipes_are_refused(tmp_path: Path, kind: int) -> None:
    with pytest.raises(UsageError, match="no plain file inside"):
        unpack(archive({"x": b"/etc/passwd"}, {"x": kind | 0o777}), tmp_path / "run")


def test_a_bomb_and_a_heap_of_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("servegate.publish.fetching.MOST_BYTES", 1 << 20)
    monkeypatch.setattr("servegate.publish.fetching.MOST_FILES", 3)
    with pytest.raises(UsageError, match="unpacks to more"):
        unpack(archive({"x": b"\0" * (2 << 20)}), tmp_path / "run")
    with pytest.raises(UsageError, match="more than 3 files"):
        unpack(archive({str(n): b"" for n in range(4)}), tmp_path / "run")
    with pytest.raises(UsageError, match="no readable archive"):
        unpack(io.BytesIO(b"not a zip"), tmp_path / "run")


def artifact(url: str, number: int, sha: str, **changes: Any) -> dict[str, Any]:
    run = {"id": number * 10, "head_sha": sha, "head_branch": "feat/x"}
    plain = {"id": number, "name": "servegate-run", "expired": False, "workflow_run": run}
    return {**plain, "archive_download_url": f"{url}/repos/{REPOSITORY}/actions/artifacts/{number}/zip", **changes}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Scripted({}) as scripted:
        pull = {"number": 1, "head": {"sha": HEAD, "ref": "feat/x"}, "url": f"{scripted.url}/repos/{REPOSITORY}/pulls/1"}
        scripted.answers = {
            ("GET", f"{ROOT}/pulls/1"): [(200, pull)],
            ("GET", f"{ROOT}/pulls/1/commits"): [(200, [{"sha": OLD}, {"sha": HEAD}])],
        }
        for name, value in {
            "API_URL": scripted.url,
            "TOKEN": "ghs_canary0123456789",
            "REPOSITORY": REPOSITORY,
            "EVENT_NAME": "issue_comment",
            "RUN_ID": "5",
        }.items():
            monkeypatch.setenv(f"GITHUB_{name}", value)
        yield scripted


def listing(scripted: Any, *artifacts: dict[str, Any]) -> None:
    scripted.answers["GET", f"{ROOT}/actions/artifacts"] = [(200, {"total_count": len(artifacts), "artifacts": artifacts})]


def test_the_heads_artifact_comes_before_a_newer_one_of_an_old_commit(served: Any, tmp_path: Path, capsys: Any) -> None:
    url = served.url
    listing(
        served,
        artifact(url, 3, HEAD),
        artifact(url, 9, OLD),
        artifact(url, 11, "8" * 40),
        artifact(url, 12, HEAD, expired=True),
    )
    storage = f"{url.removesuffix('/api/v3')}/storage"
    served.answers["GET", f"{ROOT}/actions/artifacts/3/zip"] = [(302, {"headers": {"location": storage}})]
    served.answers["GET", "/storage"] = [(200, {"not": "a zip"})]
    assert _code(["fetch", "--pr", "1", "--output", str(tmp_path / "run")]) == 2
    assert "no readable archive" in capsys.readouterr().err
    asked = {path: authorization for _method, path, authorization in served.asked}
    assert "canary" in str(asked[f"{ROOT}/actions/artifacts/3/zip"])
    assert asked["/storage"] is None  # the token stays with the API


def test_nothing_of_this_pull_request_is_an_error_in_words(served: Any, capsys: Any) -> None:
    listing(served, artifact(served.url, 11, "8" * 40))
    assert _code(["fetch", "--pr", "1"]) == 2
    assert "no artifact 'servegate-run' of pull request 1" in capsys.readouterr().err


def test_a_redirect_to_no_https_address_is_refused(served: Any) -> None:
    from servegate.errors import PublishError

    served.answers["GET", "/api/v3/zip"] = [(302, {"headers": {"location": "file:///etc/passwd"}})]
    with pytest.raises(PublishError, match="no https address"):
        download(f"{served.url}/zip", "t", io.BytesIO())


# -- /servegate accept ----------------------------------------------------------------------------------------------


def comment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, login: str = "dev") -> None:
    event = {
        "action": "created",
        "issue": {"number": 1, "pull_request": {}},
        "comment": {"body": body, "user": {"login": login}, "author_association": "OWNER"},
    }
    (tmp_path / "event.json").write_text(json.dumps(event))
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))


@pytest.mark.parametrize(("permission", "may"), [("admin", True), ("write", True), ("read", False), ("none", False)])
def test_only_somebody_with_write_access_accepts(
    served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, permission: str, may: bool
) -> None:
    import os

    comment(tmp_path, monkeypatch, "/servegate accept p1 fine")
    served.answers["GET", f"{ROOT}/collaborators/dev/permission"] = [(200, {"permission": permission})]
    if may:
        assert Comments(os.environ).writer() == Accept(1, "dev", "p1", "fine")
    else:
        with pytest.raises(UsageError, match="may not accept"):
            Comments(os.environ).writer()


def test_somebody_whom_github_does_not_know_any_more_may_not(
    served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    comment(tmp_path, monkeypatch, "/servegate accept p1 fine")
    with pytest.raises(UsageError, match="their permission here is 'none'"):
        Comments(os.environ).writer()
