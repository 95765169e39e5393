"""Contracts about the form of an answer: JSON, JSON Schema, XML, YAML. Text is parsed, never executed or fetched.

Each rule takes the value from the prompt file, the answer, and whether the answer was cut at its token limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from xml.etree.ElementTree import ParseError

import defusedxml  # type: ignore[import-untyped]
import defusedxml.ElementTree  # type: ignore[import-untyped]
import jsonschema_rs
import yaml

from servegate.domain.records import Json
from servegate.text import strict_json
from servegate.text.fences import fenced_blocks
from servegate.text.rulings import KEPT, Ruling, broken, undecided

PARSER_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError)
"""What parsers raise on hostile text; UnicodeError is a ValueError."""
MAX_YAML = 32 * 1024
"""The YAML parser is written in Python: about a second for so many characters."""


def problem_with_form(value: Json) -> str | None:
    """`true`: the whole answer; `"fenced"`: the whole answer or its only fenced block."""
    return None if value is True or value == "fenced" else f'must be true or "fenced", not {value!r}'


def problem_with_schema(value: Json) -> str | None:
    """A schema that cannot be compiled here, external references included, is refused."""
    if not isinstance(value, dict):
        return f"must be a JSON Schema (an object), not {type(value).__name__}"
    try:
        _compiled(value)
    except ValueError as error:
        return str(error).split("\n", 1)[0]
    return None


def json_rule(form: Json, text: str, cut: bool) -> Ruling:
    """JSON object or array; a bare number or word is JSON too, but nobody who asks for JSON means that."""
    return _in_form(form, text, cut, lambda part, part_cut: _read_json(part, part_cut)[0])


def json_object_rule(text: str, cut: bool) -> Ruling:
    """One strict JSON object, as the arguments of a call are."""
    ruling, value = _read_json(text, cut)
    return broken("an array, not an object") if ruling is KEPT and not isinstance(value, dict) else ruling


def json_schema_rule(schema: Json, text: str, cut: bool) -> Ruling:
    """Strict JSON that satisfies the schema (drafts 4 to 2020-12; `pattern` runs on a backtracking budget)."""
    ruling, value = _read_json(text, cut, any_value=True)
    if ruling is not KEPT:
        return ruling
    try:
        error = next(_compiled(schema).iter_errors(value), None)
    except ValueError as raised:  # a lone surrogate, or a pattern that ran out of its budget
        return broken(f"cannot be checked: {raised}")
    if error is None:
        return KEPT
    place = "/".join(str(part) for part in error.instance_path)
    return broken(f"at /{place}: {error.message}")


def xml_rule(form: Json, text: str, cut: bool) -> Ruling:
    """Well-formed XML without a document type, so that no entity can be declared."""
    return _in_form(form, text, cut, _read_xml)


def yaml_rule(form: Json, text: str, cut: bool) -> Ruling:
    """A YAML mapping or sequence. Any prose is a YAML text, so scalars do not count."""
    return _in_form(form, text, cut, _read_yaml)


def _in_form(form: Json, text: str, cut: bool, read: Callable[[str, bool], Ruling]) -> Ruling:
    whole = read(text, cut)
    if form is True or whole is KEPT:
        return whole
    blocks = fenced_blocks(text)
    if not blocks:
        return whole
    if len(blocks) > 1:
        return broken(f"{len(blocks)} fenced blocks, expected one")
    return read(blocks[0].body, cut and not blocks[0].closed)


def _read_json(text: str, cut: bool, *, any_value: bool = False) -> tuple[Ruling, Json]:
    try:
        value = strict_json.parse(text)
    except strict_json.NotJsonError as error:
        ruling = undecided("cut before its end") if cut and error.unfinished else broken(str(error))
        return ruling, None
    if not any_value and not isinstance(value, dict | list):
        return broken(f"a bare {type(value).__name__}, not an object or array"), None
    return KEPT, value


def _compiled(schema: dict[str, Json]) -> Any:
    """Return the compiled schema. Raises ValueError when it is no schema or refers to another document."""
    return _compiled_from(json.dumps(schema, sort_keys=True))


@lru_cache(maxsize=512)
def _compiled_from(schema: str) -> Any:
    return jsonschema_rs.validator_for(json.loads(schema), retriever=_refuse)


def _refuse(uri: str) -> Any:
    raise ValueError(f"external references are not followed: {uri}")


def _read_xml(text: str, cut: bool) -> Ruling:
    if cut and text.lstrip().startswith("<"):
        return undecided("cut before its end")
    try:
        defusedxml.ElementTree.fromstring(text.strip(), forbid_dtd=True)
    except defusedxml.DefusedXmlException as error:
        return broken(f"a document type or entity is not accepted ({type(error).__name__})")
    except (ParseError, *PARSER_ERRORS) as error:
        return broken(str(error) or type(error).__name__)
    return KEPT


def _read_yaml(text: str, cut: bool) -> Ruling:
    """Compose the node graph only: values are not built, so dates are welcome and aliases cannot grow."""
    if cut:
        return undecided("cut before its end")
    if len(text) > MAX_YAML:
        return broken(f"longer than {MAX_YAML} characters")
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, *PARSER_ERRORS) as error:
        return broken(getattr(error, "problem", None) or getattr(error, "reason", None) or type(error).__name__)
    if not isinstance(root, yaml.CollectionNode):
        return broken("plain text, not a mapping or sequence")
    repeated = _repeated_key(root)
    return KEPT if repeated is None else broken(f"the key {repeated[:40]!r} is repeated")


def _repeated_key(root: yaml.Node) -> str | None:
    waiting, seen = [root], set[int]()
    while waiting:
        node = waiting.pop()
        if id(node) in seen or not isinstance(node, yaml.CollectionNode):
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
            continue
        keys = [(key.tag, key.value) for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(set(keys)) != len(keys):
            return next(str(value) for tag, value in keys if keys.count((tag, value)) > 1)
        waiting.extend(value for _, value in node.value)
    return None
