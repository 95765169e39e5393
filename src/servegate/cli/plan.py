"""`servegate plan`: the effective plan, printed; nothing is started and nothing is written."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from servegate.artifacts import dump
from servegate.checks import discovered
from servegate.checks.contract import step_name
from servegate.checks.reach import Amount
from servegate.cli import capacity
from servegate.cli.foretelling import asked, foretold
from servegate.cli.options import plan_options, resolved
from servegate.cli.terminal import Terminal, printable, reader_may_leave
from servegate.config import Resolved
from servegate.domain.calibration import remark, valid_for
from servegate.domain.plan import Step
from servegate.domain.records import Json


@click.command("plan", help="Print the effective plan: arguments of both arms, knobs, settings with source, schedule.")
@plan_options
@click.option("--card", metavar="NAME", help="Predict capacity for this card, such as H200; no GPU is needed.")
@click.option("--vram", type=float, metavar="GIB", help="Predict capacity for a card of this much memory.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def command(config: Path | None, card: str | None, vram: float | None, as_json: bool, **options: Any) -> None:
    """Print the plan."""
    found = resolved(config, **options)
    where = capacity.room(found.plan, card, vram)
    console = Terminal(highlight=False)
    with reader_may_leave():
        if as_json:
            click.echo(dump(found.plan.to_json()).decode(), nl=False)
            return
        console = console if console.is_terminal else Terminal(highlight=False, width=200)
        show(console, found)
        capacity.show(console, found, where)


def show(console: Console, found: Resolved) -> None:
    """Print a plan for people."""
    plan = found.plan
    console.print(
        Text.assemble(
            ("gate ", "bold"), plan.gate, ("  policy ", "bold"), plan.policy, ("  into ", "bold"), str(found.run_root)
        )
    )
    for line, weighty in foretold(found):
        console.print(Text(printable(line), style="bold yellow" if weighty else ""), soft_wrap=True)
    for warning in found.warnings:
        console.print(Text(f"warning: {warning}", style="yellow"))
    if plan.calibration is not None:
        text, holds = remark(plan.calibration, valid_for(plan), datetime.now(UTC).date(), measured=False)
        console.print(Text(printable(text), style="" if holds else "yellow"))
    for note in found.notes:
        console.print(Text(f"note: {printable(note)}"))
    for name, arm in plan.arms.items():
        console.print(Text.assemble((f"\n{name}", "bold"), f"  {arm.config.path}"))
        variables = [f"{key}={shlex.quote(value)}" for key, value in arm.environment.items()]
        command_line = " ".join([*variables, shlex.join(arm.argv)])
        console.print(
            Text(f"  {printable(command_line)} --host=127.0.0.1 --port=<free> --served-model-name=<fresh>"), soft_wrap=True
        )
    console.print()
    _table(
        console,
        "What differs",
        ("knob", "baseline", "candidate"),
        [(k.name, _shown(k.baseline), _shown(k.candidate)) for k in plan.knobs],
    )
    _table(
        console,
        "Settings",
        ("setting", "value", "source"),
        [(key, _shown(s.value), s.source) for key, s in sorted(plan.settings.items())],
    )
    _table(console, "Inputs", ("file", "sha256"), [(name, digest[:16]) for name, digest in plan.inputs.items()])
    _table(
        console,
        "Schedule",
        ("#", "arm", "check", "step", "requests", "tokens read, at most", "written, at most"),
        [
            (str(number), step.arm, step.check, _step(found, step), *_counts(asked(found, step)))
            for number, step in enumerate(plan.schedule, start=1)
        ],
    )


def _step(found: Resolved, step: Step) -> str:
    check, name = discovered()[step.check], step.check
    return step_name(check, found.settings[name], found.inputs.get(name), step.step, found.plan.rounds)


def _counts(amount: Amount) -> tuple[str, ...]:
    return tuple("-" if each is None else f"{each:,}" for each in (amount.requests, amount.read, amount.written))


def _table(console: Console, title: str, headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows or [("none", *[""] * (len(headings) - 1))]:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console.print(table)
    console.print()


def _shown(value: Json) -> str:
    return "(not set)" if value is None else value if isinstance(value, str) else dump(value).decode().strip().replace("\n", "")
