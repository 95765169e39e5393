"""Fetches the newest run directory that a workflow uploaded for a pull request.

What comes back is an archive that somebody's workflow filled: it is unpacked file by file, regular files inside of the
target only, within caps. The token goes to the API alone; the storage that the API points to has its own signed address.
"""

from __future__ import annotations

import stat
import tempfile
import zipfile
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit

import requests
from github import Github

from servegate.artifacts import stored
from servegate.artifacts.intake import MOST_BYTES, MOST_FILES
from servegate.errors import PublishError, UsageError
from servegate.publish.workflow_commands import one_line

MOST_ARCHIVE_BYTES = 4 << 30
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What the upload's zip consists of; other methods unpack with more memory or not at all."""
UNREADABLE = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, ValueError)
_TIMEOUT_S = 30
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True)
class Found:
    """An uploaded run: where it lies, which commit and workflow run it is of, and whether that is still the newest commit."""

    url: str
    head_sha: str
    run_id: int
    current: bool


def newest(github: Github, repository: str, number: int, name: str) -> Found:
    """Return the newest artifact of that name of a pull request, one of its present head before any other.

    Raises:
        UsageError: there is none, or they have all expired.
    """
    here = github.get_repo(repository)
    pull = here.get_pull(number)
    kept = [each for each in here.get_artifacts(name=name) if not each.expired and each.workflow_run is not None]
    # By commit, not by the branch's name, which anybody's fork may have as well; and from the head's own repository, since
    # a commit may be pushed to anybody's fork, too.
    commits = {pull.head.sha, *(commit.sha for commit in pull.get_commits())}
    source = pull.head.repo.id if pull.head.repo else None
    ours = [each for each in kept if each.workflow_run.head_sha in commits and each.workflow_run.head_repository_id == source]
    if not ours:
        raise UsageError(
            f"no artifact {name!r} of pull request {number} is there",
            why="It has expired, was never uploaded, or has another name.",
            advice="Look at the workflow's runs, or give --name.",
        )
    # The run and not the upload: an older run that is started again uploads later, and its comment gives way to the newer's.
    best = max(ours, key=lambda each: (each.workflow_run.head_sha == pull.head.sha, each.workflow_run.id, each.id))
    run = best.workflow_run
    return Found(best.archive_download_url, run.head_sha, run.id, current=run.head_sha == pull.head.sha)


def download(url: str, token: str, target: IO[bytes]) -> None:
    """Write the archive to a file. Raises PublishError when it is refused, points to no https address, or is too large."""
    answer = requests.get(
        url, headers={"authorization": f"Bearer {token}"}, allow_redirects=False, stream=True, timeout=_TIMEOUT_S
    )
    if answer.is_redirect:
        address = answer.headers.get("location", "")
        parts = urlsplit(address)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise PublishError("the artifact lies at no https address", why=address[:200])
        answer = requests.get(address, allow_redirects=False, stream=True, timeout=_TIMEOUT_S)
    if answer.status_code != 200:
        raise PublishError(
            f"the artifact could not be fetched: GitHub answered {answer.status_code}", advice="Try again later."
        )
    size = 0
    for part in answer.iter_content(1 << 20):
        size += len(part)
        if size > MOST_ARCHIVE_BYTES:
            raise PublishError(f"the artifact is larger than {MOST_ARCHIVE_BYTES >> 30} GiB")
        target.write(part)


def unpack(archive: IO[bytes], target: Path) -> None:
    """Unpack into a folder that is not there yet, whole or not at all.

    Raises:
        UsageError: it is no archive, or holds what no run directory holds: a link, a path that leads out, endless bytes.
    """
    if target.exists():
        raise UsageError(f"{target} is there already", advice="Give another --output, or remove it.")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as folder:
        part = Path(folder, "run")
        part.mkdir()
        try:
            with zipfile.ZipFile(archive) as packed:
                _extract(packed, part)
        except UNREADABLE as error:
            raise UsageError(f"the artifact is no readable archive: {one_line(str(error), 200)}") from None
        with stored(target):
            part.rename(target)


def _extract(packed: zipfile.ZipFile, target: Path) -> None:
    members = [each for each in packed.infolist() if not each.is_dir()]
    if len(members) > MOST_FILES:
        raise UsageError(f"the artifact holds more than {MOST_FILES} files")
    left = MOST_BYTES
    paths = _places(members)
    for member, path in zip(members, paths, strict=True):
        place = target / path
        with stored(target):
            place.parent.mkdir(parents=True, exist_ok=True)
            sink = place.open("xb")
        with sink, packed.open(member) as source:
            while part := source.read(1 << 20):
                left -= len(part)  # what it says of its size may be a lie
                if left < 0:
                    raise UsageError(f"the artifact unpacks to more than {MOST_BYTES >> 30} GiB")
                with stored(target):
                    sink.write(part)


def _places(members: list[zipfile.ZipInfo]) -> list[PurePosixPath]:
    """Return where each file goes. Raises UsageError when one is no plain file inside, or two are in each other's place."""
    paths: list[PurePosixPath] = []
    for member in members:
        mode, path = member.external_attr >> 16, PurePosixPath(member.filename)
        odd = not path.parts or path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in path.parts[0]
        if odd or member.compress_type not in PACKED or (mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG)):
            raise UsageError(f"the artifact holds {member.filename[:200]!r}, which is no plain file inside of it")
        paths.append(path)
    folders = {parent for path in paths for parent in path.parents}
    twice = next((path for path, count in Counter(paths).items() if count > 1 or path in folders), None)
    if twice is not None:
        raise UsageError(f"the artifact holds {str(twice)[:200]!r} twice", why="Which of the two was measured nobody knows.")
    return paths
