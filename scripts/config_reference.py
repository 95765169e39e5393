"""Write docs/config.md, the reference of the gate config, from the settings themselves.

python scripts/config_reference.py            # rewrites docs/config.md
python scripts/config_reference.py --check    # exit 1 if it differs from what the settings say
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from servegate.checks import discovered
from servegate.config import GateConfig
from servegate.text.contract_code import LANGUAGES
from servegate.text.contracts import KINDS

TARGET = Path(__file__).parents[1] / "docs/config.md"
HEAD = """\
# The gate config

`servegate.yaml`, read strictly: unknown keys, repeated keys and wrong types are errors with file and line. This page is
made from the settings by `python scripts/config_reference.py`; `servegate plan` prints the effective values with the source
of each. Paths of files start from the config's own directory, `output.directory` from the working directory.

"""
PROMPTS = """\
## The prompt file

JSON Lines, one prompt a line: `id` (unique), `category`, `prompt` (text) or `messages` (OpenAI chat messages), and
optionally `max_tokens` and `expect`, which makes the answer's format a contract. Kinds of `expect`: {kinds}.
`code` names the language that parses ({languages}): every fenced
block of it, else every block that names no language (when only some of them parse, nothing is said), else the whole answer.
Nothing is executed, and whether names and types fit is not looked at.
Prompts may also hold `tools` and `tool_choice` as OpenAI's interface has them, and `chat_template_kwargs`. Those with `tools`,
and all prompts when the baseline has a reasoning parser, are asked over the chat route.

## A local accuracy task

A JSON file `{{"fewshot": [...], "test": [...]}}` whose rows are `{{"question": ..., "answer": ...}}`; an answer ends with a
line `#### N`, as in GSM8K. Name it with `file` in `checks.accuracy.tasks`.
"""


def document() -> str:
    """Return the whole page."""
    parts = [HEAD, _table("", GateConfig)]
    for name, check in discovered().items():
        parts.append(f"## `checks.{name}`\n\n{(check.settings.__doc__ or '').strip().splitlines()[0]}\n\n")
        parts.append(_table("", check.settings))
    kinds = ", ".join(f"`{kind}`" for kind in sorted(KINDS))
    return "".join(parts) + PROMPTS.format(kinds=kinds, languages=", ".join(f"`{language}`" for language in LANGUAGES))


def _table(prefix: str, model: type[BaseModel]) -> str:
    return "| key | default | what it is |\n|---|---|---|\n" + "".join(_rows(prefix, model)) + "\n"


def _rows(prefix: str, model: type[BaseModel]) -> list[str]:
    rows: list[str] = []
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        inner = _model_in(field.annotation)
        default = field.get_default(call_default_factory=True)
        shown = "required" if default is PydanticUndefined else "" if inner else f"`{json.dumps(_plain(default))}`"
        text = " ".join((field.description or "").split()).replace("|", "\\|")
        rows.append(f"| `{key}` | {shown} | {text} |\n")
        if inner is not None:
            is_list = "tuple" in str(field.annotation)
            rows += _rows(f"{key}[]." if is_list else f"{key}.", inner)
    return rows


def _model_in(annotation: Any) -> type[BaseModel] | None:
    candidates = (annotation, *get_args(annotation))
    return next((each for each in candidates if isinstance(each, type) and issubclass(each, BaseModel)), None)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump()
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def main() -> int:
    """Write or check the page; return the exit code."""
    if "--check" in sys.argv[1:]:
        if TARGET.is_file() and TARGET.read_text(encoding="utf-8") == document():
            return 0
        print(
            f"{TARGET.name} differs from the settings: run scripts/config_reference.py and commit the result", file=sys.stderr
        )
        return 1
    TARGET.write_text(document(), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
