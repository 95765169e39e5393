"""Fetching a stored run, and accepting by comment: real PyGithub against a small server on loopback."""

from __future__ import annotations

import io
import json
import os
import stat
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from servegate.cli import _code
from servegate.errors import ServegateError, UsageError
from servegate.publish.acceptances import Comments, Standing, Stored
from servegate.publish.commands import Accept
from servegate.publish.event import Run
from servegate.publish.fetching import download, newest, unpack
from servegate.publish.marks import Shown
from servegate.publish.pull_request import connect
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
    run = {"id": number * 10, "head_sha": sha, "head_branch": "feat/x", "head_repository_id": 7}
    plain = {"id": number, "name": "servegate-run", "expired": False, "workflow_run": run}
    return {**plain, "archive_download_url": f"{url}/repos/{REPOSITORY}/actions/artifacts/{number}/zip", **changes}


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Scripted({}) as scripted:
        root = f"{scripted.url}/repos/{REPOSITORY}"
        head = {"sha": HEAD, "ref": "feat/x", "repo": {"id": 7, "full_name": REPOSITORY}}
        pull = {"number": 1, "head": head, "url": f"{root}/pulls/1", "issue_url": f"{root}/issues/1"}
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


def test_of_several_runs_of_the_head_the_newest_run_counts_and_not_the_newest_upload(served: Any) -> None:
    """An older run that was started again uploads last, and its comment gives way to the newer run's: so does its artifact."""
    url = served.url
    again = artifact(url, 9, HEAD)
    again["workflow_run"]["id"] = 20
    listing(served, artifact(url, 3, HEAD), artifact(url, 4, HEAD), again)
    found = newest(connect(served.url, "t", pause_s=0), REPOSITORY, 1, "servegate-run")
    assert (found.run_id, found.url.rpartition("artifacts/")[2], found.current) == (40, "4/zip", True)


@pytest.mark.parametrize("repository", [8, None])
def test_an_artifact_of_another_fork_with_the_same_commit_is_not_this_pull_requests(
    served: Any, repository: int | None
) -> None:
    other = artifact(served.url, 11, HEAD)
    other["workflow_run"]["head_repository_id"] = repository
    listing(served, other)
    with pytest.raises(UsageError, match="no artifact"):
        newest(connect(served.url, "t", pause_s=0), REPOSITORY, 1, "servegate-run")


def test_artifacts_that_have_all_expired_are_an_error_in_words(served: Any) -> None:
    listing(served, artifact(served.url, 3, HEAD, expired=True), artifact(served.url, 4, HEAD, workflow_run=None))
    with pytest.raises(UsageError, match="no artifact") as caught:
        newest(connect(served.url, "t", pause_s=0), REPOSITORY, 1, "servegate-run")
    assert "expired" in caught.value.why


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("names", "twice"),
    [
        (("run.json", "run.json"), "run.json"),
        (("a/x", "a//x"), "a/x"),
        (("./x", "x"), "x"),
        (("arms", "arms/baseline/engine.json"), "arms"),
        (("arms/baseline/engine.json", "arms"), "arms"),
    ],
)
def test_two_files_in_one_place_are_refused(tmp_path: Path, names: tuple[str, str], twice: str) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        for number, name in enumerate(names):
            packed.writestr(name, f"{number}")
    with pytest.raises(UsageError, match=f"'{twice}' twice"):
        unpack(stream, tmp_path / "in/run")
    assert list((tmp_path / "in").iterdir()) == []


@pytest.mark.parametrize("name", [".", "./", "x" * 300, "\udcff"])
def test_a_name_that_no_file_has_is_one_clear_error(tmp_path: Path, name: str) -> None:
    stream = archive({"run.json": b"{}", "n" * len(name.encode("utf-8", "surrogateescape")): b"x"})
    raw = stream.getvalue().replace(
        b"n" * len(name.encode("utf-8", "surrogateescape")), name.encode("utf-8", "surrogateescape")
    )
    target = tmp_path / "in/run"
    if name == "./":
        unpack(io.BytesIO(raw), target)  # a folder, which brings nothing
        return
    try:
        unpack(io.BytesIO(raw), target)
    except ServegateError:
        assert list((tmp_path / "in").iterdir()) == []
    else:
        assert name == "\udcff", "what a zip says in its old code page is a name like any other"


def test_a_stream_that_is_damaged_or_packed_otherwise_is_one_clear_error(tmp_path: Path) -> None:
    content = bytearray(archive({"run.json": b"{}" * 5000}).getvalue())
    content[60:70] = b"\xff" * 10
    with pytest.raises(UsageError, match="no readable archive"):
        unpack(io.BytesIO(bytes(content)), tmp_path / "run")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_LZMA) as packed:
        packed.writestr("run.json", b"{}")
    with pytest.raises(UsageError, match="no plain file inside"):
        unpack(stream, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


# -- /servegate accept ----------------------------------------------------------------------------------------------


def comment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, login: str = "dev") -> None:
    event = {
        "action": "created",
        "issue": {"number": 1, "pull_request": {}},
        "comment": {"body": body, "user": {"login": login, "type": "User"}, "author_association": "OWNER"},
    }
    (tmp_path / "event.json").write_text(json.dumps(event))
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))


@pytest.mark.parametrize(("permission", "may"), [("admin", True), ("write", True), ("read", False), ("none", False)])
def test_only_somebody_with_write_access_accepts(
    served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, permission: str, may: bool
) -> None:
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
    comment(tmp_path, monkeypatch, "/servegate accept p1 fine")
    with pytest.raises(UsageError, match="their permission here is 'none'"):
        Comments(os.environ).writer()


EVIDENCE, OTHER = "e" * 64, "f" * 64
BOT = "github-actions[bot]"


