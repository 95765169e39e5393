"""What `servegate plan` says of capacity: the prediction for both arms, before anything is started."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from servegate.checks.capacity.settings import CapacitySettings
from servegate.checks.capacity.words import LINES, Line
from servegate.cli.terminal import printable
from servegate.config import Resolved
from servegate.domain.arms import Arm
from servegate.domain.plan import Plan
from servegate.errors import UsageError
from servegate.manifest import host_gpus
from servegate.sizing import Prediction, Room, card_named, find_card, predicted
from servegate.sizing.serving import KV_SPACE

LARGEST_VRAM_GIB = 4096


def room(plan: Plan, card: str | None, vram: float | None) -> Room | str:
    """Return where the arms would be served, or one line on why that is not known.

    Raises:
        UsageError: the card is not in the table, or the memory is no size of a card.
    """
    if vram is not None and not 0 < vram <= LARGEST_VRAM_GIB:
        raise UsageError(f"--vram {vram:g}: not a size of a card", advice="Give GiB of one card, such as --vram 24.")
    if card is not None:
        known = Room.of_card(card_named(card))
        return known if vram is None else Room(vram, known.card, source=f"{known.card and known.card.name}: {vram:g} GiB given")
    if vram is not None:
        return Room(vram, source=f"a card of {vram:g} GiB")
    gpus = host_gpus()[0]
    if gpus:
        here = gpus[0]
        return Room(here.memory_gib, find_card(here.name), source=f"{here.name} of this machine: {here.memory_gib:g} GiB")
    if any(KV_SPACE in arm.environment for arm in plan.arms.values()):
        return Room(cpu=True, source="the CPU of this machine")
    return "no GPU here, so no capacity is predicted; name one with --card NAME, or give --vram GIB"


def show(console: Console, found: Resolved, where: Room | str) -> None:
    """Print a table of predictions, one column an arm."""
    if isinstance(where, str):
        console.print(Text.assemble(("Capacity ", "bold"), printable(where)))
        return
    settings = found.settings.get("capacity")
    chosen = settings if isinstance(settings, CapacitySettings) else CapacitySettings()
    arms = found.plan.arms
    sides = {name: _predicted(found.plan, arm, where, chosen.context_tokens) for name, arm in arms.items()}
    table = Table(
        title=f"Capacity, predicted: {printable(where.source)}",
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
    )
    for heading in ("", *sides):
        table.add_column(heading, overflow="fold")
    for line in LINES:
        cells = [_cell(line, side, chosen) for side in sides.values()]
        if any(cells):
            table.add_row(*(Text(printable(cell)) for cell in (line.title, *cells)))
    console.print(table)
    for name, side in sides.items():
        for note in (f"not predicted: {side}",) if isinstance(side, str) else side.notes:
            console.print(Text(f"{name}: {printable(note)}", style="dim"))
    console.print()


def _predicted(plan: Plan, arm: Arm, where: Room, context_tokens: int) -> Prediction | str:
    return predicted(plan.model_of(arm.name).config, arm.config.options, arm.environment, where, context_tokens)


def _cell(line: Line, side: Prediction | str, settings: CapacitySettings) -> str:
    return "not predicted" if isinstance(side, str) else line.text(side, settings.price_per_gpu_hour_usd)
