"""An engine's arguments out of Helm values, Kubernetes manifests and Compose files, as the engine's own YAML.

A path names where they stand: `spec.template.spec.containers[name=vllm].args`, `services.vllm.command`. What stands there
is taken as data: a list of words, a command line without anything that a shell would expand, or a mapping of options.
The result is text in the form of `vllm serve --config`, so that it goes through the same strict reading as any other
serving config; nothing is guessed, and what has no one plain meaning is refused.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml

from servegate.errors import UsageError
from servegate.text import strict_yaml
from servegate.text.strict_yaml import Document

MAX_DOCUMENTS = 200
_STEP = re.compile(r"(?P<key>[^.\[\]=]+)|\[(?P<name>[^\[\]=]+)=(?P<value>[^\[\]]*)\]|\[(?P<index>\d{1,4})\]")
_EXPANDED = re.compile(r"[$`;&|<>(){}*?~\n\r\\#!]")
"""What a shell, Kubernetes (`$(NAME)`) or Compose (`${NAME}`) would make something else of."""
_OPTION = re.compile(r"--[a-z0-9][a-z0-9_-]*")


@dataclass(frozen=True)
class Taken:
    """Arguments as the engine's own YAML, and the environment that stands beside them."""

    text: str
    environment: Mapping[str, str]
    elsewhere: frozenset[str] = frozenset()
    """Variables whose values stand elsewhere (`valueFrom`), as JSON: they are not served with here."""


def take(
    text: str, path: str, arguments: str, environment: str | None, document: str | None, booleans: frozenset[str]
) -> Taken:
    """Take arguments and environment out of a file.

    `document` picks one of several YAML documents by `Kind` or `Kind/name`; `booleans` are the options without a value.

    Raises:
        UsageError: not YAML, no such place, or something there that has no one plain meaning.
    """
    found = _document(text, path, document)
    options = _options(_at(found, path, arguments), f"{path}: {arguments}", booleans)
    written = None if environment is None else _at(found, path, environment)
    variables = {} if environment is None else _environment(written, f"{path}: {environment}")
    elsewhere = frozenset(json.dumps(item, sort_keys=True) for item in written if _elsewhere(item)) if written else frozenset()
    return Taken(yaml.safe_dump(options, sort_keys=False, allow_unicode=False, width=10_000), variables, elsewhere)


def _document(text: str, path: str, wanted: str | None) -> Document:
    parts = re.split(r"^---[ \t]*(?:#.*)?$", text, flags=re.MULTILINE)
    if len(parts) > MAX_DOCUMENTS:
        raise UsageError(f"{path}: {len(parts)} YAML documents, allowed are {MAX_DOCUMENTS}")
    found = [strict_yaml.load(part, path) for part in parts if re.search(r"^[^#\s]", part, re.MULTILINE)]
    if wanted is not None:
        kind, _, name = wanted.partition("/")
        found = [each for each in found if each.data.get("kind") == kind and name in ("", _name_of(each.data))]
    if len(found) != 1:
        which = f"of kind {wanted}" if wanted else "in it"
        raise UsageError(
            f"{path}: {len(found)} YAML documents {which}, needed is one",
            advice="Name it in the gate config: `document: Deployment/name`.",
        )
    return found[0]


def _name_of(data: Mapping[str, Any]) -> Any:
    metadata = data.get("metadata")
    return metadata.get("name") if isinstance(metadata, dict) else None


def _at(document: Document, path: str, where: str) -> Any:
    """Return what stands at a path; several items that match a selector are as wrong as none."""
    steps = _STEP.findall(where)
    if "".join(_STEP.sub("", where).split(".")) or not steps:
        raise UsageError(f"{where!r} is no path", advice="Write keys joined by dots; `[name=x]` or `[0]` picks from a list.")
    value: Any = document.data
    for key, name, wanted, index in steps:
        if key and isinstance(value, dict) and key in value:
            value = value[key]
        elif name and isinstance(value, list):
            items = [item for item in value if isinstance(item, dict) and str(item.get(name)) == wanted]
            if len(items) != 1:
                raise UsageError(f"{path}: {len(items)} items with {name}={wanted} at {where!r}, needed is one")
            value = items[0]
        elif index and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
        else:
            raise UsageError(
                f"{path} has nothing at {where!r}: {(key or name or index)!r} is not there", advice="Check the path."
            )
    return value


