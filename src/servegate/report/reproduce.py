"""The commands behind the verdict, as a shell script and as lines that can be pasted.

Every word is quoted for a POSIX shell. A word that holds control or other invisible characters is written with
`printf` escapes, so that reading the script on a terminal cannot run anything and pasting it gives the same bytes.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from itertools import groupby

from servegate.domain.arms import Arm
from servegate.domain.evidence import EngineFacts
from servegate.domain.plan import Plan, Setting
from servegate.report.numbers import plain as shown
from servegate.report.visible import cut, visible

PORT = 8000
AGAIN = "servegate-again"
"""Where a repeated run goes: the directory of the first one is never written over."""
_OPTIONS = ("--baseline", "--candidate", "--gate", "--engine", "--rounds")
_IN_FILE = re.compile(r"(.+\.ya?ml):\d+", re.DOTALL)
"""Source of a setting that stands in a file: its path and line."""


def quoted(word: str) -> str:
    """Return one word for a POSIX shell, exact to the byte and free of invisible characters."""
    if visible(word, keep="\n") == word:
        return shlex.quote(word)
    runs = groupby(word, key=lambda character: visible(character, keep="\n") == character)
    return "".join(shlex.quote("".join(run)) if plain else _printf("".join(run)) for plain, run in runs)


def _printf(invisible: str) -> str:
    # Arguments of a process are bytes: U+DC80..U+DCFF stand for single bytes there (PEP 383).
    encoded = b"".join(
        character.encode("utf-8", "surrogateescape" if "\udc80" <= character <= "\udcff" else "surrogatepass")
        for character in invisible
    )
    return "\"$(printf '" + "".join(f"\\{byte:03o}" for byte in encoded) + "')\""


def as_served(plan: Plan, engines: Mapping[str, EngineFacts | None]) -> Plan:
    """Return the plan with the commands of arms that were served with a fallback, so that what is shown can be pasted."""
    served = dict(plan.arms)
    for name, arm in plan.arms.items():
        facts = engines.get(name)
        if facts is None or facts.fallback is None:
            continue
        ours = ("--host=", "--port=", "--served-model-name=")
        words = [word for word in facts.argv[1:] if not word.startswith(ours)]
        environment = {**arm.environment, **facts.fallback.environment}
        served[name] = arm.model_copy(update={"argv": (arm.argv[0], *words), "environment": environment})
    return plan.model_copy(update={"arms": served})


def serve_words(arm: Arm, longest: int) -> tuple[str, ...]:
    """Return the quoted words that serve an arm by hand, on a fixed local port."""
    variables = tuple(quoted(cut(f"{name}={value}", longest)) for name, value in sorted(arm.environment.items()))
    words = tuple(quoted(cut(word, longest)) for word in (*arm.argv, "--host=127.0.0.1", f"--port={PORT}"))
    return (*(("env", *variables) if variables else ()), *words)


def serve_command(arm: Arm, longest: int = sys.maxsize) -> str:
    """Return the command that serves an arm by hand, one option a line; words past `longest` characters are cut."""
    words = serve_words(arm, longest)
    start = next((index for index, word in enumerate(words) if word.startswith(("--", "'--"))), len(words))
    return " \\\n  ".join((" ".join(words[:start]), *words[start:]))


def run_command(plan: Plan, longest: int = sys.maxsize) -> str:
    """Return the command that repeats the gate: its config when it had one, and every option that was given."""
    if plan.origin is not None:
        by = {"base": (), "head": ("--judge-by=head",), "protected_head": ("--trust-head",)}[plan.origin.judged_by]
        where = (f"--config={plan.origin.config_path}", f"--base={plan.origin.base}", f"--head={plan.origin.head}", *by)
        return " ".join(("servegate", "ci", *(quoted(cut(word, longest)) for word in where)))
    paths = {f"--{name}": plan.arms[name].config.path for name in ("baseline", "candidate") if name in plan.arms}
    given = {
        item.source: paths.get(item.source, shown(item.value))
        for _name, item in sorted(plan.settings.items())
        if item.source in _OPTIONS
    }
    config = next((found.group(1) for item in plan.settings.values() if (found := _IN_FILE.fullmatch(item.source))), None)
    options = {"--config": config, **given} if config else {**paths, **given}
    return " ".join(("servegate", "run", *(quoted(cut(f"{name}={value}", longest)) for name, value in options.items())))


def script(plan: Plan) -> bytes:
    """Return `reproduce.sh`: `sh reproduce.sh gate`, or the name of an arm to serve it alone."""
    names = ("gate", *plan.arms)
    lines = [
        "#!/bin/sh",
        f"# Repeats gate {_comment(plan.gate)}, in the directory in which it ran:",
        *(f"#   sh reproduce.sh {name:<12} {_purpose(name)}" for name in names),
        f"# The new run goes to {AGAIN}/; options after `gate` are passed on (--output, --force, --engine).",
        "# Settings that are not servegate's defaults, and where each came from:",
        *(f"#   {_comment(name)}: {_comment(shown(item.value))}  [{_comment(item.source)}]" for name, item in _stated(plan)),
        "set -eu",
        'case "${1:-}" in',
        "gate)",
        "  shift",
        f'  exec {run_command(plan)} --output={AGAIN} "$@"',
        "  ;;",
    ]
    for name, arm in plan.arms.items():
        lines += [f"{quoted(name)})", f"  exec {serve_command(arm)}", "  ;;"]
    lines += ["*)", f"  echo 'usage: sh reproduce.sh {'|'.join(names)}' >&2", "  exit 2", "  ;;", "esac", ""]
    return "\n".join(lines).encode("utf-8", "backslashreplace")


def _stated(plan: Plan) -> list[tuple[str, Setting]]:
    return [(name, item) for name, item in sorted(plan.settings.items()) if item.source != "default"]


def _purpose(name: str) -> str:
    return "measures, compares and reports again" if name == "gate" else f"serves that arm on port {PORT}, to look at it"


def _comment(text: str) -> str:
    return visible(cut(text, 400))
