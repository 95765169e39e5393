"""Text into Markdown that says exactly that text, on GitHub and elsewhere.

Every ASCII character that Markdown could read as structure becomes a numeric character reference, which CommonMark
never takes for structure (spec 0.31, section 2.5). What GitHub does *after* Markdown works on the rendered text and
cannot be stopped by escaping: mentions, issue and commit references, bare addresses, emoji names. Those are broken
by a zero-width space. It cannot be confused with one of the model's own: `visible` has written those as escapes.
"""

from __future__ import annotations

import re

from markupsafe import Markup

from servegate.report.visible import visible

_BREAK = "\u200b"
_STRUCTURE = re.compile(r"[&<>\\`*\[\]|~$^#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_START = re.compile(r"^(?:[-+=:]|(\d{1,9})[.)](?=\s|$))")
_REFERENCES = re.compile(
    r"@(?=\w)"  # a mention, a team, a mail address
    r"|#(?=\d)|[Gg][Hh]-(?=\d)"  # an issue
    r"|(?<=:)(?=//)|[Ww][Ww][Ww](?=\.)"  # an address
    r"|:(?=[\w+-]+:)"  # an emoji's name
)
_NAMED = re.compile(r"&#96;([A-Za-z0-9_./][A-Za-z0-9_./: -]{0,80})&#96;")
_COMMIT = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{7,}(?![0-9A-Za-z])")
_LONG_TICKS = "`" * 12
"""GitHub's parser takes no code span whose delimiter is longer than 80 backticks, so long runs are written another way."""
_WALL = re.compile("`{101,}")
"""GitHub's parser counts a fence up to 255, so a longer run in the text would close any fence: its rest is escaped."""
_MARKER = re.compile(r"<!--")


def markdown(text: str) -> Markup:
    """Return prose for one Markdown paragraph, list item, heading or table cell; line ends become `<br>`."""
    lines = visible(text, keep="\n").split("\n")
    return Markup("<br>".join(inline(line.strip(" ")) for line in lines))  # noqa: S704 - escaped by inline


def told(text: str) -> Markup:
    """Return prose of ours like `markdown`, but a setting or a path between backticks becomes code. All else stays text."""
    return Markup(_NAMED.sub(r"`\1`", markdown(text)))  # noqa: S704 - escaped by markdown; no other backtick is left in it


def code(text: str) -> Markup:
    """Return inline code, also inside a table cell, where a pipe would end the cell even in a code span."""
    shown = visible(text)
    if not shown.strip(" "):
        return Markup("<code>&nbsp;</code>") if shown else Markup("")
    if "|" in shown or _LONG_TICKS in shown:
        return Markup(f"<code>{inline(shown)}</code>")  # noqa: S704 - escaped by inline
    ticks = "`" * (1 + max((len(run) for run in re.findall(r"`+", shown)), default=0))
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return Markup(ticks + pad + _unmarked(shown) + pad + ticks)  # noqa: S704 - inert inside a code span


def fence(text: str) -> Markup:
    """Return a fenced code block that no backticks of the text can close."""
    shown = _WALL.sub(lambda run: run.group()[:100] + r"\x60" * (len(run.group()) - 100), _unmarked(visible(text, keep="\n\t")))
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", shown)), default=0))
    return Markup(f"{ticks}text\n{shown}\n{ticks}")  # noqa: S704 - inert inside a fence


def inline(text: str) -> str:
    """Return one line of text in which nothing is structure and nothing is a reference; it has no line end to begin one."""
    broken = _REFERENCES.sub(lambda found: found.group() + _BREAK, _COMMIT.sub(_split_commit, text))
    escaped = _STRUCTURE.sub(_reference, broken)
    return _START.sub(lambda found: f"{found.group(1) or ''}{_entity(found.group()[-1])}", escaped)


def _split_commit(found: re.Match[str]) -> str:
    """Split what may be a commit id into pieces too short for one; plain numbers and words stay whole."""
    digits = found.group()
    if digits.isdigit() or digits.isalpha():
        return digits
    return _BREAK.join(digits[index : index + 6] for index in range(0, len(digits), 6))


def _reference(found: re.Match[str]) -> str:
    return {"&": "&amp;", "<": "&lt;", ">": "&gt;"}.get(found.group()) or _entity(found.group())


def _entity(character: str) -> str:
    return f"&#{ord(character)};"


def _unmarked(text: str) -> str:
    """Break comment openings, since tools look for our own hidden marker in the raw body."""
    return _MARKER.sub(r"<!\\x2d-", text)
