"""vLLM's own `--config` YAML, read strictly, and the canonical arguments that mean the same.

vLLM turns the file into arguments and parses those (FlexibleArgumentParser.load_config_file,
https://github.com/vllm-project/vllm/blob/v0.32.0/vllm/utils/argparse_utils.py), which has traps that a reviewer cannot
see: abbreviations and dotted keys are expanded, a text that begins with a dash becomes an option, a flag given a text
turns that text into the model's name, and under `vllm serve` every `false` is dropped, so `enable-prefix-caching: false`
leaves the cache on. What has one plain meaning is kept with that meaning; the rest is refused with its line. `false` is
kept as harmless where it is the default and told in `notes` where it is not, because that is what is served today.

Reading executes nothing: values that make the engine import code are text to us.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, NoReturn

from servegate.domain.arms import IMAGE_KNOB, Arm, ServingConfig
from servegate.domain.plan import Knob, sha256_of_text
from servegate.engines.options import VLLM_VERSION, Option, known_options, suggestion
from servegate.errors import UnknownOptionError, UsageError
from servegate.text import strict_yaml
from servegate.text.secret_names import is_secret
from servegate.text.strict_yaml import Document

REPLACED = {
    "host": "127.0.0.1 is used",
    "port": "a free port is used",
    "served-model-name": "a name with a nonce is used, so that no other server can answer for this one",
    "uds": "a port on 127.0.0.1 is used",
    "uvicorn-log-level": "the default is used, since the whole log is kept",
    "grpc-port": "only HTTP is measured",
    "root-path": "there is no proxy in front of it",
    **dict.fromkeys(
        ("allowed-origins", "allowed-methods", "allowed-headers", "allow-credentials"), "no browser asks the engine"
    ),
    **dict.fromkeys(("log-config-file", "logging-config"), "the default is used, since the whole log is kept"),
    **dict.fromkeys(
        ("ssl-keyfile", "ssl-certfile", "ssl-ca-certs", "ssl-cert-reqs", "ssl-ciphers", "enable-ssl-refresh"),
        "the engine is served on 127.0.0.1 without TLS",
    ),
}
"""Options about where to listen, which servegate decides; none of them changes what is served."""

_REFUSED = {
    "api-key": ("holds a secret", "Remove it here and add it where you deploy; servegate serves on 127.0.0.1 only."),
    "hf-token": ("holds a secret", "Set the environment variable HF_TOKEN instead."),
    "config": ("is ignored by vLLM inside a config file", "Move the options of that file into this one."),
    "headless": ("serves no HTTP API, so nothing could be measured", "Gate the config of the node that serves the API."),
    "grpc": ("serves no HTTP API, so nothing could be measured", "Remove it; the gate measures over HTTP."),
    "tokens-only": ("serves no completions, so nothing could be measured", "Remove it for the gate."),
}
_SECRET_KEYS = frozenset({"api_key", "apikey", "password", "secret", "secret_key", "access_key", "auth_token", "hf_token"})
_NUMBER_LIKE = re.compile(r"-\d+")
"""A text that begins with a dash and yet is a value to vLLM's parser; `-1.5` is not, its dot makes it a dotted option."""


def read_serving_config(text: str, path: str, also_known: Collection[str] = ()) -> ServingConfig:
    """Read a serving config.

    `also_known` adds option names of another vLLM version than the one whose list ships with servegate.

    Raises:
        UsageError: not YAML, a repeated or unknown option, a value that vLLM would take for something else, a secret.
    """
    document = strict_yaml.load(text, path, lambda key: key.replace("_", "-"))
    options: dict[str, Any] = {}
    meant: dict[str, str] = {}
    for key, value in document.data.items():
        place = _Place(document, path, key)
        name, option = _canonical(key, place, also_known)
        if option.name in meant:
            place.refuse(f"is the same option as {meant[option.name]!r}", "Keep one of them.")
        meant[option.name] = key
        if name in _REFUSED and value is not False and not (name == "hf-token" and value is True):
            place.refuse(*_REFUSED[name])
        _check(option, value, place)
        options[name] = value
    if not isinstance(options.get("model"), str) or not options["model"]:
        raise UsageError(f"{path}: `model` is missing", advice="Add `model: <directory or hub id>` to the serving config.")
    return ServingConfig(path=path, sha256=sha256_of_text(text), text=text, options=options)


def argv(config: ServingConfig, executable: str) -> tuple[str, ...]:
    """Return what serves the config, less host, port and served name: `(executable, "serve", model, "--name=value", ...)`."""
    arguments: list[str] = [executable, "serve", str(config.options["model"])]
    for name, value in config.options.items():
        if name == "model" or name in REPLACED or value is False or value == []:
            continue
        if value is True:
            arguments.append(f"--{name}")
        elif isinstance(value, list) and len(value) > 1:
            arguments += [f"--{name}", *map(str, value)]
        else:
            arguments.append(f"--{name}={_as_text(value)}")
    return tuple(arguments)


def notes(config: ServingConfig) -> tuple[str, ...]:
    """Return what a reader of the file would not expect: options that servegate replaces or that vLLM drops."""
    told = []
    for name, value in config.options.items():
        option = known_options().get(name)
        if name in REPLACED:
            told.append(f"`{name}` is not taken from the serving config: {REPLACED[name]}")
        elif value is False and (option is None or not option.is_boolean or option.default != "off"):
            remedy = f"; write `no-{name}: true` to turn it off" if option and option.kind == "toggle" else ""
            told.append(f"`{name}: false` changes nothing: vLLM drops `false` when it reads a config file{remedy}")
        elif value == []:
            told.append(f"`{name}: []` changes nothing: vLLM drops an empty list when it reads a config file")
    return tuple(told)


