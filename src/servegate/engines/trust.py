"""Serving config is data: what a pull request may change of how a model is served, without being trusted.

Many options of an engine import code while they are parsed, open files of the host or talk to the network, and a pull
request's author chooses their values. So there are two levels of trust. What the *base* branch says is taken as it is,
since somebody merged it. What the *head* says is held to an allow-list (`data/head_options.tsv`): a known option, with a
value whose form can name neither code nor a file nor an address. Anything else must be the same as on the base branch,
or be allowed there by name (`changes.allow` in the gate config, which is read from the base branch, too).

The engine itself decides nothing here: its own parser expands abbreviations and imports code while it parses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, NoReturn

from servegate.domain.arms import ServingConfig
from servegate.engines.options import known_options
from servegate.errors import UsageError
from servegate.text import strict_yaml
from servegate.text.globs import matches

DATA_FILE = "head_options.tsv"

_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_+,:|-]{0,63}")
"""No dot and no slash, so it is neither a module path, a file, an address nor a repository."""
_NUMBER = re.compile(r"-?\d{1,19}(?:\.\d{1,12})?(?:[kKmMgGtT]i?)?|auto")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_HUB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_LOADED = ("model", "revision", "tokenizer", "tokenizer-revision")


@dataclass(frozen=True)
class Grant:
    """What the base branch allows pull requests beyond the list: options and variables by exact name, models by glob."""

    options: frozenset[str] = frozenset()
    environment: frozenset[str] = frozenset()
    models: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """How one name may be used from head; of the form `base`, `words` holds why it may not."""

    form: str
    words: tuple[str, ...] = ()


@cache
def rules() -> Mapping[str, Rule]:
    """Return the rules by option name, `option.key`, or `$VARIABLE`; a name that is not in here is for the base branch."""
    text = resources.files("servegate.data").joinpath(DATA_FILE).read_text("utf-8")
    found = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, form, *words = line.split("\t")
            found[name] = Rule(form, tuple(words[0].split(",")) if words and form != "base" else tuple(words))
    return found


def check_head(head: ServingConfig, base: ServingConfig | None, grant: Grant) -> None:
    """Hold a pull request's serving config to the allow-list; `base` is the config before the change, None for a new file.

    Raises:
        UsageError: naming file, line, option and why the base branch has to say it.
    """
    trusted = {} if base is None else _by_option(base)
    place = _Place(head)
    wanted = _by_option(head)
    for name, (key, value) in wanted.items():
        if value is False or value == [] or _same(value, trusted.get(name, ("", None))[1]) or name in grant.options:
            continue
        rule = rules().get(name)
        if rule is None or rule.form == "base":
            why = rule.words[0] if rule else "is not on the list of options that a pull request may change"
            place.refuse(key, why, f"A maintainer allows it on the base branch: `changes.allow.options: [{name}]`.")
        _check_value(name, rule, value, trusted.get(name, ("", None))[1], place, key)
    _check_sources(wanted, trusted, grant, place)


def check_head_environment(head: Mapping[str, str], base: Mapping[str, str], grant: Grant, where: str) -> None:
    """Hold environment variables that a pull request sets to the allow-list of exact names. Raises UsageError."""
    for name, value in head.items():
        if base.get(name) == value or name in grant.environment:
            continue
        rule = rules().get(f"${name}")
        if rule is None or not _fits(rule, value):
            what = "is not on the list of variables that a pull request may set" if rule is None else "has a value that is none"
            raise UsageError(
                f"{where}: environment variable {name[:80]!r} {what}",
                why="Variables can make an engine load libraries and plug-ins or talk to the network.",
                advice=f"A maintainer allows it on the base branch: `changes.allow.environment: [{name[:80]}]`.",
            )


def _by_option(config: ServingConfig) -> dict[str, tuple[str, Any]]:
    """Return (key as written, value) by the option's own name; `no-x: true` is `x: false` with an effect, written `off`."""
    found: dict[str, tuple[str, Any]] = {}
    for key, value in config.options.items():
        option = known_options().get(key)
        name = option.name if option else key
        found[name] = (key, "off" if option and key == f"no-{option.name}" and value is True else value)
    return found


class _Place:
    """Where the head's keys stand, for messages."""

    def __init__(self, config: ServingConfig) -> None:
        self.path = config.path
        self.document = strict_yaml.load(config.text, config.path, lambda key: key.replace("_", "-"))

    def refuse(self, key: str, what: str, advice: str) -> NoReturn:
        written = next((each for each in self.document.data if each.replace("_", "-") == key), key)
        raise UsageError(
            f"{self.path}:{self.document.line_of((written,))}: a pull request may not set {written!r}: it {what}",
            why="A pull request's serving config is data: it may not import code, open files of the host or reach the network.",
            advice=advice,
        )


