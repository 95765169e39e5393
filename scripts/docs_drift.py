"""Fail when the documents and the tree have drifted apart; `make check` runs it.

Three questions, over every file that git tracks or would track:

- do the relative links in Markdown files (and their `#anchors`) lead somewhere?
- does every `make TARGET` that a Markdown file shows as code exist in the Makefile?
- does any file name what must never be committed: a package registry's host, or a path of one person's machine?
"""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# In two pieces, so that this file does not contain what it looks for.
FORBIDDEN = tuple(
    re.compile(pattern)
    for pattern in (
        r"\bpy" + r"pi\.(org|python\.org)\b",
        r"\bpython" + r"hosted\.org\b",
        r"\bregistry\.npm" + r"js\.org\b",
        r"\bdownload\.py" + r"torch\.org\b",
        r"(?<![\w./-])/work" + r"/",
        r"\.\./" + r"shared\b",
        r"(?<![\w.])/root" + r"/",
        r"^\s*--?(extra-)?index" + r"-url\b",
    )
)
LINK = re.compile(r"!?\[(?:[^\]\\]|\\.)*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\s{0,3}\[[^\]]+\]:\s*<?(\S+?)>?\s*$")
FENCE = re.compile(r"^\s*(```+|~~~+)")
INLINE_CODE = re.compile(r"(`+)(.+?)\1")
MAKE = re.compile(r"(?:^|[\s;&|(])make ((?:[A-Z_]+=\S* )*)([a-z][a-z-]*)")
TARGET = re.compile(r"^([a-z][a-z-]*):(?!=)", re.MULTILINE)


def main() -> int:
    """Print every drift as `file:line: what`; 1 when there was any."""
    files = tracked()
    targets = set(TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    problems: list[str] = []
    for path in files:
        text = text_of(path)
        if text is None:
            continue
        name = path.relative_to(ROOT).as_posix()
        problems += [f"{name}:{line}: {what}" for line, what in forbidden(text)]
        if path.suffix == ".md":
            problems += [f"{name}:{line}: {what}" for line, what in broken_links(path, text)]
            problems += [f"{name}:{line}: {what}" for line, what in missing_targets(text, targets)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


def tracked() -> list[Path]:
    """List the files that git tracks or would track. Symlinks are left to their targets."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, check=True, capture_output=True).stdout.decode().split("\0")
    paths = (ROOT / name for name in sorted(set(listed)) if name)
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def text_of(path: Path) -> str | None:
    """Return the file's text; None for a binary file."""
    content = path.read_bytes()
    return None if b"\0" in content[:8192] else content.decode("utf-8", errors="replace")


def forbidden(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines that name what must not be committed."""
    for number, line in enumerate(text.splitlines(), 1):
        for pattern in FORBIDDEN:
            found = pattern.search(line)
            if found:
                yield number, f"must not be committed: {found.group().strip()!r}"


def split_code(text: str) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Split Markdown into numbered prose lines (inline code blanked) and numbered code (fenced lines, inline spans)."""
    prose: list[tuple[int, str]] = []
    code: list[tuple[int, str]] = []
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if mark and (not fence or mark.group(1).startswith(fence)):
            fence = "" if fence else mark.group(1)[:3]
        elif fence:
            code.append((number, line))
        else:
            code += [(number, span.group(2)) for span in INLINE_CODE.finditer(line)]
            prose.append((number, INLINE_CODE.sub(lambda span: span.group() if "](" in span.group() else "`code`", line)))
    return prose, code


def broken_links(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Yield relative links that lead to no file, and anchors that no heading has."""
    for number, line in split_code(text)[0]:
        for target in [*LINK.findall(line), *REFERENCE.findall(line)]:
            if re.match(r"[a-z][a-z0-9+.-]*:|//", target):
                continue
            name, _, anchor = urllib.parse.unquote(target).partition("#")
            linked = (path.parent / name).resolve() if name else path
            if not linked.exists():
                yield number, f"link to a file that is not there: {target}"
            elif anchor and linked.suffix == ".md" and anchor.lower() not in anchors(linked.read_text(encoding="utf-8")):
                yield number, f"link to a heading that is not there: {target}"


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives a document's headings, and those set by hand."""
    found: set[str] = set(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    seen: dict[str, int] = {}
    fenced = False
    for line in text.splitlines():
        if FENCE.match(line):
            fenced = not fenced
        heading = None if fenced else re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if heading:
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1)).lower()
            slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            count = seen.get(slug, 0)
            seen[slug] = count + 1
            found.add(f"{slug}-{count}" if count else slug)
    return found


def missing_targets(text: str, targets: set[str]) -> Iterator[tuple[int, str]]:
    """Yield `make X` shown as code where the Makefile has no X."""
    for number, code in split_code(text)[1]:
        for _, target in MAKE.findall(code):
            if target not in targets:
                yield number, f"`make {target}` is not a target of the Makefile"


if __name__ == "__main__":
    sys.exit(main())
