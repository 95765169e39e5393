"""The page proven to hold only our own elements, whatever the texts in it."""

from __future__ import annotations

import itertools
import re

import html5lib
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servegate.report.visible import visible
from tests.unit.report.report_samples import NASTY, SAMPLES, Sample, hostile

HTML_TAGS = {
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "a",
    "header",
    "p",
    "strong",
    "span",
    "nav",
    "ul",
    "li",
    "main",
    "section",
    "h1",
    "h2",
    "h3",
    "div",
    "dl",
    "dt",
    "dd",
    "table",
    "caption",
    "thead",
    "tbody",
    "tfoot",
    "tr",
    "th",
    "td",
    "code",
    "pre",
    "details",
    "summary",
    "figure",
    "figcaption",
    "mark",
    "footer",
}
SVG_TAGS = {"svg", "g", "path", "defs", "use", "text", "rect", "clipPath"}
SVG_ATTRIBUTES = {
    "viewBox",
    "role",
    "aria-label",
    "aria-hidden",
    "class",
    "d",
    "x",
    "y",
    "width",
    "height",
    "transform",
    "id",
    "href",
    "clip-path",
    "fill",
    "stroke",
    "stroke-width",
    "stroke-dasharray",
    "stroke-dashoffset",
    "stroke-linecap",
    "stroke-linejoin",
    "stroke-opacity",
    "fill-opacity",
    "opacity",
    "text-anchor",
    "font-size",
    "preserveAspectRatio",
}
HTML_ATTRIBUTES = {
    "data-head",
    "lang",
    "charset",
    "http-equiv",
    "content",
    "name",
    "id",
    "class",
    "href",
    "tabindex",
    "role",
    "aria-label",
    "aria-labelledby",
    "scope",
    "open",
}
OUR_LINKS = re.compile(r"#[a-z0-9-]+|tables/[a-z0-9-]+\.csv|reproduce\.sh|environment\.json")


def parsed(sample: Sample) -> html5lib.treebuilders.base.Node:
    page = sample.render()["report.html"].decode()
    return html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)


def assert_only_ours(tree: html5lib.treebuilders.base.Node) -> None:
    for element in tree.iter():
        assert isinstance(element.tag, str), "a comment in the page"
        svg = element.tag.startswith("{http://www.w3.org/2000/svg}")
        tag = element.tag.rpartition("}")[2]
        assert tag in (SVG_TAGS if svg else HTML_TAGS), element.tag
        assert {str(name) for name in element.attrib} <= (SVG_ATTRIBUTES if svg else HTML_ATTRIBUTES), element.attrib
        if tag == "a":
            assert OUR_LINKS.fullmatch(element.attrib["href"]), element.attrib
        if tag == "use":
            assert element.attrib["href"].startswith("#")
        if "clip-path" in element.attrib:
            assert re.fullmatch(r"url\(#[a-z0-9-]+\)", element.attrib["clip-path"])
    ids = [element.attrib["id"] for element in tree.iter() if "id" in element.attrib]
    assert len(ids) == len(set(ids))
    targets = {element.attrib["href"][1:] for element in tree.iter("a") if element.attrib["href"].startswith("#")}
    assert targets <= set(ids)
    assert len(list(tree.iter("style"))) == len(list(tree.iter("main"))) == len(list(tree.iter("h1"))) == 1


@pytest.mark.parametrize("name", SAMPLES)
def test_the_examples_are_valid_and_self_contained(name: str) -> None:
    tree = parsed(SAMPLES[name]())
    assert_only_ours(tree)
    page = SAMPLES[name]().render()["report.html"].decode()
    for outside in ("http://", "https://", "@import", "url(http", "<script", "<link", "<img"):
        assert outside not in page


def test_every_nasty_text_at_once() -> None:
    tree = parsed(hostile())
    assert_only_ours(tree)
    text = "".join(tree.itertext())
    for nasty in NASTY:
        if len(nasty) < 400:
            assert visible(nasty, keep="\n\t").strip() in text


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.text(st.characters(categories=("L", "N", "P", "S", "Z", "C"), include_characters="\ud800<>&\"'{}%#\n"), max_size=30),
        min_size=1,
        max_size=6,
    )
)
def test_any_texts(texts: list[str]) -> None:
    assert_only_ours(parsed(hostile(*texts)))


def test_headings_go_down_one_level_at_a_time() -> None:
    for make in SAMPLES.values():
        levels = [int(element.tag[1]) for element in parsed(make()).iter() if element.tag in {"h1", "h2", "h3"}]
        assert levels[0] == 1
        assert all(later - earlier <= 1 for earlier, later in itertools.pairwise(levels))


def test_table_headers_have_a_scope() -> None:
    for element in parsed(SAMPLES["fail"]()).iter("th"):
        assert element.attrib.get("scope") in {"row", "col"}
