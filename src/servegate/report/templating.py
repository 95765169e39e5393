"""The two Jinja environments. In both, what a template prints is safe unless a filter has said so on purpose.

Markdown has no autoescaping of its own, so its environment escapes in `finalize`: every expression that is not
already `Markup` passes the Markdown filter. Macros return `Markup`, so nothing is escaped twice.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from servegate.report.filters import code, fence, markdown
from servegate.report.page import Page
from servegate.report.prose import prose
from servegate.report.shown import BlockView
from servegate.report.visible import visible


def markdown_document(template: str, page: Page) -> str:
    """Render one of the Markdown templates."""
    text = _markdown_environment().get_template(template).render(page=page)
    return _squeezed(text)


def html_document(page: Page) -> str:
    """Render the page with its style sheet inside; the content policy allows exactly that style sheet."""
    return _styled("page.html.j2", page=page)


def blocks_document(title: str, blocks: tuple[BlockView, ...]) -> str:
    """Render a page of blocks alone."""
    return _styled("review.html.j2", title=title, blocks=blocks)


def _styled(template: str, **values: Any) -> str:
    style = files("servegate").joinpath("templates/report.css").read_text(encoding="utf-8").strip()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    found = _html_environment().get_template(template)
    return found.render(style=Markup(style), style_hash=f"sha256-{digest}", **values) + "\n"  # noqa: S704 - our own file


@cache
def _markdown_environment() -> Environment:
    environment = _environment(lambda value: value if hasattr(value, "__html__") else markdown(str(value)))
    environment.filters.update(code=code, fence=fence)
    return environment


@cache
def _html_environment() -> Environment:
    environment = _environment(lambda value: value if hasattr(value, "__html__") else visible(str(value)))
    environment.filters.update(lines=_lines, prose=prose)
    return environment


def _environment(finalize: Any) -> Environment:
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
