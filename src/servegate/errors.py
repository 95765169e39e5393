"""Every failure that a user can meet, in one place.

An error says what happened, where, what is allowed and what to do next, and knows the exit code it ends with.
Nothing below `cli` prints or exits: it raises one of these. `cli` is the only place that catches them all.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the command line, a documented interface."""

    PASS = 0
    FAIL = 1
    USAGE = 2
    REVIEW = 3
    NOT_COMPARABLE = 4
    ERROR = 5
    NOT_PUBLISHED = 6
    INTERRUPTED = 130
    TERMINATED = 143


class ServegateError(Exception):
    """A failure with an explanation: what happened (one line), what it usually means, what to do."""

    exit_code: ExitCode = ExitCode.ERROR

    def __init__(self, what: str, *, why: str = "", advice: str = "") -> None:
        """Keep the three parts; `what` must stand alone on one line of a phone's screen."""
        super().__init__(what)
        self.what = what
        self.why = why
        self.advice = advice


class UsageError(ServegateError):
    """The command line, a config or an input file is wrong; nothing was started and nothing was written."""

    exit_code = ExitCode.USAGE


class UnknownOptionError(UsageError):
    """A serving config holds an option that the list of the engine's options lacks; a newer engine may have it."""

    def __init__(self, what: str, option: str, *, why: str = "", advice: str = "") -> None:
        """`option` is its name with dashes."""
        super().__init__(what, why=why, advice=advice)
        self.option = option


class RunDirectoryError(ServegateError):
    """A run directory is missing, incomplete, damaged, or newer than this servegate."""

    exit_code = ExitCode.USAGE


class NotJudgedError(RunDirectoryError):
    """A run was measured, and never judged or never drawn."""


class StorageError(ServegateError):
    """The run directory could not be written: disk full, no permission, something in the way."""


class EngineError(ServegateError):
    """The engine could not be found or started, or died while it was measured."""

    exit_code = ExitCode.ERROR


class RunnerError(EngineError):
    """The machine failed: a lost card, a driver that stopped answering, memory that nobody gives back.

    It ends a run as ERROR and is never held against the candidate.
    """

    diagnosis_code = "runner_fault"
    """Code of the diagnosis that stands in the engine's facts."""


class MeasurementError(ServegateError):
    """A probe could not measure: the harness failed, which says nothing about the candidate."""

    exit_code = ExitCode.ERROR
    reason_code = "measurement_failed"
    """Code of the reason that stands in the run directory instead of a measurement."""


class UnsupportedError(MeasurementError):
    """The engine cannot do what a check needs: nothing broke, and nothing was measured."""

    reason_code = "unsupported"


class PublishError(ServegateError):
    """The verdict stands, but it could not be published."""

    exit_code = ExitCode.NOT_PUBLISHED


class ReadOnlyTokenError(PublishError):
    """The token may read only, as a fork's and Dependabot's may: nothing is lost, a second job publishes the stored run."""


class Cancelled(ServegateError):  # noqa: N818 - it is no error
    """SIGINT or SIGTERM arrived; children are gone and the run directory is marked `cancelled`."""

    def __init__(self, signal_number: int) -> None:
        """Exit with 128 + the number of the signal, as shells do."""
        name = "SIGTERM" if signal_number == 15 else "SIGINT"
        super().__init__(f"cancelled by {name}", advice="What was measured is kept; `servegate report` still reads it.")
        self.exit_code = ExitCode.TERMINATED if signal_number == 15 else ExitCode.INTERRUPTED
