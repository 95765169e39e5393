"""Whether a document of a team's own template ends what it begins, and says its verdict where it is seen at once.

GitHub refuses no document. A fence, a fold or a comment that was not closed takes in everything after it: lists become
code, and what follows in the same summary is folded away. A verdict that stands inside of one is there and is not seen.

What models and configs said has no part in it: their texts are written without any character of structure (`elements`).
So this reads what the people who wrote the template wrote, line by line, which is close to CommonMark and not all of it: a
fence counts at any depth, and a code span ends in its own line. What is doubtful costs the layout. Every step is linear in the
text, since a template may write 32 MiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_FENCE = re.compile(r"(?P<before>(?:[ >]|[-*+] |\d{1,9}[.)] )*)(?P<run>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)")
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][A-Za-z0-9-]*)(?P<rest>(?:\s[^<>]*|/)?)>")
_ALONE = frozenset({"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"})
"""Elements without an end (HTML standard, void elements)."""
_LOOSE = frozenset(
    {
        "body",
        "colgroup",
        "dd",
        "dt",
        "head",
        "html",
        "li",
        "option",
        "p",
        "rp",
        "rt",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
    }
)
"""Elements that may be left open: whatever comes next ends them (HTML standard, optional tags)."""
_RAW = frozenset({"script", "style", "textarea", "title"})
"""Elements that hold text and no elements."""


def markdown_fault(text: str, word: str) -> str:
    """Return what is wrong with a Markdown document that has to say `word`; empty where nothing is."""
    lines: list[str] = []
    opened, began = "", 0  # the fence that is open, and its line
    for number, line in enumerate(text.split("\n"), start=1):
        found = _FENCE.fullmatch(line)
        if opened:
            lines.append(_inert(line))
            if found and not found["before"].strip(" >") and not found["info"].strip() and found["run"].startswith(opened):
                opened = ""
        elif found:
            opened, began = found["run"], number
            lines.append("")
        else:
            bare = _without_spans(line)
            if "`" in bare:
                return f"leaves a backtick without its pair in line {number}"
            lines.append(bare)
    if opened:
        return f"leaves the code fence of line {began} open"
    return fault_of_tags("\n".join(lines), word)


def fault_of_tags(text: str, word: str) -> str:
    """Return what is wrong with the elements and comments of a text, or that it hides `word`; empty where nothing is."""
    reading = _Reading()
    try:
        for piece in _pieces(text):
            if isinstance(piece, str):
                reading.text(piece)
            else:
                reading.tag(piece)
        reading.end()
    except _UnbalancedError as fault:
        what, at = fault.args
        return str(what).replace("LINE", str(text.count("\n", 0, at) + 1))
    if word in "".join(reading.seen):
        return ""
    return f"says {word} only where it is folded away or hidden" if word in text else f"does not say {word}"


class _UnbalancedError(Exception):
    """What is wrong, and the offset at which it began."""


@dataclass
class _Reading:
    """The elements that are open as (name, offset, how many levels it hides), and the text that is seen at once."""

    open: list[tuple[str, int, int]] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    hidden: int = 0

    def text(self, text: str) -> None:
        if self.hidden == 0:
            self.seen.append(text)

    def tag(self, found: re.Match[str]) -> None:
        name, rest = found["name"].lower(), found["rest"].lower()
        if name in _ALONE or name in _LOOSE or (rest.endswith("/") and name not in {"details", "summary"}):
            return
        if not found["end"]:
            folded = bool(self.open) and self.open[-1][0] == "details" and self.open[-1][2] == 1
            hides = {"details": not re.search(r"\sopen\b", rest), "summary": -folded, "title": True}.get(name, 0)
            self.open.append((name, found.start(), int(hides)))
            self.hidden += int(hides)
        elif self.open and self.open[-1][0] == name:
            self.hidden -= self.open.pop()[2]
        else:
            raise _UnbalancedError(
                f"closes a {name} element in line LINE that is not the one that is open there", found.start()
            )

    def end(self) -> None:
        if self.open:
            raise _UnbalancedError(f"leaves the {self.open[-1][0]} element of line LINE open", self.open[-1][1])


def _pieces(text: str) -> Iterator[str | re.Match[str]]:
    """Give tags and the text between them; comments, and the text of elements that hold nothing else, are left out."""
    at, comment, found = 0, text.find("<!--"), _TAG.search(text)
    while at < len(text):
        if 0 <= comment < at:
            comment = text.find("<!--", at)
        if found is not None and found.start() < at:
            found = _TAG.search(text, at)
        start = found.start() if found else len(text)
        if 0 <= comment < start:
            yield text[at:comment]
            end = text.find("-->", comment + 2)
            if end < 0:
                raise _UnbalancedError("leaves the comment of line LINE open", comment)
            at = end + 3
            continue
        yield text[at:start]
        if found is None:
            return
        yield found
        at = found.end()
        if found["name"].lower() in _RAW and not found["end"]:
            ends = re.compile(f"</{found['name']}", re.IGNORECASE).search(text, at)
            at = ends.start() if ends else len(text)


def _without_spans(line: str) -> str:
    """Return a line of Markdown with its code spans as plain text; a backtick that opens none stays."""
    runs = list(re.finditer("`+", line))
    last: dict[int, int] = {}
    closing = [0] * len(runs)
    for index in range(len(runs) - 1, -1, -1):
        length = len(runs[index].group())
        closing[index] = last.get(length, 0)
        last[length] = index
    parts, at, index = [], 0, 0
    while index < len(runs):
        closed = closing[index]
        if closed:
            parts += [line[at : runs[index].start()], _inert(line[runs[index].end() : runs[closed].start()])]
            at, index = runs[closed].end(), closed
        index += 1
    return "".join(parts) + line[at:]


def _inert(text: str) -> str:
    return text.translate({ord("<"): " ", ord("`"): " "})
