"""Why an engine did not start: the first exception of a worker, not the last line of the log.

The last line usually reads "Engine core initialization failed. See root cause above." The cause stands in the first
traceback of the process that failed first; everything after it is that failure travelling up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from servegate.domain.evidence import Diagnosis
from servegate.engines.faults import fault_of
from servegate.engines.log_lines import Line

MAX_EXCEPTION = 1000

_EXCEPTION = re.compile(
    r"^(?:[A-Za-z_][\w.]*\.)?(?:[A-Z]\w*)?(?:Error|Exception|Exit|Interrupt|Failure|Fault)\b(?:: ?.*)?$"
    r"|^[a-z_][\w.]+\.[A-Z]\w*: .*$"
)
_WRAPPER = re.compile(
    r"Engine core initialization failed|EngineCore (?:encountered|failed)|EngineDeadError|WorkerProc initialization failed"
    r"|^SystemExit|^KeyboardInterrupt|CancelledError|Engine process failed to start"
)
_FATAL = re.compile(r"terminate called|Fatal Python error|Segmentation fault|Segfault encountered|^Killed$|Bus error")
_KILLED_IN_A_SHELL = 128 + 9
_USAGE = re.compile(r"^vllm(?: serve)?: error: (.+)$")


def diagnose(lines: Sequence[Line]) -> Diagnosis | None:
    """Return the first cause that a log names, or None when it names none.

    In this order: the first exception of a worker that is no mere report of another one, a refused command line, the
    first exception of any process, a crash below Python.
    """
    exceptions = list(_exceptions(lines))
    causes = [each for each in exceptions if not _WRAPPER.search(each[1])]
    for line, text in causes:
        if line.is_worker:
            return _diagnosis(line, text)
    for line in lines:
        if match := _USAGE.match(line.text):
            return _diagnosis(line, match[1], "bad_option")
    for line, text in causes or exceptions:
        return _diagnosis(line, text)
    for line in lines:
        if _FATAL.search(line.text):
            return _diagnosis(line, line.text, "crashed")
    return None


def died(code: int | None) -> Diagnosis:
    """Return the diagnosis of an engine that ended without a word: only its exit code is known."""
    if code is not None and code < 0:
        # Exit by SIGKILL is no proof of an out-of-memory kill: an impatient administrator leaves the same trace.
        return Diagnosis(code="killed", exception=f"the engine was ended by signal {-code}", line=None)
    if code == _KILLED_IN_A_SHELL:
        return Diagnosis(code="killed", exception="the engine was killed (exit code 137); by whom is not known", line=None)
    return Diagnosis(code="exited", exception=f"the engine ended with exit code {code} and no exception in its log", line=None)


def _exceptions(lines: Sequence[Line]) -> Iterable[tuple[Line, str]]:
    """Yield (line, exception text) in the order of the file: what ends a traceback, and unindented `SomeError: ...` lines."""
    in_traceback: set[str] = set()
    for index, line in enumerate(lines):
        if line.text.startswith("Traceback (most recent call last)"):
            in_traceback.add(line.writer)
        elif line.text[:1] in ("", " ", "\t", "|", "+"):
            continue
        elif _EXCEPTION.match(line.text) and (line.writer in in_traceback or line.level in ("", "ERROR", "CRITICAL")):
            in_traceback.discard(line.writer)
            yield line, _with_details(line, lines[index + 1 : index + 60])


def _with_details(line: Line, following: Sequence[Line]) -> str:
    """Add the indented lines that some exceptions put their reason in (pydantic: `1 validation error for ModelConfig`)."""
    text = line.text
    if not text.rstrip().endswith(":") and "validation error" not in text:
        return text
    details: list[str] = []
    for other in following:
        if other.writer != line.writer:
            continue
        if not other.text.startswith(" ") or len(details) == 3:
            break
        details.append(other.text.strip())
    return " ".join((text, *details))


def _diagnosis(line: Line, text: str, code: str | None = None) -> Diagnosis:
    printable = "".join(character if character.isprintable() else " " for character in text)[:MAX_EXCEPTION]
    fault = fault_of(text)
    if fault is not None:
        return Diagnosis(
            code=code or fault.code, exception=printable, line=line.number, workaround=fault.advice, blame=fault.blame
        )
    return Diagnosis(code=code or "exception", exception=printable, line=line.number)
