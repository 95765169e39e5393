"""Whether a text is code of a language that has a tree-sitter grammar: its tree holds no ERROR and no MISSING node.

A grammar is an editor's reader, laxer than a compiler: it knows no names, types or scopes. It takes statements and methods
outside of any function or class, as an answer shows them; what a grammar wants enclosed is read a second time within the
`wraps` of its language, and must then fill them (text that closes the wrap and opens another one is not code).

Text outside of a code fence gets one question more, since words are code in most languages: `Sure` is a JavaScript
expression, `Answer: yes` a labelled statement, and any sentence a Bash command.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from servegate.text.rulings import KEPT, Ruling, broken, undecided

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_BYTES = 16 * 1024
"""UTF-8. The time and the memory that a grammar takes to mend a hostile text grow with the square of its length."""
MAX_STEPS = 4_000
"""Hundreds of moves of the parser. 16 KiB of code take 200 to 1,300, 16 KiB of `->` take 160,000 (Go; 26 s)."""
MAX_DEPTH = 200
"""Brackets open at once, as many as CPython takes. Past the end of the text a grammar closes them all in one move, which no
count of moves can stop: for 16 KiB of `>/$(` (Java) that took 8 s and 4.5 GB."""
MAX_FRAGMENT_BYTES = 8 * 1024
"""A longer text is read once, not again within the wraps of its language."""


@dataclass(frozen=True)
class Grammar:
    """One language: where its grammars are (any may take a text), and what may enclose a fragment, (before, after)."""

    module: str
    functions: tuple[str, ...] = ("language",)
    wraps: tuple[tuple[str, str], ...] = ()
    ends_statements: bool = False
    """A statement must end with a semicolon, so that one is more than punctuation."""


GRAMMARS = {
    "javascript": Grammar("tree_sitter_javascript", wraps=(("(", "\n)"), ("class A {\n", "\n}\n"))),
    "typescript": Grammar(
        "tree_sitter_typescript", ("language_typescript", "language_tsx"), wraps=(("(", "\n)"), ("class A {\n", "\n}\n"))
    ),
    "bash": Grammar("tree_sitter_bash"),
    "go": Grammar("tree_sitter_go", wraps=(("func f() {\n", "\n}\n"),)),
    "rust": Grammar("tree_sitter_rust", wraps=(("fn f() {\n", "\n}\n"), ("impl A {\n", "\n}\n")), ends_statements=True),
    "java": Grammar("tree_sitter_java", wraps=(("class A {\n", "\n}\n"),), ends_statements=True),
    "c": Grammar("tree_sitter_c", wraps=(("void f(void) {\n", "\n}\n"),), ends_statements=True),
}

_WORDLIKE = frozenset(
    [*",.:!?-/&'\"`", "as", "await", "delete", "in", "instanceof", "is", "new", "of", "satisfies", "typeof", "void", "yield"]
)
"""Anonymous tokens that prose holds too: punctuation, and operators spelled as English words."""
_NAMES_AND_LITERALS = re.compile(r"(?:.*_)?(?:identifier|name|number|literal|string|true|false|null|this|undefined)")
_MARKUP = re.compile(r"jsx_(?:self_closing_)?(?:element|fragment)")
_DIRECTIVE = re.compile(
    r"#\s*(?:assert|elifn?def|embed|error|ident|import|include_next|line|pragma|sccs|unassert|undef|warning)"
)
"""Those that the grammar has no rule for: it takes any word after `#`."""
_BRACKET = re.compile(rb"[(){}\[\]]")
_PIECE = 4_096
"""Bytes that the parser is given at once: only a parser that is fed lets itself be stopped."""
_CAPITALISED = re.compile(r"[A-Z][a-z]*(?:'[a-z]+)?[,.:!?]*")
_BULLET = re.compile(r"\d+[.)]|[-*•]")
_PLAIN_WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*[,.:!?]*|\d+[,.:!?]*")
_ONE_WORD = re.compile(r"[^\s/.~$]\S*")
"""`ls` and `Sure` alone; a path or a variable is code."""
_SENTENCE_END = re.compile(r".*[A-Za-z][.:!?]", re.DOTALL)


class _OutOfStepsError(Exception):
    pass


def read_tree(language: str, source: str, *, alone: bool) -> Ruling:
    """Return whether a text is code. `alone`: it stands outside of any fence, where words alone are prose.

    Raises UnicodeEncodeError on a lone surrogate.
    """
    encoded = source.removeprefix("\ufeff").replace("\r\n", "\n").encode()
    if len(encoded) > MAX_BYTES:
        return undecided(f"longer than {MAX_BYTES // 1024} KiB")
    if b"\0" in encoded:
        return broken("a NUL character")
    if _depth(encoded) > MAX_DEPTH:
        return undecided(f"more than {MAX_DEPTH} brackets deep")
    try:
        return _read(language, encoded, alone=alone)
    except _OutOfStepsError:
        return undecided("takes the parser too long")


def _read(language: str, encoded: bytes, *, alone: bool) -> Ruling:
    first: Ruling | None = None
    for parser in _parsers(language):
        root = _parse(parser, encoded + b"\n")
        if not root.has_error:
            return _judged(language, root, alone=alone)
        first = first or broken(_fault(root))
        for before, after in GRAMMARS[language].wraps if len(encoded) <= MAX_FRAGMENT_BYTES else ():
            wrapped = before.encode() + encoded + after.encode()
            root = _parse(parser, wrapped)
            if not root.has_error and (body := _filled(root, wrapped, before)) is not None:
                return _judged(language, body, alone=alone)
    return first or broken("no grammar")


@lru_cache(maxsize=len(GRAMMARS))
def _parsers(language: str) -> tuple[Parser, ...]:
    """Imported at the first text: a gate without such contracts never loads a grammar."""
    from tree_sitter import Language, Parser

    grammar = GRAMMARS[language]
    module = importlib.import_module(grammar.module)
    return tuple(Parser(Language(getattr(module, function)())) for function in grammar.functions)


def _parse(parser: Parser, text: bytes) -> Node:
    """Return the root of the tree. Raises _OutOfStepsError."""
    left = MAX_STEPS

    def stop(_offset: int, _has_error: bool) -> bool:
        nonlocal left
        left -= 1
        return left < 0

    try:
        return parser.parse(lambda offset, _point: text[offset : offset + _PIECE], progress_callback=stop).root_node
    except ValueError:  # stopped
        parser.reset()
        raise _OutOfStepsError from None


def _depth(text: bytes) -> int:
    """Return how many brackets are open at once at most, those in strings and comments included."""
    deepest = depth = 0
    for mark in _BRACKET.findall(text):
        depth = depth + 1 if mark in b"([{" else max(depth - 1, 0)
        deepest = max(deepest, depth)
    return deepest


def _filled(root: Node, wrapped: bytes, before: str) -> Node | None:
    """Return the node between the wrap's own brackets, None where the text closed them itself."""
    end = len(wrapped.rstrip())
    last = root.descendant_for_byte_range(end - 1, end)
    body = None if last is None else last.parent
    return body if body is not None and body.start_byte == len(before.rstrip()) - 1 and body.end_byte == end else None


