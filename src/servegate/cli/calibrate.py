"""`servegate calibrate`: how often this gate is wrong, from runs of a config against itself; writes `calibration.json`."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

from servegate import pipeline
from servegate.artifacts import RunDirectory, dump, replacing
from servegate.cli.measure import measure
from servegate.cli.terminal import Terminal, printable, reader_may_leave
from servegate.config import CALIBRATION_FILE, Overrides, against_itself, load, read_calibration, resolve
from servegate.domain.calibration import AaRun, Calibration, ValidFor
from servegate.domain.plan import Plan
from servegate.errors import RunDirectoryError, UsageError

Read = tuple[Plan, ValidFor, AaRun]
DIRECTORY = "{gate}-calibration"

HELP = """Say how often this gate is wrong, from runs of a config against itself (A/A runs).

SOURCES are run directories whose arms are equal: they are judged. Or one gate config: its baseline is measured against
itself, each arm on a start of its own, `--starts N` starts in all, into DIR/<gate>-calibration/; A/A runs that lie there
already count too. What is found is printed and written to a small file, which `plan` and the report show.

Exit codes: 0 the record was written, whatever it says; 2 wrong arguments, a run whose arms differ, runs of different
settings, one run given twice; 5 no run could be judged (the harness or the engine failed).
"""


@click.command("calibrate", help=HELP)
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SOURCES...")
@click.option("--starts", type=int, metavar="N", help="Starts of the engine, two to an A/A run: an even number.")
@click.option("--engine", metavar="PATH", help="Engine executable.")
@click.option("--output", metavar="DIR", help="Where run directories go.")
@click.option("--file", "target", type=click.Path(path_type=Path), help="The record; the gate config's `calibration`, else "
              "./calibration.json.")  # fmt: skip
@click.option("--add", is_flag=True, help="Add to the runs that the record holds already, when its setting is this one.")
def command(
    sources: tuple[Path, ...], starts: int | None, engine: str | None, output: str | None, target: Path | None, add: bool
) -> None:
    """Judge A/A runs, or make them first."""
    console = Console(stderr=True)
    given = _configs(sources)
    if given:
        read, place = _measured(given[0], starts, engine, output, console)
    else:
        if any(option is not None for option in (starts, engine, output)):
            raise UsageError("--starts, --engine and --output go with a gate config; runs are given as directories")
        read, place = [pipeline.read_aa(RunDirectory.open(path)) for path in sources], Path(CALIBRATION_FILE)
    target = target or place
    earlier = _earlier(target, read, console) if add else ()
    record = pipeline.calibration(read, earlier)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{target.parent} can not be made: {error.strerror}", advice="Give another --file.") from None
    with replacing(target) as stream:
        stream.write(dump(record.to_json()))
    with reader_may_leave():
        show(Terminal(highlight=False), record)
        click.echo(f"record: {target}")


def _configs(sources: tuple[Path, ...]) -> list[Path]:
    """Return the gate config among the sources, if that is what was given."""
    configs = [path for path in sources if path.suffix in (".yaml", ".yml") and not path.is_dir()]
    if configs and len(sources) > 1:
        raise UsageError(
            f"{configs[0]} and {len(sources) - 1} more were given", advice="Give one gate config, or run directories alone."
        )
    return configs


def _measured(
    config: Path, starts: int | None, engine: str | None, output: str | None, console: Console
) -> tuple[list[Read], Path]:
    """Measure the baseline against itself on fresh starts; return those runs and what lay there of the same setting."""
    if starts is None or starts < 2 or starts % 2:
        raise UsageError(
            f"--starts must be an even number of at least 2, not {starts}" if starts is not None else "--starts is missing",
            why="An A/A run takes two starts: one for each arm.",
            advice="12 runs (--starts 24) without a false alarm say that at most 22 % are; 59 runs say 5 %.",
        )
    loaded = load(config, Overrides(engine=engine, output=output))
    found = resolve(against_itself(loaded))
    found = dataclasses.replace(found, warnings=tuple(text for text in found.warnings if "the arms are equal" not in text))
    root = found.run_root.with_name(DIRECTORY.format(gate=found.plan.gate))
    before = [path.parent for path in sorted(root.glob("*/run.json"))]
    free = (root / f"{number:03d}" for number in count(1) if not (root / f"{number:03d}").exists())
    made: list[Read] = []
    for number in range(starts // 2):
        _say(console, f"A/A run {number + 1} of {starts // 2}")
        run = measure(dataclasses.replace(found, run_root=next(free)), None, force=False, console=console)
        pipeline.compare(run)
        made.append(pipeline.read_aa(run))
        if made[-1][2].void is not None:
            _say(console, f"void: {made[-1][2].void}; nothing more is started")
            break
    place = loaded.directory / (loaded.config.calibration or CALIBRATION_FILE)
    setting = next((one[1] for one in made if one[2].void is None), made[0][1])
    return [*_same_setting(before, setting, console), *made], place


def _same_setting(paths: list[Path], setting: ValidFor, console: Console) -> list[Read]:
    """Return the runs that were made before under this setting; say of each other one why it is left out."""
    found = []
    for path in paths:
        try:
            read = pipeline.read_aa(RunDirectory.open(path))
        except (UsageError, RunDirectoryError) as error:
            _say(console, f"{path} is left out: {error.what}")
            continue
        differing = setting.differs(read[1])
        if differing:
            _say(console, f"{path} is left out: it was made under {'; '.join(differing)}")
        else:
            found.append(read)
    return found


def _earlier(target: Path, read: list[Read], console: Console) -> tuple[AaRun, ...]:
    record = read_calibration(target)
    if record is None or not read:
        return ()
    here = next((one[1] for one in read if one[2].void is None), read[0][1])
    differing = record.valid_for.differs(here)
    if differing:
        _say(console, f"{target} starts anew: it was made under {'; '.join(differing)}")
        return ()
    return record.runs


def _say(console: Console, line: str) -> None:
    console.print(Text(printable(line)), soft_wrap=True)


def show(console: Console, record: Calibration) -> None:
    """Print a record for people."""
    rate, split = record.false_alarms, record.conditional
    age = record.age_days(datetime.now(UTC).date())
    lines = [
        f"gate {record.gate}: {record.made_with()}, {age} days old",
        f"false alarms     {rate.alarms} of {rate.runs} independent A/A runs{_upper(rate.upper)}{_by(rate.by_check)}",
        f"                 {rate.held} of them ask for review; {rate.void} void runs are not counted",
        f"conditional      {split.alarms} of {split.runs} splits of one start{_by(split.by_check)}: {split.reason}",
        "restart spread   "
        + (
            f"{100 * record.restart.sd:.2f} %, at most {100 * record.restart.upper:.2f} % (95 %), of the speed between "
            f"{record.restart.starts} starts (throughput.limits.{record.restart.setting}: {record.restart.sd:.4f})"
            if record.restart
            else f"not known: {record.restart_reason}"
        ),
        "                 "
        + (
            f"{record.restart_accuracy.sd:.2f} points, at most {record.restart_accuracy.upper:.2f}, of the accuracy"
            if record.restart_accuracy
            else f"of the accuracy: not known: {record.restart_accuracy_reason}"
        ),
    ]
    for effect in record.effects:
        value = f"{effect.value:.4g} {effect.unit}" if effect.value is not None else "not known"
        note = effect.reason if effect.value is None else f"{effect.meaning}, 4 times in 5 (n={effect.n:,})"
        lines.append(f"smallest effect  {effect.check}: {effect.name}: {value}: {note}")
    for row in record.runs:
        said = f"FAIL {', '.join(row.alarms)}" if row.alarms else f"void: {row.void}" if row.void else row.outcome
        lines.append(f"run {row.evidence[:12]} {row.measured_on or 'undated'}  {said}")
    for line in lines:
        _say(console, line)


def _upper(upper: float | None) -> str:
    return "" if upper is None else f"; the rate is at most {100 * upper:.1f} % (exact 95 %)"


def _by(by_check: dict[str, int]) -> str:
    return f" ({', '.join(f'{name} {number}' for name, number in by_check.items())})" if by_check else ""