def _options(value: Any, place: str, booleans: frozenset[str]) -> dict[str, Any]:
    if isinstance(value, dict):
        return {str(key).removeprefix("--"): item for key, item in value.items()}
    if isinstance(value, str):
        if _EXPANDED.search(value):
            _refuse(place, f"holds {_EXPANDED.search(value)[0]!r}, which a shell would expand", "Write a list of arguments.")  # type: ignore[index]
        try:
            words = shlex.split(value)
        except ValueError as error:
            _refuse(place, f"is no command line ({error})", "Write a list of arguments.")
    elif isinstance(value, list) and all(isinstance(item, str | int | float) and not isinstance(item, bool) for item in value):
        words = [str(item) for item in value]
        if expanded := next((word for word in words if re.search(r"\$[({]", word)), None):
            _refuse(place, f"holds {expanded[:60]!r}, whose meaning is filled in elsewhere", "Write the value itself.")
    else:
        _refuse(place, "is neither a list of arguments, a command line nor a mapping of options", "Check the path.")
    return _parsed(words, place, booleans)


def _parsed(words: list[str], place: str, booleans: frozenset[str]) -> dict[str, Any]:
    """Turn words into options; only complete names that begin with two dashes are options."""
    if words[:2] == ["vllm", "serve"] or words[:1] == ["serve"]:
        words = words[1 + (words[0] == "vllm") :]
    options: dict[str, Any] = {}
    if words and not words[0].startswith("-"):
        options["model"] = words.pop(0)
    while words:
        word = words.pop(0)
        name, equals, given = word.partition("=")
        if not _OPTION.fullmatch(name):
            what = f"holds {word[:60]!r}, which is no complete option"
            _refuse(place, what, "Write complete names: `--name=value`, `--name value`, or `--flag`.")
        name = name[2:].replace("_", "-")
        values = [given] if equals else []
        while not equals and name not in booleans and words and not re.match(r"--?[a-zA-Z]", words[0]):
            values.append(words.pop(0))
        if name in options:
            _refuse(place, f"gives {name!r} twice", "Keep one of them.")
        options[name] = values[0] if len(values) == 1 else values or True
    return options


def _environment(value: Any, place: str) -> dict[str, str]:
    """Read `NAME: value`, `- NAME=value`, or Kubernetes' `- name: NAME, value: value`."""
    found: dict[str, str] = {}
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        for item in value:
            if isinstance(item, str) and "=" in item:
                items.append(tuple(item.split("=", 1)))  # type: ignore[arg-type]
            elif isinstance(item, dict) and set(item) <= {"name", "value"} and "name" in item:
                items.append((item["name"], item.get("value", "")))
            elif _elsewhere(item):
                continue  # a secret or a field of the cluster: not here, and servegate records no secret
            else:
                _refuse(place, "has an entry that is neither `NAME=value` nor `name: ..., value: ...`", "Write it so.")
    else:
        _refuse(place, "is no list or mapping of variables", "Check the path.")
    for name, one in items:
        if isinstance(one, dict | list) or one is None or name in found or "$(" in str(one) or "${" in str(one):
            _refuse(place, f"gives {str(name)[:60]!r} twice, or no plain value", "Write `NAME=value` once.")
        found[str(name)] = str(one)
    return found


def _elsewhere(item: Any) -> bool:
    return isinstance(item, dict) and "valueFrom" in item


def _refuse(place: str, what: str, advice: str) -> NoReturn:
    raise UsageError(f"{place} {what}", advice=advice)
