"""The two Jinja environments. In both, what a template prints is safe unless a filter has said so on purpose.

Markdown has no autoescaping of its own, so its environment escapes in `finalize`: every expression that is not
already `Markup` passes the Markdown filter. Macros return `Markup`, so nothing is escaped twice.

A team's own templates (`Templates`) run in the sandbox of `overriding`. One that fails when it is run costs its layout and
nothing else: ours takes its place and says why, since a verdict must not be lost over a template. What one writes has to end
every fence and fold that it begins, and to say the verdict's word where it is seen at once.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, cached_property
from importlib.resources import files
from typing import Any

from jinja2 import ChoiceLoader, DictLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from servegate.report.balance import fault_of_tags, markdown_fault
from servegate.report.elements import code_element, fence_element, told_elements
from servegate.report.filters import code, fence, markdown, told
from servegate.report.overriding import BROKEN, Sandbox
from servegate.report.page import Page
from servegate.report.prose import prose
from servegate.report.shown import BlockView
from servegate.report.template_rules import checked
from servegate.report.visible import cut, visible

POLICY = "default-src 'none'; style-src '{style_hash}'; base-uri 'none'; form-action 'none'"
HEAD = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
"""


class Templates:
    """A team's own templates by name, over ours; none by default."""

    def __init__(self, own: Mapping[str, str] | None = None) -> None:
        """Refuse what may not stand in one. Raises UsageError with file and line."""
        self.own = dict(own or {})
        self.failed: dict[str, Exception] = {}
        checked(self.own, lambda name: self._sandbox(name).get_template(name))

    def markdown_document(self, template: str, page: Page, most: int) -> str:
        """Render one of the Markdown templates, within `most` bytes where it is the team's own."""

        def render() -> str:
            text = _squeezed(self._sandbox(template).render(template, page=page))
            _hold(not (fault := markdown_fault(text, page.verdict.word)), fault)
            if template == "comment.md.j2":  # the comment is found again by this line, so that it is not a template's to write
                text = f"<!-- {page.marker} -->\n{text}"
            _hold(len(text.encode()) <= most, f"writes more than {most:,} bytes")
            return text

        return self._own(template, render) or markdown_document(template, self._told(page, template))

    def html_document(self, page: Page) -> str:
        """Render the page; the team's own begins with our content policy, for exactly its style sheet."""
        template, style = "page.html.j2", self.own.get("report.css", _css()).strip()
        head = HEAD.format(policy=POLICY.format(style_hash=_hash(style)))

        def render() -> str:
            ours = {"style": Markup(style), "head": Markup(head)}  # noqa: S704 - of the base branch, without a '<'
            text = self._sandbox(template).render(template, page=page, style_hash=_hash(style), **ours)
            _hold(text.startswith(head), "does not begin with {{ head }}")
            _hold(not (fault := fault_of_tags(text, page.verdict.word)), fault)
            return text + "\n"

        return self._own(template, render) or _styled(template, style, page=self._told(page, template))

    def _own(self, template: str, render: Callable[[], str]) -> str:
        """Return the team's document; empty where they have none, or it failed now or before."""
        if template not in self.own or template in self.failed:
            return ""
        try:
            return render()
        except BROKEN as error:
            self.failed[template] = error
            return ""

    def _told(self, page: Page, template: str) -> Page:
        if template not in self.failed:
            return page
        error = self.failed[template]
        reason = re.sub(r" at 0x[0-9a-f]+", "", str(error)) or type(error).__name__  # an address is another one each time
        why = f"The template {template} of this repository could not be used ({cut(reason, 200)})."
        said = f"{page.status} " if page.status else ""
        return replace(page, status=f"{said}{why} This is servegate's own.")

    def _sandbox(self, template: str) -> Sandbox:
        return self._html if template.endswith(".html.j2") else self._markdown

    @cached_property
    def _markdown(self) -> Sandbox:
        return Sandbox(self._loader, _markdown_value, {"code": code_element, "fence": fence_element, "told": told_elements})

    @cached_property
    def _html(self) -> Sandbox:
        return Sandbox(self._loader, _html_value, {"lines": _lines, "prose": prose})

    @property
    def _loader(self) -> ChoiceLoader:
        return ChoiceLoader([DictLoader(self.own), PackageLoader("servegate", "templates")])


def _hold(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def markdown_document(template: str, page: Page) -> str:
    """Render one of our Markdown templates."""
    text = _markdown_environment().get_template(template).render(page=page)
    return _squeezed(text)


def blocks_document(title: str, blocks: tuple[BlockView, ...]) -> str:
    """Render a page of blocks alone."""
    return _styled("review.html.j2", _css(), title=title, blocks=blocks)


def _styled(template: str, style: str, **values: Any) -> str:
    found = _html_environment().get_template(template)
    return found.render(style=Markup(style), style_hash=_hash(style), **values) + "\n"  # noqa: S704 - no text of others


def _css() -> str:
    return files("servegate").joinpath("templates/report.css").read_text(encoding="utf-8").strip()


def _hash(style: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}"


def _markdown_value(value: Any) -> Any:
    return value if hasattr(value, "__html__") else markdown(str(value))


def _html_value(value: Any) -> Any:
    return value if hasattr(value, "__html__") else visible(str(value))


@cache
def _markdown_environment() -> Environment:
    environment = _environment(_markdown_value)
    environment.filters.update(code=code, fence=fence, told=told)
    return environment


@cache
def _html_environment() -> Environment:
    environment = _environment(_html_value)
    environment.filters.update(lines=_lines, prose=prose)
    return environment


def _environment(finalize: Callable[[Any], Any]) -> Environment:
    return Environment(
        loader=PackageLoader("servegate", "templates"),
        autoescape=True,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _lines(text: str) -> Markup:
    """Return text for HTML that keeps its line ends and tabs; the style sheet decides how they look."""
    return escape(visible(str(text), keep="\n\t"))


def _squeezed(text: str) -> str:
    """Remove runs of empty lines outside of code fences, where they would only be noise in the source."""
    lines: list[str] = []
    closing = ""
    for line in text.split("\n"):
        if closing:
            closing = "" if line == closing else closing
        elif line.startswith("```") and line.endswith("text"):
            closing = line.removesuffix("text")
        elif not line.strip():
            if not lines or not lines[-1]:
                continue
            line = ""  # noqa: PLW2901 - a line of blanks is an empty line
        lines.append(line)
    return "\n".join(lines).strip("\n") + "\n"
