"""Globs over names with slashes: `*` and `?` stay within one part, `**` spans any number of parts.

The standard library's `fnmatch` lets `*` cross slashes, so that `org/*` would also mean `org/a/b`; and a glob that says
what a stranger may name has to mean what it looks like.
"""

from __future__ import annotations

import re
from functools import cache


def matches(name: str, pattern: str) -> bool:
    """Return whether the whole name matches. There are no classes (`[a-z]`) and no alternatives (`{a,b}`)."""
    return _compiled(pattern).fullmatch(name) is not None


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = []
    for token in re.split(r"(\*\*/|\*\*|\*|\?)", pattern):
        parts.append({"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}.get(token) or re.escape(token))
    return re.compile("".join(parts), re.DOTALL)
