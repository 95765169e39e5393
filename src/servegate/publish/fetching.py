"""Fetches the newest run directory that a workflow uploaded for a pull request.

What comes back is an archive that somebody's workflow filled: it is unpacked file by file, regular files inside of the
target only, within caps. The token goes to the API alone; the storage that the API points to has its own signed address.
"""

from __future__ import annotations

import stat
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO
from urllib.parse import urlsplit

import requests
from github import Github

from servegate.artifacts.intake import MOST_BYTES, MOST_FILES
from servegate.errors import PublishError, UsageError

MOST_ARCHIVE_BYTES = 4 << 30
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
    # By commit, not by the branch's name, which anybody's fork may have as well.
    commits = {pull.head.sha, *(commit.sha for commit in pull.get_commits())}
    ours = [each for each in kept if each.workflow_run.head_sha in commits]
    if not ours:
        raise UsageError(
            f"no artifact {name!r} of pull request {number} is there",
            why="It has expired, was never uploaded, or has another name.",
            advice="Look at the workflow's runs, or give --name.",
        )
    best = max(ours, key=lambda each: (each.workflow_run.head_sha == pull.head.sha, each.id))
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
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
            raise UsageError(f"the artifact is no readable archive: {error}") from None
        part.rename(target)


def _extract(packed: zipfile.ZipFile, target: Path) -> None:
    members = [each for each in packed.infolist() if not each.is_dir()]
    if len(members) > MOST_FILES:
        raise UsageError(f"the artifact holds more than {MOST_FILES} files")
    left = MOST_BYTES
    for member in members:
        mode = member.external_attr >> 16
        path = PurePosixPath(member.filename)
        odd = path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in path.parts[0]
        if odd or (mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG)):
            raise UsageError(f"the artifact holds {member.filename[:200]!r}, which is no plain file inside of it")
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        with packed.open(member) as source, place.open("xb") as sink:
            while part := source.read(1 << 20):
                left -= len(part)  # what it says of its size may be a lie
                if left < 0:
                    raise UsageError(f"the artifact unpacks to more than {MOST_BYTES >> 30} GiB")
                sink.write(part)
