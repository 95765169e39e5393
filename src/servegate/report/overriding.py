"""A team's own templates in place of ours: what they may hold, and how they are run.

They come from the base branch, from people who may merge, and yet they are programs that run over hostile text. So a
template is read as data first: a list of node types is allowed, everything else is an error before anything is measured. What
is left can print fields of the page, branch, loop, and call its own macros and ours. It can not switch escaping off, reach an
attribute of a Python object, or build a text by repeating one. What was escaped is never cut, and what joins it is escaped for
the same kind of document. Code is written as elements, which no stray backtick around them opens (`elements`), and a document
that leaves a fence or a fold open is not used (`balance`). Steps, bytes and characters that filters and comparisons read are
counted, not seconds, so that one record gives one document on every machine: a loop in a loop ends at the count, wherever it
stands.

| file | rendered as | must hold |
|---|---|---|
| `comment.md.j2` | `comment.md` | the verdict's word |
| `report.md.j2` | `report.md` and `summary.md` | the verdict's word |
| `page.html.j2` | `report.html` | `{{ head }}` first: doctype, character set, content policy |
| `report.css` | the style sheet inside of it | no `<` |
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import BuiltinMethodType
from typing import Any

from jinja2 import BaseLoader, StrictUndefined, TemplateError, Undefined, nodes
from jinja2.environment import TemplateModule
from jinja2.exceptions import SecurityError
from jinja2.runtime import LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markupsafe import Markup, escape

from servegate.domain.plan import TEMPLATES
from servegate.report.template_rules import TESTS, refuse

MOST_STEPS = 300_000
"""Turns of loops and calls of macros in one document; ours takes some tens of thousands for the largest report."""
MOST_BYTES = 32 << 20
"""Bytes of UTF-8 that one document is made of."""
MOST_READ = 64 << 20
"""Characters that filters, comparisons and `+` are given in one document."""
MOST_JOINED = 1 << 20
"""Characters of a text that `+` makes."""
BROKEN = (TemplateError, ArithmeticError, TypeError, ValueError, LookupError, AttributeError, RecursionError)
"""What a template that was let through may still raise when it is run."""

_TEXT = frozenset({"strip", "startswith", "endswith"})
_LOOP = frozenset({"index", "index0", "revindex", "revindex0", "first", "last", "length", "depth", "cycle"})
_PRINTED = (str, int, float, type(None))


def byte_count(text: str) -> int:
    """Return the bytes that a text has in UTF-8; half of a character counts as what is written in its place."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