def differing_options(baseline: Arm, candidate: Arm) -> tuple[Knob, ...]:
    """Return every knob in which the arms differ: executable, container image, options as vLLM takes them, environment.

    An absent side is None. Values of secret variables are never shown, only that they differ.
    """
    knobs = []
    if baseline.executable != candidate.executable:
        knobs.append(
            Knob(name="engine.executable", baseline=baseline.executable, candidate=candidate.executable, source="gate config")
        )
    if baseline.image != candidate.image:
        knobs.append(Knob(name=IMAGE_KNOB, baseline=baseline.image, candidate=candidate.image, source="gate config"))
    sides = (_effective(baseline.config), _effective(candidate.config))
    for name in dict.fromkeys((*sides[0], *sides[1])):
        before, after = (side.get(name) for side in sides)
        if _meaning(before) != _meaning(after):
            knobs.append(Knob(name=name, baseline=before, candidate=after, source="serving config"))
    for name in sorted({*baseline.environment, *candidate.environment}):
        before, after = baseline.environment.get(name), candidate.environment.get(name)
        if before != after:
            if is_secret(name):
                before, after = (None if side is None else "(not shown)" for side in (before, after))
            knobs.append(Knob(name=f"environment.{name}", baseline=before, candidate=after, source="environment"))
    return tuple(knobs)


class _Place:
    """Where a key stands, for messages."""

    def __init__(self, document: Document, path: str, key: str) -> None:
        self.key, self.at = key, f"{path}:{document.line_of((key,))}"

    def refuse(self, what: str, advice: str) -> NoReturn:
        raise UsageError(f"{self.at}: option {_short(self.key)} {what}", advice=advice)


def _canonical(key: str, place: _Place, also_known: Collection[str]) -> tuple[str, Option]:
    name = key.replace("_", "-")
    option = known_options().get(name)
    if option is not None:
        return (name if name == f"no-{option.name}" else option.name), option
    if name in {each.replace("_", "-") for each in also_known}:
        return name, Option(name, "optional", "none", "set")
    if "." in key:
        place.refuse("is a dotted key", "Write it as a nested mapping: `compilation-config:` with `mode: 3` below it.")
    raise UnknownOptionError(
        f"{place.at}: option {_short(key)} is no option of vLLM {VLLM_VERSION}{suggestion(name)}",
        name,
        advice="Write the full name, as `vllm serve --help=all` lists it, without dashes before it.",
    )


def _check(option: Option, value: Any, place: _Place) -> None:
    shown = _short(value)
    if option.is_boolean:
        if not isinstance(value, bool):
            place.refuse(f"takes true or false, not {shown}", "Write `true` without quotes; vLLM would read more as the model.")
    elif value is True and option.kind != "optional":
        place.refuse("needs a value, not true", f"Write `{option.name}: <value>`.")
    elif value is None and (option.null != "none" or option.kind == "list"):
        place.refuse("has no value; vLLM would read the text 'None'", "Give it a value, or remove the line.")
    elif isinstance(value, str):
        _check_text(value, place)
    elif isinstance(value, dict):
        _check_secrets(value, place)
    elif isinstance(value, list):
        if option.kind == "value" and len(value) != 1:
            place.refuse(f"takes one value, not the list {shown}", "vLLM would read the others as the model.")
        for item in value:
            if isinstance(item, bool) or not isinstance(item, str | int | float):
                place.refuse(f"holds {_short(item)} in its list", "Use texts and numbers; write a mapping as a JSON text.")
            _check_text(str(item), place)
    elif isinstance(value, float | int):
        _check_text(str(value), place)


def _check_text(value: str, place: _Place) -> None:
    if value.startswith("-") and not _NUMBER_LIKE.fullmatch(value):
        place.refuse(f"has the value {_short(value)}, which vLLM would read as an option", "It may not begin with a dash.")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        place.refuse("holds a NUL or a lone surrogate, which no argument can hold", "Remove the character.")


def _check_secrets(value: Any, place: _Place) -> None:
    """Refuse secrets in nested values: arguments are recorded in the plan and printed in the report."""
    if isinstance(value, list):
        for item in value:
            _check_secrets(item, place)
    if isinstance(value, dict):
        for key, item in value.items():
            if key.lower().replace("-", "_") in _SECRET_KEYS and isinstance(item, str) and item:
                place.refuse(f"holds a secret under {_short(key)}", "Give it through an environment variable or a file.")
            _check_secrets(item, place)


def _effective(config: ServingConfig) -> dict[str, Any]:
    """Return the options that have an effect, `no-x: true` as `x: false`, null as vLLM gets it."""
    found: dict[str, Any] = {}
    for name, value in config.options.items():
        if name in REPLACED or value is False or value == []:
            continue
        option = known_options().get(name)
        if option is not None and name == f"no-{option.name}":
            found[option.name] = False
        else:
            found[name] = "None" if value is None else value
    return found


def _as_text(value: Any) -> str:
    """Return a value as vLLM's own expansion writes it."""
    if isinstance(value, list):
        value = value[0]
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _meaning(value: Any) -> Any:
    """Return what two values must share to be the same argument: `2048` and `"2048"` are."""
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    if isinstance(value, list):
        return [str(item) for item in value]
    return value if value is None or isinstance(value, bool) else str(value)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