def _check_value(name: str, rule: Rule, value: Any, before: Any, place: _Place, key: str) -> None:
    if rule.form in ("source", "revision"):
        return  # together, below: a revision means nothing without its source
    if rule.form == "mapping":
        given, trusted = _mapping(value), _mapping(before) or {}
        if given is None:
            place.refuse(key, "takes a mapping here", "Write `key: value` lines below it.")
        for inner, item in given.items():
            if inner in trusted and _same(item, trusted[inner]):
                continue
            inner_rule = rules().get(f"{name}.{inner}")
            if inner_rule is None or not _fits(inner_rule, item):
                listed = ", ".join(each.partition(".")[2] for each in rules() if each.startswith(f"{name}."))
                place.refuse(
                    key,
                    f"has the key {str(inner)[:60]!r} with a value that is for the base branch to set",
                    f"Allowed: {listed}, as plain words and numbers; more on the base: `changes.allow.options: [{name}]`.",
                )
    elif value != "off" and not _fits(rule, value):
        allowed = f"one of {', '.join(rule.words)}" if rule.words else f"a plain {rule.form.removesuffix('s')}"
        place.refuse(
            key,
            f"has the value {str(value)[:60]!r}, not {allowed}",
            f"A maintainer allows other values on the base branch: `changes.allow.options: [{name}]`.",
        )


def _mapping(value: Any) -> dict[str, Any] | None:
    """Return a mapping as it stands or as JSON text; None when it is neither."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, dict) else None


def _fits(rule: Rule, value: Any) -> bool:
    items = value if isinstance(value, list) and rule.form in ("numbers", "words") else [value]
    forms: Mapping[str, Callable[[Any], bool]] = {
        "flag": lambda item: isinstance(item, bool),
        "number": _is_number,
        "numbers": _is_number,
        "word": lambda item: not isinstance(item, bool) and _WORD.fullmatch(str(item)) is not None,
        "words": lambda item: not isinstance(item, bool) and _WORD.fullmatch(str(item)) is not None,
        "one-of": lambda item: item in rule.words,
    }
    fits = forms.get(rule.form)
    return fits is not None and all(fits(item) for item in items)


def _is_number(item: Any) -> bool:
    return not isinstance(item, bool) and isinstance(item, str | int | float) and _NUMBER.fullmatch(str(item)) is not None


def _check_sources(
    wanted: Mapping[str, tuple[str, Any]], trusted: Mapping[str, tuple[str, Any]], grant: Grant, place: _Place
) -> None:
    """Hold what is loaded to the base branch's globs, pinned to a commit, as safetensors, and never with code of its own."""
    changed = [name for name in _LOADED if _value(wanted, name) != _value(trusted, name) and name not in grant.options]
    if not changed:
        return
    key = wanted[changed[0]][0] if changed[0] in wanted else "model"
    if _value(wanted, "trust-remote-code") is True:
        place.refuse(
            key,
            "changes what is loaded while `trust-remote-code` is on, so it would choose the code that runs",
            "Change it without `trust-remote-code`, or on the base branch.",
        )
    for name, revision in (("model", "revision"), ("tokenizer", "tokenizer-revision")):
        if not {name, revision} & set(changed) or (name not in wanted and revision not in wanted):
            continue
        source = _value(wanted, name) if name in wanted else _value(wanted, "model")
        new = _value(wanted, name) != _value(trusted, name) and name in wanted
        key = wanted[name][0] if name in wanted else wanted[revision][0]
        if new and (not _is_source(source) or not any(matches(str(source), glob) for glob in grant.models)):
            place.refuse(
                key,
                f"names {str(source)[:80]!r}, which the base branch has not named",
                "A maintainer allows it on the base branch: `changes.allow.models: [org/name]` (globs).",
            )
        if not str(source).startswith("/") and _COMMIT.fullmatch(str(_value(wanted, revision))) is None:
            place.refuse(
                key,
                f"is not pinned to a commit: `{revision}` is {str(_value(wanted, revision))[:60]!r}",
                f"Write `{revision}: <40 hexadecimal digits>`; a branch or tag can move between the arms.",
            )
        if name == "model" and new and _value(wanted, "load-format") not in ("safetensors", "dummy"):
            place.refuse(
                key,
                "is a new model whose weights might not be safetensors",
                "Write `load-format: safetensors`; other formats can run code while they are loaded.",
            )


def _is_source(source: Any) -> bool:
    if not isinstance(source, str) or source.endswith(".gguf"):
        return False
    absolute = source.startswith("/") and not {"..", "."} & set(source.split("/"))
    return absolute or _HUB_ID.fullmatch(source) is not None


def _value(side: Mapping[str, tuple[str, Any]], name: str) -> Any:
    return side[name][1] if name in side else None


def _same(value: Any, other: Any) -> bool:
    if isinstance(value, dict) or isinstance(other, dict):
        return json.dumps(value, sort_keys=True) == json.dumps(other, sort_keys=True)
    if isinstance(value, list) or isinstance(other, list):
        return isinstance(value, list) and isinstance(other, list) and [*map(str, value)] == [*map(str, other)]
    return (
        type(value) is type(other) and value == other if isinstance(value, bool) or value is None else str(value) == str(other)
    )
