"""The command line: one lazily imported module a verb, the only place that prints, exits and catches everything."""

from __future__ import annotations

import gc
import importlib
import sys
from collections.abc import Sequence

import click

from servegate import __version__
from servegate.errors import Cancelled, ExitCode, ServegateError

VERBS = (
    "run", "plan", "measure", "compare", "report", "review", "accept", "calibrate", "ci", "pairs", "join", "publish", "fetch",
    "doctor", "verify", "clean", "fake-engine",
)  # fmt: skip
"""Order of the help page: what a person needs first comes first."""
HELP = {
    "run": "Serve both configs, measure, judge and write the report.",
    "plan": "Print what a run would do; touches nothing.",
    "measure": "Serve and measure only (one arm, if wanted); no judgement.",
    "compare": "Judge a run directory; needs no engine.",
    "report": "Write the report of a judged run directory.",
    "review": "Write a page for reading the changed facts, and a file to fill in.",
    "accept": "Keep what was read and accepted, so that nobody reads it again.",
    "ci": "Run a gate for every serving config that a pull request changes.",
    "pairs": "Read from git what a pull request changes; measures nothing.",
    "join": "Make one run of two, of which each measured one arm where it could not write the other's evidence.",
    "calibrate": "Say how often this gate is wrong about a config against itself.",
    "publish": "Put the verdict into the pull request and the workflow summary.",
    "fetch": "Download the newest run directory of a pull request.",
    "doctor": "Say what this machine has: GPU, driver, engine, lm-eval, disk, memory.",
    "verify": "Check a run directory's files against its checksums.",
    "clean": "Remove caches that no run used lately.",
    "fake-engine": "A vLLM without a model, to rehearse a gate without a GPU.",
}


class LazyGroup(click.Group):
    """Imports a verb's module when it is called, so that `--help` costs no library."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of the help page."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module."""
        if cmd_name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"servegate.cli.{cmd_name.replace('-', '_')}").command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Name a near verb when there is no such verb."""
        from difflib import get_close_matches

        if args and args[0] not in VERBS and not args[0].startswith("-"):
            near = get_close_matches(args[0], VERBS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"No such verb {args[0]!r}.{hint} Verbs: {', '.join(VERBS)}.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing any of them."""
        with formatter.section("Verbs"):
            formatter.write_dl([(verb, HELP[verb]) for verb in VERBS])
        with formatter.section("Exit codes"):
            formatter.write_text(
                "0 pass · 1 fail · 2 usage or config · 3 review · 4 not comparable · 5 engine or measurement error · "
                "6 could not publish · 130, 143 cancelled"
            )


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "--version", message="servegate %(version)s")
def group() -> None:
    """Gate a change to how a language model is served.

    Serves the old and the new config, measures both against their own noise, and says PASS, REVIEW or FAIL.
    """


NEW_OBJECTS = 50_000
"""So many between two searches for cycles. Python's own 700 searches hundreds of times while the records of a run are read,
which hold none: a seventh of the time of `compare`."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with a documented code."""
    gc.set_threshold(NEW_OBJECTS)
    sys.exit(int(_code(list(sys.argv[1:] if arguments is None else arguments))))


def _code(arguments: list[str]) -> int:
    from servegate.cli import signals

    try:
        with signals.converted():
            result = group.main(args=arguments, prog_name="servegate", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except ServegateError as error:
        from servegate.cli.terminal import show_error

        show_error(error)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return Cancelled(2).exit_code
    except BrokenPipeError:
        # The reader of our output has gone (`servegate plan | head`); there is nobody left to tell.
        sys.stderr.close()
        return ExitCode.ERROR
    except Exception:
        import traceback

        traceback.print_exc()
        click.echo(
            "servegate: this is a defect of servegate, not of what it measured; please report the lines above.", err=True
        )
        return ExitCode.ERROR
