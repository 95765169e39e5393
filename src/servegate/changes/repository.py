"""git, asked for commits, changed files and blobs; it is run without a shell, hooks, filters, prompts or lazy downloads.

A shallow clone is the usual trap: without the commit where the branch began there is nothing to compare with, and a diff
against whatever is there would show other people's changes or none. That is an error with its remedy, never "no changes".
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from servegate.changes.pairing import Change
from servegate.errors import ExitCode, ServegateError

MAX_CONFIG_BYTES = 1 << 20
"""A serving config larger than this is a mistake or an attack."""
_TIMEOUT_S = 120
_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SAFE_REF = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./@{}^~-]{0,199}")
_SETTINGS = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.quotePath=false", "submodule.recurse=false")
_ENVIRONMENT = {
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_FETCH = "In a workflow: actions/checkout with `fetch-depth: 0`. By hand: git fetch --unshallow origin."


class ChangesError(ServegateError):
    """What a pull request changes could not be worked out; nothing was measured, and nothing passed."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True)
class Blob:
    """A file at a commit. `mode` is git's: `100644`, `100755`, or `120000` for a link."""

    path: str
    mode: str
    size: int
    content: bytes


class Repository:
    """One clone."""

    def __init__(self, root: Path) -> None:
        """Find the top of the clone that holds `root`. Raises ChangesError when there is none, or no git."""
        self.root = root
        self.root = Path(os.fsdecode(self._git("rev-parse", "--show-toplevel").rstrip(b"\n")))

    def commit(self, ref: str) -> str:
        """Return the commit id of a ref. Raises ChangesError when this clone does not have it."""
        if not _SAFE_REF.fullmatch(ref):
            raise ChangesError(f"{ref[:80]!r} is no name of a commit", advice="Give a commit id, a branch or a tag.")
        try:
            found = self._git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}").decode().strip()
        except ChangesError:
            found = ""
        if not _COMMIT.fullmatch(found):
            raise ChangesError(f"the commit {ref[:80]!r} is not in this clone", why=self._why_absent(), advice=_FETCH)
        return found

    def merge_base(self, base: str, head: str) -> str:
        """Return where the head's branch left the base branch. Raises ChangesError when that can not be said."""
        try:
            found = self._git("merge-base", "--all", base, head).decode().split()
        except ChangesError:
            found = []
        if not found:
            raise ChangesError(
                f"{base[:12]} and {head[:12]} have no common commit in this clone, so there is nothing to compare with",
                why=self._why_absent(),
                advice=_FETCH,
            )
        if len(found) > 1:
            raise ChangesError(
                f"{base[:12]} and {head[:12]} have {len(found)} merge bases: what changed depends on which is taken",
                advice="Merge the base branch into the pull request once, or rebase it.",
            )
        return found[0]

    def changed(self, before: str, after: str) -> tuple[Change, ...]:
        """Return every file that differs between two commits, renames (half or more of it kept) followed."""
        raw = self._git("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "-M50%", "-l2000", before, after)
        fields = iter(raw.split(b"\0"))
        found = []
        for head in fields:
            if not head:
                continue
            _old_mode, new_mode, _old, new, status = head.decode().lstrip(":").split(" ")
            first = _path(next(fields))
            second = _path(next(fields)) if status[0] in "RC" else first
            found.append(Change(status=status[0], before=first, after=second, mode=new_mode, oid=new))
        return tuple(found)

    def files(self, commit: str) -> tuple[str, ...]:
        """Return the paths of all files of a commit."""
        return tuple(_path(each) for each in self._git("ls-tree", "-r", "-z", "--name-only", commit).split(b"\0") if each)

    def blob(self, commit: str, path: str, most: int = MAX_CONFIG_BYTES) -> Blob | None:
        """Return a file of a commit, None when it has none there. Raises ChangesError when it is larger than `most`."""
        listed = self._git("ls-tree", "-z", "--full-tree", "--long", commit, "--", path).split(b"\0")[0]
        if not listed:
            return None
        description, _, name = listed.partition(b"\t")
        mode, kind, oid, size = description.decode().split()
        if _path(name) != path or kind != "blob":
            return None
        if int(size) > most:
            raise ChangesError(f"{path} at {commit[:12]} has {size} bytes, allowed are {most}", advice="Split the file.")
        return Blob(path, mode, int(size), self._git("cat-file", "blob", oid))

    def is_dirty(self) -> bool:
        """Whether the work tree has changes that no commit holds."""
        return bool(self._git("status", "--porcelain", "--untracked-files=no"))

    def _why_absent(self) -> str:
        try:
            shallow = self._git("rev-parse", "--is-shallow-repository").strip() == b"true"
        except ChangesError:
            return ""
        return "This clone is shallow: it holds the newest commits only." if shallow else ""

    def _git(self, *arguments: str) -> bytes:
        settings = [word for setting in _SETTINGS for word in ("-c", setting)]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")} | _ENVIRONMENT
        try:
            done = subprocess.run(
                ["git", "--no-pager", *settings, "-C", str(self.root), *arguments],
                capture_output=True,
                check=False,
                env=environment,
                stdin=subprocess.DEVNULL,
                timeout=_TIMEOUT_S,
            )
        except FileNotFoundError:
            raise ChangesError("git is not installed here", advice="Install git: what is compared comes from it.") from None
        except subprocess.TimeoutExpired:
            raise ChangesError(f"git {arguments[0]} did not end within {_TIMEOUT_S} s") from None
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip()
            if "dubious ownership" in said:
                advice = f"Run as the owner of the clone, or: git config --global --add safe.directory {self.root}"
                raise ChangesError("git refuses this clone: it belongs to another user", why=said[:400], advice=advice)
            raise ChangesError(f"git {arguments[0]} failed in {self.root}", why=said[:1000], advice="Run it in a git clone.")
        return done.stdout


def _path(name: bytes) -> str:
    """Paths are bytes to git; one that is no UTF-8 keeps its bytes as surrogates and matches no glob of text."""
    return name.decode("utf-8", "surrogateescape")
