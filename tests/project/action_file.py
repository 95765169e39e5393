"""Reads action.yml for the tests, and writes the tables of docs/action.md: `python -m tests.project.action_file`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
STEPS: dict[str, dict[str, Any]] = {step.get("id", step["name"]): step for step in ACTION["runs"]["steps"]}
DOCUMENT = ROOT / "docs" / "action.md"
BEGIN, END = "<!-- begin: generated from action.yml -->", "<!-- end: generated from action.yml -->"


def tables() -> str:
    """The inputs and outputs of the action as two Markdown tables."""
    lines = ["| input | default | what it is |", "|---|---|---|"]
    for name, given in ACTION["inputs"].items():
        default = "required" if given.get("required") else f"`{given['default']}`" if given["default"] else "empty"
        lines.append(f"| `{name}` | {default} | {one_cell(given['description'])} |")
    lines += ["", "| output | what it is |", "|---|---|"]
    lines += [f"| `{name}` | {one_cell(given['description'])} |" for name, given in ACTION["outputs"].items()]
    return "\n".join(lines)


def one_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    head, _, rest = DOCUMENT.read_text().partition(BEGIN)
    DOCUMENT.write_text(f"{head}{BEGIN}\n{tables()}\n{END}{rest.partition(END)[2]}")