def at(minute: int) -> str:
    return f"2026-11-20T10:{minute:02}:00Z"


def said(number: int, body: str, minute: int, login: str = "dev", **changes: Any) -> dict[str, Any]:
    return {
        "id": number, "body": body, "created_at": at(minute), "updated_at": at(minute), "performed_via_github_app": None,
        "user": {"login": login, "type": "User"}, **changes,
    }  # fmt: skip


def sticky(evidence: str | None, minute: int, head: str = HEAD, since: int | None = None, **changes: Any) -> dict[str, Any]:
    first = None if since is None else datetime.fromisoformat(at(since))
    shown = Shown("demo", head, Run(3, 1), evidence, first)
    return said(1, f"{shown.lines()}## REVIEW", 1, BOT, **{"updated_at": at(minute), **changes})


ACCEPT = "/servegate accept p1 fine"


def standing(served: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *talk: dict[str, Any], asked: int = 9) -> Standing:
    """What holds of a conversation, woken by the comment `asked`; `dev` may write, `eve` may read."""
    event = {"action": "created", "issue": {"number": 1, "pull_request": {}}}
    event |= {"comment": {"id": asked, "body": ACCEPT, "user": {"login": "dev", "type": "User"}}}
    (tmp_path / "event.json").write_text(json.dumps(event))
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))
    served.answers["GET", f"{ROOT}/issues/1/comments"] = [(200, list(talk))]
    served.answers["POST", "/api/graphql"] = [(200, {"data": {"viewer": {"login": BOT}}})]
    for login, permission in (("dev", "write"), ("eve", "read"), ("bob[bot]", "write")):
        served.answers["GET", f"{ROOT}/collaborators/{login}/permission"] = [(200, {"permission": permission})]
    comments = Comments(os.environ, lambda: connect(served.url, "t", pause_s=0))
    return comments.standing(Stored("demo", HEAD, EVIDENCE))


def test_what_was_shown_before_it_was_accepted_is_accepted_on_that_day(
    served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = (sticky(EVIDENCE, 5), said(8, "/servegate accept p2 too", 6), said(9, ACCEPT, 7))
    found = standing(served, monkeypatch, tmp_path, *talk)
    assert found.against is None
    assert [(each.asked.prompt, each.at.minute) for each in found.held] == [("p2", 6), ("p1", 7)]


def test_a_comment_that_was_drawn_again_from_the_same_evidence_keeps_the_time_since_when_it_shows_it(
    served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = standing(served, monkeypatch, tmp_path, sticky(EVIDENCE, 30, since=5), said(9, ACCEPT, 7))
    assert (found.against, len(found.held)) == (None, 1)


@pytest.mark.parametrize(
    ("talk", "against"),
    [
        ((sticky(EVIDENCE, 8), said(9, ACCEPT, 7)), "before this run was shown (2026-11-20 10:08:00 UTC)"),
        ((sticky(EVIDENCE, 7), said(9, ACCEPT, 7)), "before this run was shown"),
        ((sticky(EVIDENCE, 30, since=8), said(9, ACCEPT, 7)), "before this run was shown"),
        ((sticky(OTHER, 5), said(9, ACCEPT, 7)), "no comment of the gate demo shows the run"),
        ((sticky(None, 5), said(9, ACCEPT, 7)), "no comment of the gate demo shows the run"),
        ((said(9, ACCEPT, 7),), "no comment of the gate demo shows the run"),
        ((sticky(EVIDENCE, 5, user={"login": "eve", "type": "User"}), said(9, ACCEPT, 7)), "no comment of the gate demo"),
        ((sticky(EVIDENCE, 5), said(9, "/servegate accept p1@9999999 fine", 7)), "it names commit 9999999"),
        ((sticky(EVIDENCE, 5), said(9, ACCEPT, 7, updated_at=at(9))), "was edited or deleted"),
        ((sticky(EVIDENCE, 5),), "was edited or deleted"),
        ((sticky(EVIDENCE, 5), said(9, ACCEPT, 7, performed_via_github_app={"id": 1, "slug": "x"})), "an app wrote it"),
        ((sticky(EVIDENCE, 5), said(9, ACCEPT, 7, user={"login": "dev", "type": "Bot"})), "an app wrote it"),
        ((sticky(EVIDENCE, 5), said(9, ACCEPT, 7, "bob[bot]")), "an app wrote it"),
        ((sticky(EVIDENCE, 5), said(9, ACCEPT, 7, "eve")), "eve may not write here"),
    ],
)
def test_what_its_author_can_not_have_seen_or_may_not_accept_does_not_hold(
    served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, talk: tuple[dict[str, Any], ...], against: str
) -> None:
    found = standing(served, monkeypatch, tmp_path, *talk)
    assert found.held == ()
    assert found.against is not None
    assert against in found.against


def test_a_commit_that_is_named_is_held_against_the_measured_one(
    served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = (sticky(EVIDENCE, 5), said(9, f"/servegate accept p1@{HEAD[:7]} fine", 7))
    assert standing(served, monkeypatch, tmp_path, *talk).against is None


def test_a_commit_that_was_pushed_since_refuses_every_acceptance(
    served: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written on the commit that was measured, and a newer one came before the job did."""
    (_, pull), *_ = served.answers["GET", f"{ROOT}/pulls/1"]
    served.answers["GET", f"{ROOT}/pulls/1"] = [(200, {**pull, "head": {**pull["head"], "sha": "c" * 40}})]
    found = standing(served, monkeypatch, tmp_path, sticky(EVIDENCE, 5), said(9, ACCEPT, 7))
    assert found == Standing((), "commit cccccccccccc is newer than the measured aaaaaaaaaaaa")
