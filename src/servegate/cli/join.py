"""`servegate join`: one run directory for each gate, out of two outputs of which each measured one arm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from servegate.artifacts import dump
from servegate.cli.terminal import printable
from servegate.errors import RunDirectoryError, UsageError
from servegate.pipeline.changing import INDEX, read_index
from servegate.pipeline.joining import join

WEIGHTS = ("review", "refused", "failed")
DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command("join", help="Make one run of two: the baseline's, and one in which the candidate alone was measured.")
@click.option("--baseline", type=DIRECTORY, required=True, help="Output in which the baselines were measured.")
@click.option("--candidate", type=DIRECTORY, required=True, help="Output in which the candidates were measured.")
@click.option("--output", type=click.Path(path_type=Path), required=True, help="Where the joined runs go.")
@click.option("--pairs", type=DIRECTORY, help="What `servegate pairs` wrote, when the runs are those of a pull request.")
def command(baseline: Path, candidate: Path, output: Path, pairs: Path | None) -> None:
    """Join every run of the baseline's output with its counterpart."""
    gates = sorted(path.parent.name for path in baseline.glob("*/run.json"))
    if not gates and pairs is None:
        raise RunDirectoryError(f"{baseline} holds no run", advice="Measure with `servegate measure --arm baseline` first.")
    output.mkdir(parents=True, exist_ok=True)
    for gate in gates:
        other = candidate / gate
        there = (other / "run.json").is_file() and not other.is_symlink()
        try:
            run = join(baseline / gate, other if there else None, output / gate)
        except (RunDirectoryError, UsageError) as error:
            if (output / gate).exists() or not there:
                raise
            # The candidate's side is damaged, which is the candidate's fault and no reason to lose the baseline's.
            click.echo(printable(f"{gate}: the candidate's run is left out: {error.what}"), err=True)
            run = join(baseline / gate, None, output / gate)
        click.echo(str(run.root))
    if pairs is not None:
        _index(pairs, (baseline, candidate), output)


def _index(pairs: Path, sides: tuple[Path, ...], output: Path) -> None:
    """Write the index: what git said there is, and what either side could not measure. No side can take anything away."""
    index = read_index(pairs)
    for side in sides:
        if not (side / INDEX).is_file():
            continue
        try:
            told = read_index(side).not_measured
        except RunDirectoryError as error:
            click.echo(printable(f"{side / INDEX} is left out: {error.what}"), err=True)
            continue
        known = {each.path for each in index.not_measured}
        mine = [each for each in told if each.path not in known and each.weight in WEIGHTS]
        index = replace(index, not_measured=(*index.not_measured, *mine))
    (output / INDEX).write_bytes(dump({**index.to_json(), "kind": "index", "outcomes": {}}))
