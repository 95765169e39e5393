"""`servegate clean`: what servegate keeps for later runs, and removing what no run uses any more."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from servegate.cli.ranges import FiniteRange
from servegate.cli.terminal import printable
from servegate.engines.cache_keeping import GIB, KINDS, MOST_DAYS, MOST_GIB, Entry, entries, remove, surplus
from servegate.engines.compile_cache import cache_directory


@click.command("clean", help="Remove what servegate keeps for later runs and no run used lately; a running gate loses nothing.")
@click.option("--days", type=FiniteRange(min=0), default=MOST_DAYS, show_default=True, help="Remove what is idle longer.")
@click.option("--gib", type=FiniteRange(min=0), default=MOST_GIB, show_default=True, help="Keep no more than this.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only these; by default all kinds.")
@click.option("--list", "only_list", is_flag=True, help="Show what is there and what would go; remove nothing.")
def command(days: float, gib: float, kinds: Sequence[str], only_list: bool) -> None:
    """Show the cache and remove what is beyond the bounds."""
    now_s, chosen = time.time(), set(kinds or KINDS)
    found = [each for each in entries(os.environ) if each.kind in chosen]
    going = {each.path for each in surplus(found, now_s, most_days=days, most_gib=gib)}
    console = Console(highlight=False)
    if not found:
        console.print(Text(f"nothing is kept in {printable(str(cache_directory(os.environ)))}"))
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("kind", "entry", "GiB", "idle, days", ""):
        table.add_column(heading, overflow="fold", justify="right" if heading in ("GiB", "idle, days") else "left")
    gone: list[Entry] = []
    for each in found:
        said = "kept"
        if each.path in going:
            why = None if only_list else remove(each)
            said = "would be removed" if only_list else "removed" if why is None else f"kept: {why}"
            gone += [each] if why is None else []
        cells = (each.kind, each.path.name, f"{each.size_bytes / GIB:.2f}", f"{each.idle_days(now_s):.1f}", said)
        table.add_row(*(Text(printable(cell)) for cell in cells))
    console.print(table)
    freed = sum(each.size_bytes for each in gone) / GIB
    kept = sum(each.size_bytes for each in found) / GIB - freed
    verb, place = "would be freed" if only_list else "freed", printable(str(cache_directory(os.environ)))
    console.print(Text(f"{freed:.2f} GiB {verb}, {kept:.2f} GiB kept in {place}"), soft_wrap=True)
