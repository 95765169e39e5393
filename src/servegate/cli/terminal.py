"""What a person sees while a gate runs: errors, a progress display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from servegate.domain.judgement import Outcome, Verdict
from servegate.errors import ServegateError
from servegate.ports import Advance

STYLES = {
    Outcome.PASS: "bold green",
    Outcome.REVIEW: "bold yellow",
    Outcome.FAIL: "bold red",
    Outcome.NOT_COMPARABLE: "bold magenta",
    Outcome.ERROR: "bold red",
}
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ud800-\udfff]")


class Terminal(Console):
    """A console that lets `reader_may_leave` deal with a reader that has gone; rich would exit with 1, our FAIL."""

    def on_broken_pipe(self) -> None:
        """Pass the error on."""
        raise BrokenPipeError


@contextmanager
def reader_may_leave() -> Iterator[None]:
    """Print inside of this: a reader that has gone (`servegate compare RUN | head`) must not change the exit code."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes once more at exit; there it shall find somebody who listens.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """Return a text whose control characters are shown, not obeyed: it may come from a model or a log."""
    shown = CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    # On GitHub a line that starts with `::`, or holds `##[` anywhere, is a command to the runner.
    return re.sub(r"^(\s*)::", r"\1: :", shown, flags=re.MULTILINE).replace("##[", "## [")


def show_error(error: ServegateError) -> None:
    """Print an error: what happened, what it usually means, what to do."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text.assemble(("error: ", "bold red"), printable(error.what)))
    if error.why:
        console.print(Text(printable(error.why)))
    if error.advice:
        console.print(Text(printable(error.advice), style="dim"))


def show_verdict(console: Console, verdict: Verdict) -> None:
    """Print the outcome, the headline, each check and the scope."""
    lines = Text()
    lines.append(verdict.outcome.value.replace("_", " ").upper(), style=STYLES[verdict.outcome])
    lines.append(f"  {printable(verdict.headline)}\n\n")
    for name, check in verdict.checks.items():
        lines.append(f"{name:12} ")
        word = "not judged" if verdict.not_judged(name) else check.outcome.value.replace("_", " ")
        lines.append(f"{word:14}", style=STYLES[check.outcome])
        lines.append("\n" if check.counts else " informs only\n")
    scope = verdict.scope
    lines.append(printable(f"\nvalid for {scope.gpu}; engine {scope.engine}; kernels: {scope.kernels}"), style="dim")
    for name, asked in scope.asked.items():
        lines.append(printable(f"\n{name}: {asked}"), style="dim")
    console.print(Panel(lines, border_style=STYLES[verdict.outcome].removeprefix("bold "), expand=False))


def progress_for(console: Console) -> Display | Lines:
    """Return the display that suits the console."""
    return Display(console) if console.is_terminal else Lines(console)


class Lines:
    """Plain lines with seconds since the start, for CI logs."""

    def __init__(self, console: Console) -> None:
        """Start the clock."""
        self.console, self.started = console, time.monotonic()

    @contextmanager
    def stage(self, title: str, arm: str | None, total: int | None) -> Iterator[Advance]:
        """Print a line when the stage starts, at each quarter, and when it is done."""
        name = f"{arm}: {title}" if arm else title
        self.say(f"{name} ..." if total is None else f"{name} ({total} items) ...")
        started, done, told = time.monotonic(), 0, 0

        def advance(count: int) -> None:
            nonlocal done, told
            done += count
            if total and 4 * done // total > told and done < total:
                told = 4 * done // total
                self.say(f"{name}: {done} of {total}")

        yield advance
        self.say(f"{name}: done in {time.monotonic() - started:.1f} s")

    def say(self, line: str) -> None:
        """Print one line."""
        seconds = time.monotonic() - self.started
        self.console.print(f"[{seconds:7.1f} s] {printable(line)}", highlight=False, markup=False, soft_wrap=True)


class Display:
    """A bar per stage: arm, stage, items done, time left."""

    def __init__(self, console: Console) -> None:
        """Prepare the bar; it shows while a stage is open."""
        self.console = console

    @contextmanager
    def stage(self, title: str, arm: str | None, total: int | None) -> Iterator[Advance]:
        """Show the stage while it is open, then leave one line with its seconds."""
        started = time.monotonic()
        name = f"{arm or '':10} {title}"
        with self._bar(total) as bar:
            task: TaskID = bar.add_task(printable(name), total=total)
            yield lambda count: bar.advance(task, count)
        self.console.print(Text.assemble(("✓ ", "green"), f"{name}  ", (f"{time.monotonic() - started:.1f} s", "dim")))

    def say(self, line: str) -> None:
        """Print one line above the bar."""
        self.console.print(Text(printable(line)))

    def _bar(self, total: int | None) -> AbstractContextManager[Progress]:
        known = total is not None
        columns = [SpinnerColumn(), TextColumn("{task.description}", markup=False)]
        if known:
            columns += [BarColumn(bar_width=30), TextColumn("{task.completed:.0f}/{task.total:.0f}"), TimeRemainingColumn()]
        return Progress(*columns, TimeElapsedColumn(), console=self.console, transient=True)
