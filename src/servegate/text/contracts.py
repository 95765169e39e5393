"""Contracts: what an answer must satisfy, whatever its wording, and whether it does.

A contract is the `expect` of a prompt: a mapping of kinds to values, all of which must hold.

    {"json": true}                 the whole answer is a JSON object or array, read strictly
    {"json": "fenced"}             the same, or exactly one fenced block that is
    {"json_schema": {...}}         the whole answer is JSON and satisfies the schema; no $ref is fetched
    {"xml": true | "fenced"}       a well-formed document without a DTD
    {"yaml": true | "fenced"}      one mapping or sequence without repeated keys, merge keys or tags
    {"regex": "..."}               the pattern is found somewhere in the answer (anchor it with ^ and $)
    {"one_of": ["yes", "no"]}      the answer is one of these, less case and the punctuation around it
    {"max_words": 20}              at least one and at most so many words
    {"number": 42}                 the last number of the answer (after `####`, where there is one) has this value
    {"code": "python"}             every fenced Python block parses, or the whole answer does; nothing is executed
                                   (or javascript, typescript, sql, bash, go, rust, java, c: `contract_code`)
    {"tool_call": {"name": "f"}}   exactly one call of this tool (`contract_calls`); only of prompts with `tools`

A ruling has three states, because an answer that was cut by its token limit may only lack its end: `open` says that the
text so far is no evidence either way. Each kind is one small function; a new kind is one more line in KINDS.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from servegate.domain.records import Json
from servegate.text import contract_calls as calls
from servegate.text import contract_code as code
from servegate.text import contract_formats as formats
from servegate.text import contract_values as values
from servegate.text.rulings import KEPT, MAX_CHARACTERS, Ruling, State, one_line, undecided


@dataclass(frozen=True)
class Kind:
    """One kind of contract: `problem` checks the value that a prompt file gives it, `rule` judges a text."""

    problem: Callable[[Json], str | None]
    rule: Callable[[Json, str, bool], Ruling]


KINDS: dict[str, Kind] = {
    "json": Kind(formats.problem_with_form, formats.json_rule),
    "json_schema": Kind(formats.problem_with_schema, formats.json_schema_rule),
    "xml": Kind(formats.problem_with_form, formats.xml_rule),
    "yaml": Kind(formats.problem_with_form, formats.yaml_rule),
    "code": Kind(code.problem_with_language, code.code_rule),
    "regex": Kind(values.problem_with_pattern, values.regex_rule),
    "one_of": Kind(values.problem_with_choices, values.one_of_rule),
    "max_words": Kind(values.problem_with_count, values.max_words_rule),
    "number": Kind(values.problem_with_number, values.number_rule),
    "tool_call": Kind(calls.problem_with_call, lambda _value, _text, _cut: undecided("a tool call is no text")),
}


def problem_with(expect: Json) -> str | None:
    """Return what is wrong with the `expect` of a prompt, in one line, or None."""
    if not isinstance(expect, dict) or not expect:
        return f'must be an object such as {{"json": true}}, not {one_line(repr(expect))}'
    for name, value in expect.items():
        if name not in KINDS:
            close = difflib.get_close_matches(name, KINDS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            return f"the kind {one_line(repr(name))} is not supported yet{hint} Supported: {', '.join(KINDS)}"
        if (problem := KINDS[name].problem(value)) is not None:
            return f"{name}: {problem}"
    return None


def judge(expect: dict[str, Json], text: str, *, cut: bool, tool_calls: Sequence[Mapping[str, Json]] | None = None) -> Ruling:
    """Return whether an answer keeps a contract that `problem_with` accepted.

    `tool_calls` are {"name", "arguments"}, empty where a call was possible and none was made, None where none was.
    `cut`: the answer hit its token limit. Broken by one kind is broken; open by one and broken by none is open.
    """
    if len(text) > MAX_CHARACTERS:
        return Ruling(State.BROKEN, f"longer than {MAX_CHARACTERS} characters")
    rulings = {name: _ruling(name, value, text, cut, tool_calls) for name, value in expect.items()}
    for state in (State.BROKEN, State.OPEN):
        for name, ruling in rulings.items():
            if ruling.state is state:
                return Ruling(state, one_line(f"{name}: {ruling.why}"))
    return KEPT


def _ruling(name: str, value: Json, text: str, cut: bool, tool_calls: Sequence[Mapping[str, Json]] | None) -> Ruling:
    """A run directory of a newer servegate may name a kind that this one cannot judge."""
    if name == "tool_call" and tool_calls is not None:
        return calls.call_rule(value, tool_calls, cut)
    return KINDS[name].rule(value, text, cut) if name in KINDS else undecided("this servegate does not know the kind")


__all__ = ["KINDS", "Kind", "Ruling", "State", "judge", "problem_with"]
