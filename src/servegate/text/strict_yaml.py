"""YAML as the engine reads it, minus everything by which a file can mean something else than it shows.

vLLM reads its `--config` with PyYAML's `safe_load`: YAML 1.1, where `on` is true, `010` is 8 and `1e3` is text. We
resolve scalars with the same library, so the values are the same; but `safe_load` also lets the last of two equal keys
win, merges `<<`, and expands aliases without end, and a reviewer of a pull request sees none of that. Those are errors
here, each with its line. So are values that JSON cannot hold (dates, sets, infinities), because a record must hold them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import yaml
from yaml.reader import ReaderError

from servegate.errors import UsageError

MAX_BYTES = 1 << 20
"""A config of more than 1 MiB is a mistake or an attack."""
MAX_DEPTH = 64
MAX_NODES = 100_000
"""Values after aliases are expanded; more is an "alias bomb", whose file is small and whose meaning is not."""

_HIDDEN_LINE_END = re.compile("[\x85\u2028\u2029]|\r(?!\n)")

KeyPath = tuple[str | int, ...]
_JSON_SCALARS = (str, int, float, bool, type(None))


@dataclass(frozen=True)
class Document:
    """A read file: `data` holds plain JSON values under string keys, `lines` the line (from 1) of each key path."""

    data: dict[str, Any]
    lines: dict[KeyPath, int]

    def line_of(self, path: KeyPath) -> int | None:
        """Return the line of a key path, or of its nearest parent that the file has; None when it has none."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)


