"""What a team's own template may hold, read as data before anything is run or measured.

A list of node types, filters and tests is allowed; everything else is one error with file and line. What is left is run by
`overriding`, which counts what it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import TemplateError, TemplateSyntaxError, nodes

from servegate.domain.plan import TEMPLATES
from servegate.errors import UsageError

IMPORTABLE = ("_blocks.md.j2", "_blocks.html.j2")
MOST_SOURCE_BYTES = 128 << 10

_FILTERS = frozenset({"code", "fence", "told", "lines", "prose", "length", "upper", "lower", "e", "escape"})
TESTS = frozenset({"defined", "none", "string", "number", "sequence", "odd", "even"})
_NODES = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Name, nodes.Const, nodes.Getattr,
    nodes.Getitem, nodes.Slice, nodes.Filter, nodes.Test, nodes.Call, nodes.Compare, nodes.Operand, nodes.And, nodes.Or,
    nodes.Not, nodes.CondExpr, nodes.Assign, nodes.AssignBlock, nodes.Macro, nodes.Import, nodes.Keyword,
    nodes.Add, nodes.Sub, nodes.Neg,
)  # fmt: skip


def refuse(tree: nodes.Template, name: str) -> None:
    """Raise TemplateSyntaxError with the line of the first node that is not allowed."""
    for node in _every(tree):
        reason = _fault(node)
        if reason:
            raise TemplateSyntaxError(reason, getattr(node, "lineno", None) or 1, name)


def _every(node: nodes.Node) -> list[nodes.Node]:
    found, queue = [], [node]
    while queue:
        found.append(queue.pop())
        queue += found[-1].iter_child_nodes()
    return found


def _fault(node: nodes.Node) -> str:
    if isinstance(node, nodes.Tuple | nodes.List):
        # One that holds a name can hold itself, again and again: comparing two of those never ends.
        stored = isinstance(node, nodes.Tuple) and node.ctx == "store"
        held = any(isinstance(item, nodes.Name) for item in node.items)
        return "a list may hold texts and fields, not names" if held and not stored else ""
    if not isinstance(node, _NODES) or isinstance(node, nodes.FilterBlock):
        return f"{type(node).__name__} is not allowed here: print, if, for, set, macro, and import of our blocks are"
    if isinstance(node, nodes.Call | nodes.Filter | nodes.Test) and (node.dyn_args is not None or node.dyn_kwargs is not None):
        return "arguments are named one by one: a list with a star in front could be endless"
    if isinstance(node, nodes.Filter) and node.name not in _FILTERS:
        return f"the filter {node.name!r} is not allowed here; allowed are {', '.join(sorted(_FILTERS))}"
    if isinstance(node, nodes.Test) and node.name not in TESTS:
        return f"the test {node.name!r} is not allowed here; allowed are {', '.join(sorted(TESTS))}"
    if isinstance(node, nodes.Import) and not (isinstance(node.template, nodes.Const) and node.template.value in IMPORTABLE):
        return f"only {' and '.join(IMPORTABLE)} can be imported"
    named = node.name if isinstance(node, nodes.Name | nodes.Macro) else node.attr if isinstance(node, nodes.Getattr) else ""
    if named.startswith("_"):
        return f"the name {named!r} begins with an underscore"
    text = node.value if isinstance(node, nodes.Const) and isinstance(node.value, str) else ""
    return "a text holds half of a character" if any("\ud800" <= char <= "\udfff" for char in text) else ""


def checked(own: Mapping[str, str], compile_one: Callable[[str], Any]) -> None:
    """Refuse templates that could not be run, before anything is measured.

    Raises:
        UsageError: an unknown name, too long a file, wrong syntax, or something that is not allowed; with the line.
    """
    for name, text in own.items():
        if name not in TEMPLATES:
            raise UsageError(f"{name[:80]!r} is no template that can be replaced", advice=f"Those are {', '.join(TEMPLATES)}.")
        if len(text.encode("utf-8", "replace")) > MOST_SOURCE_BYTES:
            raise UsageError(f"{name} is larger than {MOST_SOURCE_BYTES >> 10} KiB", advice="A template holds no data.")
        if name.endswith(".css"):
            if "<" in text:
                line = text[: text.index("<")].count("\n") + 1
                raise UsageError(f"{name}:{line}: a style sheet has no '<'", advice="It could end the style element.")
            continue
        try:
            compile_one(name)
        except TemplateSyntaxError as error:
            raise UsageError(
                f"{name}:{error.lineno}: {error.message}", advice="docs/templates.md says what a template may hold."
            ) from None
        except (TemplateError, RecursionError, SyntaxError, ValueError, MemoryError) as error:  # too deep, or too long a number
            raise UsageError(
                f"{name}: {str(error) or 'it is nested too deeply'}", advice="docs/templates.md says what a template may hold."
            ) from None
