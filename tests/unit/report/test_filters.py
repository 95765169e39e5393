"""Markdown proven harmless by GitHub's own parser (cmark-gfm) with raw HTML switched on, and by GitHub's later filters."""

from __future__ import annotations

import re

import html5lib
import pytest
from cmarkgfm import github_flavored_markdown_to_html
from cmarkgfm.cmark import Options
from hypothesis import example, given
from hypothesis import strategies as st

from servegate.report.filters import code, fence, markdown, told
from servegate.report.visible import visible
from tests.unit.report.report_samples import NASTY

PIECES = (
    "@",
    "@a",
    "#1",
    "GH-1",
    "http://",
    "https://x.y",
    "www.",
    "ftp://x.y",
    "a@b.co",
    ":tada:",
    "`",
    "``",
    "```",
    "~~~",
    "|",
    "\\",
    "\\|",
    "<",
    ">",
    "<b>",
    "</b>",
    "<!--",
    "-->",
    "&lt;",
    "&#64;",
    "*",
    "**",
    "_",
    "__",
    "[",
    "](",
    ")",
    "![",
    "#",
    "# ",
    "- ",
    "1. ",
    "1) ",
    "> ",
    "    ",
    "===",
    "---",
    "\n",
    "\n\n",
    " ",
    "$",
    "$$",
    "^",
    "{",
    "}",
    "deadbeef0",
    "a",
    "0",
    "x" * 8,
    "\r",
    "\u2028",
    "\ud800",
    "\u202e",
    "/cmd",
    "[ ]",
    "[x]",
    "[^1]",
)
HOSTILE = st.lists(st.sampled_from(PIECES) | st.sampled_from(NASTY) | st.text(max_size=8), max_size=12).map("".join)
TAGS = {
    "html",
    "head",
    "body",
    "p",
    "br",
    "code",
    "pre",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "ul",
    "li",
    "h2",
    "strong",
}
LATER = (
    re.compile(r"@\w"),
    re.compile(r"#\d"),
    re.compile(r"(?i)gh-\d"),
    re.compile(r"://"),
    re.compile(r"(?i)www\."),
    re.compile(r":[\w+-]+:"),
    re.compile(r"(?<![0-9A-Za-z])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}(?![0-9A-Za-z])"),
)
"""What GitHub still looks for in the text of the rendered page, outside of code."""


def rendered(source: str) -> html5lib.treebuilders.base.Node:
    html = github_flavored_markdown_to_html(source, Options.CMARK_OPT_UNSAFE)
    return html5lib.parse(html, namespaceHTMLElements=False)


def text_of(tree: html5lib.treebuilders.base.Node) -> str:
    for line_end in tree.iter("br"):
        line_end.tail = "\n" + (line_end.tail or "").removeprefix("\n")
    return "".join(tree.itertext())


def assert_only(tree: html5lib.treebuilders.base.Node) -> None:
    found = {element.tag for element in tree.iter() if isinstance(element.tag, str)}
    assert found <= TAGS, found - TAGS
    assert not [element for element in tree.iter() if not isinstance(element.tag, str)], "a comment"


def outside_code(tree: html5lib.treebuilders.base.Node) -> str:
    return "\x00".join(
        piece
        for element in tree.iter()
        for piece in ((element.text or "") if element.tag not in {"code", "pre"} else "", element.tail or "")
    )


def plain(text: str) -> str:
    return re.sub(r" +", " ", "\n".join(line.strip(" ") for line in text.replace("\u200b", "").split("\n"))).strip("\n ")


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("frame", ["{}", "- {}", "## {}", "| a | b |\n| --- | --- |\n| {} | end |", "**bold:** {}"])
def test_nasty_prose_stays_text(text: str, frame: str) -> None:
    tree = rendered(frame.format(markdown(text)))
    assert_only(tree)
    assert plain(visible(text, keep="\n")) in plain(text_of(tree))
    for pattern in LATER:
        assert not pattern.search(outside_code(tree)), pattern.pattern


@given(HOSTILE)
@example("\\|")
@example("1.")
@example("a_b_c __init__ _x_")
def test_prose_renders_as_exactly_its_text(text: str) -> None:
    tree = rendered(str(markdown(text)))
    assert_only(tree)
    assert plain(text_of(tree)) == plain(visible(text, keep="\n"))
    for pattern in LATER:
        assert not pattern.search(outside_code(tree)), pattern.pattern


@given(HOSTILE, HOSTILE)
def test_a_table_keeps_its_cells(left: str, right: str) -> None:
    tree = rendered(f"| a | b |\n| --- | --- |\n| {markdown(left)} | {code(right)} |\n")
    assert_only(tree)
    cells = list(tree.iter("td"))
    assert len(cells) == 2
    shown = "".join(line.strip(" ") for line in visible(left, keep="\n").split("\n"))
    assert plain("".join(cells[0].itertext())) == plain(shown)
    assert len(list(tree.iter("tr"))) == 2


@given(HOSTILE.filter(lambda text: text.strip(" ")))
@example("`" * 100)
@example("a|b`" + "`" * 11)
def test_inline_code_shows_exactly_its_text(text: str) -> None:
    tree = rendered(f"before {code(text)} after")
    assert_only(tree)
    shown = "".join("".join(element.itertext()) for element in tree.iter("code")).replace("\u200b", "")
    assert shown.strip() == visible(text).replace("<!--", "<!\\x2d-").strip() or shown.strip() == visible(text).strip()


@given(HOSTILE)
@example("`" * 300 + "\n<b>out</b>")
def test_a_fence_holds_everything(text: str) -> None:
    tree = rendered(f"{fence(text)}\n\nafter")
    assert_only(tree)
    blocks = list(tree.iter("code"))
    assert len(blocks) == 1
    shown = "".join(blocks[0].itertext()).removesuffix("\n").replace("\\x60", "`")
    assert shown == visible(text, keep="\n\t").replace("<!--", "<!\\x2d-").replace("\\x60", "`")
    assert [element.text for element in tree.iter("p")] == ["after"]


@given(HOSTILE)
def test_no_hidden_marker_can_be_written(text: str) -> None:
    for made in (markdown(text), code(text), fence(text)):
        assert "<!--" not in made


def test_ordinary_prose_is_left_alone() -> None:
    text = "31 of 48 answers are identical; max_num_seqs is 256 (was 128), 0.8 % noise, p07: 'ok' - done."
    assert markdown(text) == text
    assert code("fp8_per_channel") == "`fp8_per_channel`"
    assert markdown("1,234,567 requests, version 0.25.1, 20260301") == "1,234,567 requests, version 0.25.1, 20260301"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("raise `limits.unseen_increase_points` to 3", "raise `limits.unseen_increase_points` to 3"),
        ("`changes.budget_minutes: 240` would not hold it", "`changes.budget_minutes: 240` would not hold it"),
        ("`<img src=x>` and `a|b` and `@octocat`", None),
        ("an open ` and ``` a fence", None),
        ("`x` @octocat", "`x` @\u200boctocat"),
    ],
)
def test_a_setting_between_backticks_is_code_and_nothing_else_is(text: str, expected: str | None) -> None:
    assert told(text) == (markdown(text) if expected is None else expected)


@pytest.mark.parametrize("text", NASTY)
def test_prose_of_ours_is_as_inert_as_any(text: str) -> None:
    assert re.sub(r"`[A-Za-z0-9_./][A-Za-z0-9_./: -]{0,80}`", "", told(text)).count("`") == 0