class Budget:
    """What is left of a document's steps and bytes."""

    def __init__(self) -> None:
        """Begin with all of both."""
        self.steps, self.bytes, self.characters = MOST_STEPS, MOST_BYTES, MOST_READ

    def step(self, size: int, steps: int = 1) -> None:
        """Count a turn of a loop or a call of a macro, with the text that stands in it."""
        self.steps -= steps
        self.spend(size)
        if self.steps < 0:
            raise SecurityError(f"takes more than {MOST_STEPS:,} steps")

    def read(self, value: Any) -> Any:
        """Count a text that is read, and give it back."""
        self.characters -= len(value) if isinstance(value, str) else 0
        if self.characters < 0:
            raise SecurityError(f"reads more than {MOST_READ >> 20} Mi characters")
        return value

    def spend(self, size: int) -> None:
        """Count bytes that are written."""
        self.bytes -= size
        if self.bytes < 0:
            raise SecurityError(f"writes more than {MOST_BYTES >> 20} MiB")


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja without what a report does not need: fields of our views, macros, loops, a few filters."""

    intercepted_binops = frozenset({"+"})

    def __init__(self, loader: BaseLoader, finalize: Callable[[Any], Any], filters: Mapping[str, Callable[..., Any]]) -> None:
        """Give the filters of one kind of document; `safe` is there for our own macros, and refused in a team's template."""
        super().__init__(
            loader=loader,
            autoescape=True,
            finalize=self._counted,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,
            cache_size=16,
        )
        self.printed = finalize
        self.budget = Budget()
        kept = {name: self.filters[name] for name in ("length", "upper", "lower", "safe")}
        known = {**kept, "e": self._escaped, "escape": self._escaped, **filters}
        self.filters = {name: self._reading(each) for name, each in known.items()}
        self.tests = {name: self.tests[name] for name in TESTS}
        self.globals = {"range": self._range, "_step": self._step, "_read": self._read, "_uncut": self._uncut}

    def render(self, name: str, **values: Any) -> str:
        """Render a template under a fresh budget. Raises what `BROKEN` lists."""
        self.budget = Budget()
        return "".join(self._pieces(name, values))

    def _pieces(self, name: str, values: Mapping[str, Any]) -> list[str]:
        pieces, size = [], 0
        for piece in self.get_template(name).generate(values):
            size += byte_count(piece)
            if size > MOST_BYTES:
                raise SecurityError(f"writes more than {MOST_BYTES >> 20} MiB")
            pieces.append(piece)
        return pieces

    def _step(self, size: int) -> bool:
        self.budget.step(size)
        return True

    def _read(self, value: Any) -> Any:
        return self.budget.read(value)

    def _reading(self, each: Callable[..., Any]) -> Callable[..., Any]:
        return lambda value, *arguments: each(self.budget.read(value), *arguments)

    def _escaped(self, value: Any) -> Markup:
        """Escape a text as printing it would; HTML's own escaping is none in Markdown."""
        return escape(self.printed(value))

    def _uncut(self, value: Any) -> Any:
        if isinstance(value, Markup):
            raise SecurityError("cuts a text that is escaped already, which could open it again")
        return value

    def _range(self, *bounds: int) -> range:
        """Give a range that costs its length, since a comparison can walk through it without a turn of any loop."""
        found = range(*bounds)
        self.budget.step(0, len(found))
        return found

    def _counted(self, value: Any) -> Any:
        if isinstance(value, Undefined):
            value = str(value)  # of an `if` without `else`: nothing; of a name that is not there: an error
        if not isinstance(value, _PRINTED) or isinstance(value, Macro):
            raise SecurityError(f"prints a {type(value).__name__}, which is no text")
        shown = self.printed(value)
        self.budget.spend(byte_count(str(shown)))
        return shown

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        if name in TEMPLATES:
            refuse(tree, name)
        blocks: list[nodes.For | nodes.Macro] = [*tree.find_all(nodes.For), *tree.find_all(nodes.Macro)]
        for block in blocks:
            size = sum(byte_count(data.data) for data in block.find_all(nodes.TemplateData))
            call = _call("_step", nodes.Const(size))
            block.body.insert(0, nodes.ExprStmt(call).set_lineno(block.lineno).set_environment(self))
            if isinstance(block, nodes.For) and block.test is not None:  # a turn that `if` leaves out never meets the body
                block.test = nodes.And(_call("_step", nodes.Const(0)), block.test)
        for compared in tree.find_all(nodes.Compare):
            compared.expr = _call("_read", compared.expr)
            for operand in compared.ops:
                operand.expr = _call("_read", operand.expr)
        for item in tree.find_all(nodes.Getitem):
            if name in TEMPLATES and isinstance(item.arg, nodes.Slice):
                item.node = _call("_uncut", item.node)
        tree.set_environment(self)
        return tree

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Allow fields and properties of the page's records, what a loop knows, and macros of an imported template."""
        if attr.startswith("_"):
            return False
        if isinstance(obj, LoopContext):
            return attr in _LOOP
        if isinstance(obj, TemplateModule):
            return isinstance(value, Macro)
        if isinstance(obj, str):
            return attr in _TEXT
        known = dataclasses.is_dataclass(obj) and not isinstance(obj, type)
        return known and not callable(value)

    def is_safe_callable(self, obj: Any) -> bool:
        """Allow macros, `range`, the loop's own cycle, and the few methods of a text."""
        if isinstance(obj, BuiltinMethodType):
            return isinstance(obj.__self__, str) and obj.__name__ in _TEXT
        cycle = getattr(obj, "__func__", None) is LoopContext.cycle
        return cycle or obj in (self._range, self._step, self._read, self._uncut) or isinstance(obj, Macro)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Add, within bounds."""
        if any(isinstance(side, str | list | tuple) for side in (left, right)) and len(left) + len(right) > MOST_JOINED:
            raise SecurityError(f"joins more than {MOST_JOINED:,} characters")
        if isinstance(left, Markup) != isinstance(right, Markup) and isinstance(left, str) and isinstance(right, str):
            left, right = self._escaped(left), self._escaped(right)
        self.budget.read(left)
        self.budget.read(right)
        return super().call_binop(context, operator, left, right)


def _call(name: str, value: nodes.Expr) -> nodes.Call:
    call = nodes.Call(nodes.Name(name, "load"), [value], [], None, None)
    call.set_lineno(value.lineno or 1)
    return call
