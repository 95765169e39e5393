"""The contract about code: every block of the language parses, or the whole answer does. Text is read, never executed.

Blocks that name the language are the code, and blocks that name none are then what it prints. Where no block names it, those
that name none are the code; when only some of them parse, nothing tells code from what it prints, and nothing is said.

Python is read by the parser of the Python that runs servegate (of 3.11, syntax of 3.12 is broken), the others by kept
grammars (`code_trees`, `code_sql`), which are imported at the first answer that needs them. That code parses says nothing of
names, types or what it does.
"""

from __future__ import annotations

import ast
import difflib
import textwrap
import warnings

from servegate.domain.records import Json
from servegate.text.code_sql import read_sql
from servegate.text.code_trees import GRAMMARS, read_tree
from servegate.text.contract_formats import PARSER_ERRORS
from servegate.text.fences import fenced_blocks
from servegate.text.rulings import KEPT, Ruling, State, broken, one_line, undecided

FENCES: dict[str, tuple[str, ...]] = {
    "python": ("python", "py", "python3"),
    "javascript": ("javascript", "js", "jsx", "mjs", "cjs", "node"),
    "typescript": ("typescript", "ts", "tsx", "mts", "cts"),
    "sql": (
        *("sql", "postgresql", "postgres", "psql", "pgsql", "mysql", "mariadb", "sqlite", "sqlite3"),
        *("tsql", "t-sql", "mssql", "bigquery"),
    ),
    "bash": ("bash", "sh", "shell"),
    "go": ("go", "golang"),
    "rust": ("rust", "rs"),
    "java": ("java",),
    "c": ("c", "h"),
}
"""Language -> what a fence calls it. A fence that names nothing holds the language that was asked for."""
LANGUAGES = tuple(FENCES)

_PROMPT, _MORE = ">>> ", "... "
_SPOKEN = (
    *(ast.Module, ast.Expr, ast.AnnAssign, ast.Name, ast.Attribute, ast.Constant, ast.Tuple, ast.expr_context),
    *(ast.Compare, ast.In, ast.NotIn, ast.Is, ast.IsNot, ast.BoolOp, ast.boolop),
    *(ast.BinOp, ast.Sub, ast.Div, ast.BitAnd, ast.UnaryOp, ast.USub, ast.Not),
)
"""`Sure`, `42`, `Answer: yes`, `Works in Chrome`, `yes or no` parse as Python; outside a code block they are prose."""


def problem_with_language(value: Json) -> str | None:
    """Only languages with a parser here; code in another one would pass unread."""
    if isinstance(value, str) and value in FENCES:
        return None
    word = value.lower() if isinstance(value, str) else ""
    meant = next((language for language, names in FENCES.items() if word in names), None)
    meant = meant or next(iter(difflib.get_close_matches(word, LANGUAGES, n=1)), None)
    hint = f"; did you mean {meant!r}?" if meant else ""
    return f"{value!r} is not supported yet{hint} Supported: {', '.join(LANGUAGES)}"


def code_rule(language: Json, text: str, cut: bool) -> Ruling:
    """Every fenced block of the language parses, or every one that names none; without fences the whole answer does."""
    if not isinstance(language, str) or language not in FENCES:
        return undecided("this servegate does not know the language")
    blocks = fenced_blocks(text)
    if not blocks:
        return undecided("cut before its end") if cut else _read(language, text, alone=True)
    numbered = list(enumerate(blocks, 1))
    named = [(number, block) for number, block in numbered if block.language in FENCES[language]]
    asked = named or [(number, block) for number, block in numbered if not block.language]
    if not asked:  # the end that was cut off may have held one
        return undecided("cut before its end") if cut else broken(f"no {language} block, but {blocks[0].language!r}")
    rulings: list[Ruling] = []
    for number, block in asked:
        ruling = _read(language, block.body, alone=False) if block.closed or not cut else undecided("cut within it")
        rulings.append(ruling if ruling is KEPT else Ruling(ruling.state, one_line(f"block {number}: {ruling.why}")))
    states = {ruling.state for ruling in rulings}
    if not named and states >= {State.KEPT, State.BROKEN}:
        return undecided("blocks that name no language, of which some are code")
    order = (State.BROKEN, State.OPEN, State.KEPT)
    return min(rulings, key=lambda ruling: order.index(ruling.state))


def _read(language: str, source: str, *, alone: bool) -> Ruling:
    try:
        if language in GRAMMARS:
            return read_tree(language, source, alone=alone)
        return read_sql(source, alone=alone) if language == "sql" else _python(source, alone=alone)
    except PARSER_ERRORS as error:
        line = getattr(error, "lineno", None)
        return broken(f"{getattr(error, 'msg', None) or type(error).__name__}" + (f" at line {line}" if line else ""))


def _python(source: str, *, alone: bool) -> Ruling:
    """Raises one of PARSER_ERRORS."""
    source = source.removeprefix("\ufeff")
    if not alone:  # a method is shown as it stands in its class, and examples as a session
        source = textwrap.dedent(source)
        source = _typed(source) if source.lstrip().startswith(_PROMPT) else source
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the candidate's invalid escapes are not our warnings
        tree = ast.parse(source)
    if not tree.body:
        return broken("no code")
    if alone and not any(mark in source for mark in "([{=") and all(isinstance(node, _SPOKEN) for node in ast.walk(tree)):
        return broken("words, not code")
    return KEPT


def _typed(session: str) -> str:
    """Return what was typed in a session with the interpreter; what it answered is no code."""
    lines = [f"{line} " for line in session.split("\n")]
    return "\n".join(line[len(_PROMPT) :] for line in lines if line.startswith((_PROMPT, _MORE)))
