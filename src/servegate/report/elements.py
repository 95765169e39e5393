"""Code in Markdown as HTML elements, for a team's own templates.

Between backticks a text is inert only where the template around it has closed its own: in "`` ` {{ name|code }} ` ``" the
outer ones pair with the inner ones, and what should have been code becomes live Markdown. Elements whose every special
character is a reference are inert wherever they are put: inside of an open fence or code span they are shown as written.
"""

from __future__ import annotations

import re

from markupsafe import Markup

from servegate.report.filters import code, inline, told
from servegate.report.visible import visible

_SPAN = re.compile(r"`([^`]+)`")
_SPECIAL = re.compile(r"[^0-9A-Za-z \x80-\U0010ffff]|w(?=ww\.)|W(?=WW\.)")


def code_element(text: str) -> Markup:
    """Return inline code that no backtick outside of it can open."""
    shown = visible(text)
    return Markup(f"<code>{inline(shown)}</code>") if shown.strip(" ") else code(text)  # noqa: S704 - escaped


def fence_element(text: str) -> Markup:
    """Return a block of code on one line, so that nothing in it begins one; line ends and tabs are references, too."""
    escaped = _SPECIAL.sub(lambda found: f"&#{ord(found.group())};", visible(text, keep="\n\t"))
    return Markup(f"\n\n<pre>{escaped}</pre>\n\n")  # noqa: S704 - every special character is a reference


def told_elements(text: str) -> Markup:
    """Return prose of ours in which a setting or a path between backticks becomes code."""
    return Markup(_SPAN.sub(r"<code>\1</code>", str(told(text))))  # noqa: S704 - escaped by told; a Markup would be escaped again
