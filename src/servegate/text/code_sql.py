"""Whether a text is SQL: some widespread dialect reads every statement of it.

Dialects differ in what they take, so any of six will do. What sqlglot does not know it keeps unread as a `Command`
(`VACUUM`, most of `EXPLAIN`), and it cuts the bodies of procedures apart: neither is evidence either way. The reader is
written in Python and tries again from the same place where a text is ambiguous, so it runs on a budget of steps, not only of
characters.
"""

from __future__ import annotations

import logging
import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from servegate.text.rulings import KEPT, Ruling, broken, undecided

if TYPE_CHECKING:
    from sqlglot.expressions import Expr
    from sqlglot.parser import Parser

DIALECTS = ("", "postgres", "mysql", "tsql", "bigquery", "sqlite")
MAX_CHARACTERS = 16 * 1024
MAX_STEPS = 200_000
"""Moves over tokens, all dialects together."""

_STATEMENTS = (
    "Query Values DML DDL Drop Alter TruncateTable Grant Revoke Merge Copy LoadData Pragma Declare Execute Attach Detach Cache "
    "Uncache Refresh EndStatement"
)
_SPOKEN = "Transaction Commit Rollback Use Show Describe Set Comment Analyze Kill"
"""Statements that a sentence may read like: `use it`, `describe me`."""
_BODIES = "Block Heredoc RawString"
_NAMES = f"{_STATEMENTS} {_SPOKEN} {_BODIES} Command Create From Select"
_MARKS = re.compile(r"[;=(*'\"@0-9]")
_PROCEDURE = re.compile(
    r"^[^\S\n]*(?:DELIMITER\b|GO[^\S\n]*$|\\\w|DO\s+\$|DECLARE\b|CREATE\b[^;]{0,80}\b(?:PROCEDURE|FUNCTION|TRIGGER|EVENT|PACKAGE)\b)",
    re.IGNORECASE | re.MULTILINE,
)
"""Bodies hold statements of their own and clients have commands of their own; sqlglot cuts both at every semicolon. The space
before them ends with the line: of `\\s*` every empty line would try all that follow it."""
_NOT_KNOWN = "a statement that the parser does not know"


class _OutOfStepsError(Exception):
    pass


def read_sql(source: str, *, alone: bool) -> Ruling:
    """Return whether a text is SQL. `alone`: it stands outside of any fence, where words alone are prose.

    Raises UnicodeEncodeError on a lone surrogate.
    """
    source = source.removeprefix("\ufeff")
    source.encode()
    if len(source) > MAX_CHARACTERS:
        return undecided(f"longer than {MAX_CHARACTERS // 1024} KiB")
    if "\0" in source:
        return broken("a NUL character")
    lacking = _lacking()
    if lacking:
        return undecided(f"the installed sqlglot has no {', '.join(lacking)}, which this reading rests on")
    from sqlglot.errors import ParseError, SqlglotError

    left, whys, unknown = [MAX_STEPS], list[str](), False
    for dialect in DIALECTS:
        try:
            problem = _problem([tree for tree in _trees(dialect, source, left) if tree is not None], source, alone=alone)
        except _OutOfStepsError:
            return undecided("takes the parser too long")
        except RecursionError:
            return broken("nested too deeply")
        except SqlglotError as error:
            found = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
            line = found.get("line")
            whys.append(f"{found.get('description') or 'a syntax error'}{f' at line {line}' if line else ''}")
            continue
        if problem is None:
            return KEPT
        unknown = unknown or problem == _NOT_KNOWN
        whys.append(problem)
    if _PROCEDURE.search(source) and not (alone and (_PROCEDURE.match(source.lstrip()) is None or _reads_like_words(source))):
        return undecided("a procedure or a client's command, which the parser does not know")
    return undecided(_NOT_KNOWN) if unknown else broken(whys[0])


def _problem(trees: list[Expr], source: str, *, alone: bool) -> str | None:
    """What keeps these statements from being SQL; `_NOT_KNOWN` where nothing can be said."""
    from sqlglot import expressions

    if not trees:
        return "no code"
    unread = any(tree.find(expressions.Command) or _holds_a_body(tree) for tree in trees)
    if (
        alone
        and _reads_like_words(source)
        and (unread or any(isinstance(tree, _classes(_SPOKEN)) or _is_bare(tree) for tree in trees))
    ):
        return "words, not code"
    if unread:
        return _NOT_KNOWN
    if any(isinstance(tree, expressions.Select) and not tree.expressions for tree in trees) or any(
        not select.expressions and select.find(expressions.From) is None  # within another one PostgreSQL takes `SELECT FROM t`
        for tree in trees
        for select in tree.find_all(expressions.Select)
    ):
        return "SELECT of nothing"
    statements = _classes(f"{_STATEMENTS} {_SPOKEN}")
    return None if all(isinstance(tree, statements) for tree in trees) else "an expression, not a statement"


def _reads_like_words(source: str) -> bool:
    """Nothing but words, of which the first is not written as a keyword: `Select one`, `use it`, but not `USE shop`."""
    words = source.split()
    return not (words[0].isupper() and len(words[0]) > 1) and _MARKS.search(source) is None


def _holds_a_body(tree: Expr) -> bool:
    """Whether a statement creates what holds statements of its own: a text that sqlglot keeps, or a block that it guesses at.

    It takes `CREATE PROCEDURE p !!! x` for one with the body `!!! x`, and reads the END of a block as the name of a column.
    """
    from sqlglot import expressions

    return isinstance(tree, expressions.Create) and isinstance(tree.expression, _classes(_BODIES))


def _is_bare(tree: Expr) -> bool:
    from sqlglot import expressions

    return isinstance(tree, expressions.Select) and tree.find(expressions.From) is None


@lru_cache(maxsize=4)
def _classes(names: str) -> tuple[type, ...]:
    from sqlglot import expressions

    return tuple(getattr(expressions, name) for name in names.split())


@cache
def _lacking() -> tuple[str, ...]:
    """Return what another sqlglot calls otherwise: without one of these names a text would be ruled on by half of the rules."""
    from sqlglot import expressions
    from sqlglot.parser import Parser

    known = [name for name in _NAMES.split() if not hasattr(expressions, name)]
    return (*known, *(f"Parser.{name}" for name in ("_advance", "parse") if not hasattr(Parser, name)))


def _trees(dialect: str, source: str, left: list[int]) -> list[Expr | None]:
    """Return one tree for each statement. Raises SqlglotError, RecursionError, or _OutOfStepsError when `left` is used up."""
    from sqlglot.dialects.dialect import Dialect

    reader = Dialect.get_or_raise(dialect)
    tokens = reader.tokenize(source)
    parser = _stepping(reader.parser_class)(dialect=reader)
    parser.left = left  # type: ignore[attr-defined]
    return parser.parse(tokens, source)


@lru_cache(maxsize=len(DIALECTS))
def _stepping(base: type[Parser]) -> type[Parser]:
    """Return a parser that counts its moves: sqlglot itself has no limit of time."""
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it warns of every Command

    class Stepping(base):  # type: ignore[misc, valid-type]
        left: list[int]

        def _advance(self, times: int = 1) -> None:
            self.left[0] -= 1
            if self.left[0] < 0:
                raise _OutOfStepsError
            super()._advance(times)

    return Stepping
