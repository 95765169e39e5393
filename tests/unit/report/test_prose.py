"""The author's Markdown becomes a few harmless elements, whatever it holds, and never takes long."""

from __future__ import annotations

import html5lib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servegate.report.prose import TAGS, prose


def elements(html: str) -> list[tuple[str, dict[str, str]]]:
    tree = html5lib.parseFragment(html, namespaceHTMLElements=False)
    return [
        (node.tag, dict(node.attrib)) for node in tree.iter() if isinstance(node.tag, str) and node.tag != "DOCUMENT_FRAGMENT"
    ]


def test_paragraphs_lists_emphasis_and_links() -> None:
    found = elements(prose("Serve **FP8** as in [the plan](https://example.org/plan).\n\n- one\n- two\n"))
    assert [tag for tag, _ in found] == ["p", "strong", "a", "ul", "li", "li"]
    assert found[2][1] == {"href": "https://example.org/plan", "rel": "noopener noreferrer nofollow"}


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[x](javascript:alert(1))", "![x](http://h/i.png)",
        "<a href='data:text/html,x'>x</a>", "<style>*{display:none}</style>", "# heading", "</div></section>", "\u202ebidi",
        "<iframe src=//h></iframe>", "[x]: javascript:alert(1)\n[x]", "<http://h/?a=<script>>",
    ],
)  # fmt: skip
def test_nothing_else_survives(text: str) -> None:
    for tag, attributes in elements(prose(text)):
        assert tag in TAGS
        assert set(attributes) <= {"href", "rel"}
        assert attributes.get("href", "https://").startswith(("http://", "https://"))
    assert "\u202e" not in prose(text)


@given(st.text(max_size=300))
def test_any_text_gives_only_allowed_elements(text: str) -> None:
    assert {tag for tag, _ in elements(prose(text))} <= TAGS


@pytest.mark.parametrize("text", ["[" * 20_000, "*a " * 3_000, "> " * 5_000, "`" * 9_999])
def test_texts_that_are_made_to_hurt_are_shown_as_they_are(text: str) -> None:
    assert {tag for tag, _ in elements(prose(text))} == {"pre"}