def load(text: str, path: str, normalise_key: Callable[[str], str] | None = None) -> Document:
    """Read one YAML mapping.

    `path` only names the file in messages. `normalise_key` maps top-level keys to the form in which they count as
    repeated (`max_model_len` and `max-model-len` are one option to vLLM); `data` keeps the keys as written. Keys below
    the top level are compared as they are, since vLLM does not normalise inside an option's value either.

    Raises:
        UsageError: naming file, line, column and key, for everything that is no unambiguous mapping of JSON values.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise UsageError(f"{path}: {size} bytes of YAML, allowed are {MAX_BYTES}", advice="A config of this size is a mistake.")
    hidden = _HIDDEN_LINE_END.search(text)
    if hidden:
        line = text.count("\n", 0, hidden.start()) + 1
        column = hidden.start() - text.rfind("\n", 0, hidden.start())
        raise UsageError(
            f"{path}:{line}:{column}: the character U+{ord(hidden[0]):04X} ends a line for YAML and not for most editors",
            why="What stands after it, such as behind a comment, is read as a line of its own.",
            advice="End lines with a line feed; write the character as an escape in double quotes.",
        )
    loader = yaml.SafeLoader("")
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        if root is None:
            raise UsageError(f"{path}: the file is empty", advice="Write at least one `key: value` line.")
        if not isinstance(root, yaml.MappingNode):
            _refuse(path, root, (), "expected `key: value` lines (a mapping)", "Remove the leading dash or quotes.")
        if root.tag != "tag:yaml.org,2002:map":
            _refuse(path, root, (), f"the tag {_shown(root.tag)} is not accepted", "Remove the tag (`!...`).")
        builder = _Builder(loader, path, normalise_key)
        data = builder.mapping(root, ())
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        raise UsageError(
            f"{path}:{line}:{column}: the character U+{int(error.character):04X} is not allowed in YAML",
            advice="Remove it, or write it as an escape in double quotes.",
        ) from None
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(path, error) from None
    except RecursionError:
        raise UsageError(f"{path}: nested too deeply, allowed are {MAX_DEPTH} levels") from None
    finally:
        loader.dispose()
    return Document(data, builder.lines)


class _Builder:
    """Turns nodes into values, remembering where each key path stands."""

    def __init__(self, loader: yaml.SafeLoader, path: str, normalise_key: Callable[[str], str] | None) -> None:
        self.loader, self.path, self.normalise_key = loader, path, normalise_key
        self.lines: dict[KeyPath, int] = {}
        self.nodes = 0

    def mapping(self, node: yaml.MappingNode, where: KeyPath) -> dict[str, Any]:
        values: dict[str, Any] = {}
        first_line: dict[str, int] = {}
        for key_node, value_node in node.value:
            key = self._key(key_node, where)
            line = key_node.start_mark.line + 1
            counted = self.normalise_key(key) if self.normalise_key and not where else key
            if counted in first_line:
                advice = f"It stands on line {first_line[counted]} already; keep one of them."
                _refuse(self.path, key_node, (*where, key), "is repeated", advice)
            first_line[counted] = line
            self.lines[*where, key] = line
            values[key] = self._value(value_node, (*where, key))
        return values

    def _key(self, node: yaml.Node, where: KeyPath) -> str:
        if node.tag == "tag:yaml.org,2002:merge":
            _refuse(self.path, node, (*where, "<<"), "merge keys are not accepted", "Write the merged keys out.")
        key = self._scalar(node, where) if isinstance(node, yaml.ScalarNode) else None
        if not isinstance(key, str):
            written = node.value if isinstance(node, yaml.ScalarNode) else "?"
            meaning = "" if key is None else f" (YAML 1.1 reads it as {key!r})"
            _refuse(self.path, node, (*where, str(written)), f"is not a text key{meaning}", "Put the key in quotes.")
        return key

    def _value(self, node: yaml.Node, where: KeyPath) -> Any:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            _refuse(self.path, node, where, f"more than {MAX_NODES} values after aliases", "Write fewer aliases (`*name`).")
        if len(where) > MAX_DEPTH:
            advice = "An alias (`*name`) must not contain itself."
            _refuse(self.path, node, where, f"nested deeper than {MAX_DEPTH} levels", advice)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, where)
        if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
            return self.mapping(node, where)
        if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
            items = []
            for index, item in enumerate(node.value):
                self.lines[*where, index] = item.start_mark.line + 1
                items.append(self._value(item, (*where, index)))
            return items
        return _refuse(self.path, node, where, f"the tag {_shown(node.tag)} is not accepted", "Remove the tag (`!...`).")

    def _scalar(self, node: yaml.ScalarNode, where: KeyPath) -> Any:
        try:
            value = self.loader.construct_object(node, deep=True)
        except (ValueError, OverflowError) as error:  # `0b_`, `2024-13-45`, an integer of 5000 digits
            _refuse(self.path, node, where, f"{_shown(node.value)} is unreadable: {error}", "Put the value in quotes.")
        except (LookupError, AttributeError, TypeError):  # `!!bool maybe`, `!!int ""`, `!!timestamp x`: PyYAML trusts a tag
            what = f"{_shown(node.value)} is not what its tag {_shown(node.tag)} says"
            _refuse(self.path, node, where, what, "Remove the tag (`!!...`).")
        if not isinstance(value, _JSON_SCALARS) or (isinstance(value, float) and not math.isfinite(value)):
            what = f"YAML reads {_shown(node.value)} as a {type(value).__name__}, which is no JSON value"
            _refuse(self.path, node, where, what, "Put the value in quotes.")
        return value


def _refuse(path: str, node: yaml.Node, where: KeyPath, what: str, advice: str) -> NoReturn:
    mark = node.start_mark
    key = f"{_joined(where)}: " if where else ""
    raise UsageError(f"{path}:{mark.line + 1}:{mark.column + 1}: {key}{what}", advice=advice)


def _syntax_error(path: str, error: yaml.MarkedYAMLError) -> UsageError:
    mark = error.problem_mark or error.context_mark
    place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else path
    if error.context and "single document" in error.context:
        return UsageError(f"{place}: a second document begins here", advice="Keep one document; remove the line `---`.")
    why = f"{error.context} {error.problem}" if error.context else str(error.problem)
    return UsageError(f"{place}: not YAML: {_shown(why)[1:-1]}", advice="Check indentation, quotes and colons there.")


def _joined(where: KeyPath) -> str:
    names = ".".join(str(part) for part in where)
    return _shown(names)


def _shown(text: str) -> str:
    """Return a hostile text on one line: quoted, escaped, cut."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
