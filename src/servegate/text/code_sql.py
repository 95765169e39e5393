"""Whether a text is SQL: some widespread dialect reads every statement of it.

Dialects differ in what they take, so any of six will do. What sqlglot does not know it keeps unread as a `Command`
(`VACUUM`, triggers, most of `EXPLAIN`): that is no evidence either way. The reader is written in Python and tries again from
the same place where a text is ambiguous, so it runs on a budget of steps, not only of characters.
"""

from __future__ import annotations

import logging
from functools import lru_cache
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
    return undecided(_NOT_KNOWN) if unknown else broken(whys[0])


def _problem(trees: list[Expr], source: str, *, alone: bool) -> str | None:
    """What keeps these statements from being SQL; `_NOT_KNOWN` where nothing can be said."""
    from sqlglot import expressions

    if not trees:
        return "no code"
    spoken = alone and not any(character in source for character in ";=(")
    if any(isinstance(tree, _classes(_SPOKEN)) or tree.find(expressions.Command) for tree in trees) and spoken:
        return "words, not code"
    if any(tree.find(expressions.Command) for tree in trees):
        return _NOT_KNOWN
    statements = _classes(f"{_STATEMENTS} {_SPOKEN}")
    return None if all(isinstance(tree, statements) for tree in trees) else "an expression, not a statement"


@lru_cache(maxsize=4)
def _classes(names: str) -> tuple[type, ...]:
    from sqlglot import expressions

    return tuple(getattr(expressions, name) for name in names.split() if hasattr(expressions, name))


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