def _fault(root: Node) -> str:
    node = root
    while not node.is_error and not node.is_missing:
        child = next((child for child in node.children if child.has_error or child.is_missing), None)
        if child is None:
            break
        node = child
    return f"{f'{node.type!r} is missing' if node.is_missing else 'a syntax error'} at line {node.start_point.row + 1}"


def _judged(language: str, root: Node, *, alone: bool) -> Ruling:
    statements = [node for node in root.named_children if not node.type.endswith("comment") and node.type != "empty_statement"]
    if not statements:
        return broken("no code")
    if language == "c" and any(node.type == "preproc_call" and not _is_directive(node) for node in statements):
        return broken("a line that begins with # and is no directive")
    if not alone:
        return KEPT
    if any(_is_markup(node) for node in statements):
        return broken("markup, not code")
    if language == "bash":
        return broken("words, not code") if _is_prose(root, statements) else KEPT
    if all(_is_bare(node) for node in statements) or _only_words(statements, GRAMMARS[language]):
        return broken("words, not code")
    return KEPT


def _is_directive(node: Node) -> bool:
    directive = node.child_by_field_name("directive")
    return directive is not None and _DIRECTIVE.fullmatch(_text(directive)) is not None


def _is_markup(node: Node) -> bool:
    """JSX is JavaScript, and so `<think>…</think>` before a function would be."""
    inner = _inner(node)
    return inner is not None and _MARKUP.fullmatch(inner.type) is not None


def _is_bare(node: Node) -> bool:
    """A statement that is one name or literal."""
    return _NAMES_AND_LITERALS.fullmatch((_inner(node) or node).type) is not None


def _inner(node: Node) -> Node | None:
    return node.named_children[0] if node.type == "expression_statement" and node.named_child_count == 1 else None


def _only_words(statements: list[Node], grammar: Grammar) -> bool:
    """No keyword, no bracket, no operator that prose lacks."""
    return all(
        leaf.type != "primitive_type"
        if leaf.is_named
        else leaf.type in _WORDLIKE or not leaf.type.strip() or (leaf.type == ";" and not grammar.ends_statements)
        for leaf in _leaves(statements)
    )


def _leaves(nodes: list[Node]) -> Iterator[Node]:
    """Return the leaves in order; no recursion, the text may nest as deep as it is long."""
    waiting = nodes[::-1]
    while waiting:
        node = waiting.pop()
        if node.child_count == 0:
            yield node
        else:
            waiting.extend(reversed(node.children))


def _is_prose(root: Node, statements: list[Node]) -> bool:
    """A sentence is a Bash command. Told by its capital, its full stop or its bullet; `here is the script` is not told."""
    if len(statements) == 1 and statements[0].type == "command" and _ONE_WORD.fullmatch(_text(statements[0])):
        return True
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting.extend(node.named_children)
        if node.type != "command":
            continue
        name, *arguments = _text(node).split() or [""]
        if not all(_PLAIN_WORD.fullmatch(word) for word in arguments):
            continue
        sentence = len(arguments) >= 2 and name not in ("echo", "printf") and _SENTENCE_END.fullmatch(arguments[-1])
        if _CAPITALISED.fullmatch(name) or _BULLET.fullmatch(name) or (sentence and _PLAIN_WORD.fullmatch(name)):
            return True
    return False


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")
