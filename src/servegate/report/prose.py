"""The one place where Markdown becomes HTML: the few lines that a person wrote about the change in the gate config.

Everything else in a report is placed by templates. Model output never comes here: Python-Markdown takes minutes on texts
that are made to hurt it (51 s on 20,000 opening brackets), so the input is short and its brackets are few, and what it
writes passes nh3's allow-list.
"""

from __future__ import annotations

import markdown
import nh3
from markupsafe import Markup

from servegate.report.visible import visible

MAX_CHARACTERS = 4_000
MAX_BRACKETS = 200
TAGS = {"p", "br", "em", "strong", "code", "pre", "ul", "ol", "li", "blockquote", "a"}


def prose(text: str) -> Markup:
    """Return a description as HTML of paragraphs, lists, emphasis, code and links to http(s); nothing else survives.

    A text beyond the limits is shown as it is, in one block, since rendering it might not end.
    """
    shown = visible(text, keep="\n")
    if len(shown) > MAX_CHARACTERS or sum(shown.count(character) for character in "[]*_`<&") > MAX_BRACKETS:
        return Markup("<pre>{}</pre>").format(shown[:MAX_CHARACTERS])
    rendered = markdown.markdown(shown, output_format="html")
    clean = nh3.clean(
        rendered, tags=TAGS, attributes={"a": {"href"}}, url_schemes={"http", "https"}, link_rel="noopener noreferrer nofollow"
    )
    return Markup(clean)  # noqa: S704 - this is what the sanitiser let through
