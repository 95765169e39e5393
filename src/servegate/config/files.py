"""Reads the files that a gate config names; whatever is wrong with one is a `UsageError` that names it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from difflib import get_close_matches
from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from servegate.config.hub import HUB, from_hub
from servegate.config.schema import BUNDLED, MAX_INPUT_BYTES
from servegate.domain.calibration import KIND, SCHEMA_VERSION, Calibration
from servegate.domain.plan import TEMPLATES
from servegate.domain.strict_json import parse_json
from servegate.errors import UsageError
from servegate.ledger import Ledger
from servegate.ledger import parse as parse_ledger
from servegate.text import strict_yaml
from servegate.text.utf8 import decoded


def read_text(path: Path) -> str:
    """Return a file's text, a byte-order mark dropped. Raises UsageError when it is not there or no UTF-8."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UsageError(f"{path} is no regular file", advice="Name a YAML file.")
        return decoded(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist", advice=near_files(path)) from None
    except IsADirectoryError:
        raise UsageError(f"{path} is a directory, not a file", advice="Name the YAML file in it.") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)!r} cannot be read as UTF-8 text: {error}") from error


def near_files(path: Path) -> str:
    """Return advice for a path that does not exist: files of a near name, or why there are none."""
    here = path.parent
    names = [item.name for item in here.iterdir()] if here.is_dir() else []
    if not here.is_dir():
        return f"The directory {here} does not exist either."
    near = get_close_matches(path.name, names, n=3)
    return f"Did you mean {' or '.join(near)}?" if near else "Paths in a gate config start from the config's own directory."


def reader(directory: Path, hashes: dict[str, str], hub: Callable[[str], bytes] = from_hub) -> Callable[[str], bytes]:
    """Return what reads input files by the names in a config, and enters the hash of each into `hashes`.

    `hub` fetches what a name with the prefix `hub:` stands for.
    """

    def read(name: str) -> bytes:
        from_elsewhere = hub if name.startswith(HUB) else _bundled if name.startswith(BUNDLED) else None
        content = from_elsewhere(name) if from_elsewhere is not None else _file(directory / name)
        hashes[name] = hashlib.sha256(content).hexdigest()
        return content

    return read


def _bundled(name: str) -> bytes:
    item = resources.files("servegate.data") / name.removeprefix(BUNDLED)
    if "/" in name or not item.is_file():
        raise UsageError(
            f"{name} does not ship with servegate", advice="Bundled: bundled:prompts.jsonl, bundled:reference_ladder.tsv."
        )
    return item.read_bytes()


def _file(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no regular file", advice="Name a file.")
        if path.stat().st_size > MAX_INPUT_BYTES:
            raise UsageError(f"{path} is larger than {MAX_INPUT_BYTES >> 20} MiB", advice="Split it, or sample fewer rows.")
        return path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist", advice=near_files(path)) from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error}") from error


def read_ledger(path: Path, *, required: bool = False) -> Ledger:
    """Read a file of accepted differences; one that is absent is empty, unless it is required. Raises UsageError."""
    if not required and not path.is_file():
        return Ledger()
    return parse_ledger(strict_yaml.load(read_text(path), str(path)).data, str(path))


def read_templates(folder: Path) -> dict[str, str]:
    """Return the templates of a folder by name, checked; those that are not there stay servegate's own.

    Raises:
        UsageError: there is no such folder, it holds none of them or something else, or one holds what none may.
    """
    from servegate.report.templating import Templates  # its libraries take a second to import, and most gates need none of them

    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder", advice=f"It holds templates: {', '.join(TEMPLATES)}.")
    names = sorted(path.name for path in folder.iterdir())
    for name in names:
        if name not in TEMPLATES:
            near = get_close_matches(name, TEMPLATES, n=1)
            meant = f"Did you mean {near[0]}?" if near else f"Those are {', '.join(TEMPLATES)}."
            raise UsageError(f"{folder / name} is no template that can be replaced", advice=meant)
    if not names:
        raise UsageError(f"{folder} holds no template", advice=f"It may hold {', '.join(TEMPLATES)}.")
    return Templates({name: read_text(folder / name) for name in names}).own


def read_calibration(path: Path, *, required: bool = False) -> Calibration | None:
    """Read a gate's false-alarm record; None when it is absent and not required. Raises UsageError on what is none."""
    if not required and not path.is_file():
        return None
    advice = "Make it anew with `servegate calibrate`, or remove it: a gate needs none."
    try:
        document = parse_json(decoded(_file(path)))
    except ValueError as error:
        raise UsageError(f"{path} is not JSON: {error}", advice=advice) from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise UsageError(f"{path} is no calibration: its kind is not {KIND!r}", advice=advice)
    if document.get("schema_version") != SCHEMA_VERSION:
        raise UsageError(
            f"{path} has schema version {document.get('schema_version')!r}; this servegate reads {SCHEMA_VERSION}",
            advice=advice,
        )
    try:
        return Calibration.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{path}: {where}: {first['msg']}", advice=advice) from None
