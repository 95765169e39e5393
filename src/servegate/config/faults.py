"""Validation in the words of the person who wrote the file: where, which key, its value, what is allowed, what was meant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from servegate.config.schema import GATE_NAME
from servegate.errors import UsageError


def validated(model: type[Any], data: Any, name: str, sources: Mapping[str, str], prefix: tuple[str, ...]) -> Any:
    """Validate; every fault becomes a line with file, line, key, value, what is allowed and a near name."""
    try:
        return model.model_validate(tuples(data) if isinstance(data, dict) else data)
    except ValidationError as error:
        items = error.errors(include_url=False)
        # What is wrong inside of a value explains why the value itself is wrong, so only the innermost fault is told;
        # an unknown key explains a missing one (`gatee`), so it comes first.
        inner = {item["loc"][:size] for item in items for size in range(len(item["loc"]))}
        items = sorted((i for i in items if i["loc"] not in inner), key=lambda item: item["type"] != "extra_forbidden")
        faults = [fault(model, item, name, sources, prefix) for item in items]
        raise UsageError(faults[0], why="\n".join(faults[1:6])) from None


def fault(model: type[BaseModel], item: Any, name: str, sources: Mapping[str, str], prefix: tuple[str, ...]) -> str:
    """Return one of the validator's faults as a line: place, key, value, and what is allowed."""
    key = (*prefix, *(part for part in item["loc"] if not (isinstance(part, str) and part.startswith("function-"))))
    place = place_of(name, sources, key)
    dotted = ".".join(map(str, key)) or "the whole file"
    if item["type"] == "extra_forbidden":
        allowed = sorted(_fields_at(model, item["loc"][:-1]))
        return f"{place}: unknown key {dotted!r}{did_you_mean(str(key[-1]), allowed)} (allowed here: {', '.join(allowed)})"
    if item["type"] == "missing":
        return f"{place}: {dotted!r} is missing"
    if item["type"] == "value_error" and isinstance(
        item.get("input"), dict
    ):  # a rule about several keys, one of which it names
        said = _allowed(item)
        named = said.split(" ", 1)[0]
        if named in _fields_at(model, item["loc"]):
            key = (*key, named)
            place, dotted, said = place_of(name, sources, key), ".".join(map(str, key)), said[len(named) + 1 :]
        return f"{place}: {dotted!r} {said}" if said.startswith(("is ", "holds ")) else f"{place}: {dotted!r}: {said}"
    value = repr(item.get("input"))
    shown = value if len(value) <= 80 else f"{value[:77]}..."
    return f"{place}: {dotted!r} is {shown}: {_allowed(item)}"


def _allowed(item: Any) -> str:
    """Say what is allowed in the words of YAML, not in those of the validator."""
    kind, context = item["type"], item.get("ctx") or {}
    if kind == "tuple_type":
        return f"it must be a list, such as [{item.get('input')}]"
    if kind == "string_pattern_mismatch" and context.get("pattern") == f"^{GATE_NAME}$":
        return "a gate's name has 1 to 40 characters, lower-case letters, digits and dashes"
    if kind in {"model_type", "dict_type"}:
        return "it must be a mapping (`key: value` lines)"
    if kind == "literal_error" and isinstance(item.get("input"), str):
        expected = str(context.get("expected", ""))
        names = re.findall("'([^']*)'", expected)
        return f"allowed: {expected}{did_you_mean(item['input'], names)}"
    return str(item["msg"]).removeprefix("Value error, ")


def _fields_at(model: type[BaseModel], location: Iterable[int | str]) -> list[str]:
    current: Any = model
    for part in location:
        if isinstance(current, type) and issubclass(current, BaseModel) and part in current.model_fields:
            current = current.model_fields[str(part)].annotation
        while not (isinstance(current, type) and issubclass(current, BaseModel)):
            nested = [arg for arg in get_args(current) if arg is not type(None) and arg is not Ellipsis]
            if not nested:
                return []
            current = nested[-1]
    return [info.alias or name for name, info in current.model_fields.items()]


def place_of(name: str, sources: Mapping[str, str], key: tuple[Any, ...]) -> str:
    """Return where a key was given (`file:line` or an option), or the nearest key above it; else the file."""
    above = (".".join(map(str, key[:size])) for size in range(len(key), 0, -1))
    return next((sources[dotted] for dotted in above if dotted in sources), name)


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """Return `, did you mean 'x'?`, or nothing when no allowed word is near."""
    near = get_close_matches(word, list(allowed), n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def tuples(value: Any) -> Any:
    """YAML and JSON have lists where settings have tuples."""
    if isinstance(value, dict):
        return {key: tuples(item) for key, item in value.items()}
    return tuple(tuples(item) for item in value) if isinstance(value, list | tuple) else value
