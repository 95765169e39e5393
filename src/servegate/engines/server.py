"""One server process from spawn to stop: who is ready, who is dead, who only pretends.

"Ready" needs three things at once, because each alone has fooled somebody: *our* child is alive (an older server on the
same port answers `/health` just as well), `/v1/models` names the very model name with our nonce (a process that shares
the port answers with another), and one bounded generation brought a token (an engine whose first kernel hangs answers
everything else). Everything has a deadline, and the message says in which phase the start was when it passed.
"""

from __future__ import annotations

import shlex
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from servegate.domain.evidence import Diagnosis, EngineFacts, EngineStatus
from servegate.domain.records import MOST
from servegate.engines.diagnosis import diagnose, died
from servegate.engines.log_lines import Line, lines_of
from servegate.engines.readiness import Answer, ask, listed_model, model_names, text_at
from servegate.engines.token_watch import tokens_of, what_hangs
from servegate.errors import EngineError
from servegate.subprocesses import Supervised
from servegate.text.secret_names import is_secret

MAX_LOG_BYTES = 16 << 20
"""Read of a log for facts and diagnosis; the file itself is kept whole."""
LAST_LOG_BYTES = 1 << 20
LOOK_S = 0.1
"""Pause between two looks at a server that is not ready."""
_TRIAL = {"prompt": "Hello", "max_tokens": 4, "temperature": 0.0, "seed": 0, "ignore_eos": True}
_SHORT_REQUEST_S = 5.0
_FOLLOWED_BYTES = 1 << 20
_LAST_WORDS_S = 3.0

ReadLog = Callable[[str, EngineFacts], EngineFacts]


class EngineFailedError(EngineError):
    """An engine that did not start, or died; `facts` is what its log gave, with the diagnosis."""

    def __init__(self, what: str, facts: EngineFacts, *, why: str = "", advice: str = "") -> None:
        """Keep the facts beside the explanation."""
        super().__init__(what, why=why, advice=advice)
        self.facts = facts


@dataclass
class Server:
    """A server that `supervise` runs. `base_facts` holds what is known without its log."""

    arm: str
    child: Supervised
    base_url: str
    model: str
    api_key: str = field(repr=False)
    """What this start of the engine asks its clients for; another server does not know it."""
    log_path: Path
    environment: Mapping[str, str]
    """The arm's own variables, for the command that is shown to a reader."""
    base_facts: EngineFacts
    read_log: ReadLog
    phase_begun: Callable[[str], str | None]
    phases: Mapping[str, str]
    hung: Callable[[], str | None] = lambda: None
    """Why a watch ended the engine, once it did."""
    look_after: Callable[[], None] = lambda: None
    """Raises RunnerError when the card is lost: then that is the cause, and the engine's end its echo."""
    ready_facts: EngineFacts | None = None
    """Facts of the ready server: what it was stays known when it dies later."""
    started_at: float = field(default_factory=time.monotonic)
    phase: str = "spawn"
    _offset: int = 0

    def wait_until_ready(
        self, start_timeout_s: float, request_timeout_s: float, progress: Callable[[str], None]
    ) -> EngineFacts:
        """Return the facts of the ready server.

        Raises:
            EngineFailedError: it died, somebody else answers, it does not generate, or the time is up.
        """
        deadline = self.started_at + start_timeout_s
        entered = {self.phase: self.started_at}
        progress(f"{self.arm}: {self.phases[self.phase]}")
        problem = ""
        while True:
            if self._follow(entered):
                progress(f"{self.arm}: {self.phases[self.phase]}")
            self.ensure_alive()
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._timed_out(start_timeout_s, problem)
            answer = ask(f"{self.base_url}/v1/models", min(_SHORT_REQUEST_S, left), api_key=self.api_key)
            listed = listed_model(answer, self.model)
            if listed is not None:
                break
            if (answer.status == 200 and answer.value is not None) or answer.status == 401:  # ours knows its own key
                raise self._somebody_else(answer)
            problem = "" if answer.refused else f"`/v1/models`: {answer.problem}"
            time.sleep(min(LOOK_S, max(0.0, left)))
        self._generate(min(request_timeout_s, deadline - time.monotonic()), start_timeout_s)
        self.ensure_alive()
        version = ask(f"{self.base_url}/version", _SHORT_REQUEST_S).value
        facts = self.base_facts.model_copy(
            update={
                "status": EngineStatus.READY,
                "version": text_at(version, "version"),
                "max_model_len": _count(listed.get("max_model_len")),
                "phases_s": _durations(entered, time.monotonic()),
            }
        )
        self.ready_facts = self.read_log(self.log_text(), facts)
        return self.ready_facts

    def ensure_generating(self, timeout_s: float) -> None:
        """Ask for one token: a server may answer everything else and generate nothing.

        Raises:
            EngineFailedError: it brought none in time, or it is dead.
            RunnerError: the card is lost.
        """
        self.ensure_alive()
        body = {**_TRIAL, "max_tokens": 1, "model": self.model, "cache_salt": f"{self.model}-after"}
        answer = ask(f"{self.base_url}/v1/completions", timeout_s, body, api_key=self.api_key)
        if tokens_of(answer) >= 1:
            return
        if answer.status == 0 and not answer.timed_out:
            self.child.wait(_LAST_WORDS_S)
        self.ensure_alive()
        raise self._hung(what_hangs(self.base_url, answer, f"within {timeout_s:g} s"))

    def ensure_alive(self) -> None:
        """Do nothing while our child runs.

        Raises:
            EngineFailedError: it ended, with the first exception of its log; or it was ended, since it was hung.
            RunnerError: the card is lost, which is the cause whatever became of the child.
        """
        self.look_after()
        code = self.child.poll()
        hung = self.hung()
        if hung is not None:
            raise self._hung(hung)
        if code is None:
            return
        diagnosis = diagnose(self._log_lines()) or died(code)
        facts = self._failed(diagnosis)
        when = f"while {self.phases[self.phase]}" if self.phase in self.phases else "while it was measured"
        raise EngineFailedError(
            f"the {self.arm} engine died {when}: {diagnosis.exception}",
            facts,
            why=diagnosis.workaround or "",
            advice=self._where_to_look(diagnosis),
        )

    def log_text(self) -> str:
        """Return the log so far; of one longer than MAX_LOG_BYTES the beginning, where starts and their failures stand."""
        try:
            with self.log_path.open("rb") as file:
                return file.read(MAX_LOG_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""

    def _log_lines(self) -> list[Line]:
        """Return the lines of the log's beginning and, of a long one, of its end, where an engine says why it dies."""
        lines = lines_of(self.log_text())
        try:
            with self.log_path.open("rb") as file:
                end = max(MAX_LOG_BYTES, file.seek(0, 2) - LAST_LOG_BYTES)
                file.seek(0)
                before = sum(file.read(min(1 << 20, end - at)).count(b"\n") for at in range(0, end, 1 << 20))
                rest = file.read(LAST_LOG_BYTES).decode("utf-8", "replace")
        except OSError:
            return lines
        return lines + [replace(line, number=line.number + before) for line in lines_of(rest)] if rest else lines

    @property
    def command(self) -> str:
        """Return the command as a line for a shell; values of secret variables are left out."""
        variables = [f"{name}={'...' if is_secret(name) else shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join((*variables, shlex.join(self.child.command)))

    def _follow(self, entered: dict[str, float]) -> bool:
        """Read what the log has grown by; return whether it shows a new phase."""
        with self.log_path.open("rb") as file:
            self._offset = min(self._offset, file.seek(0, 2))  # a log that grew without end was cut
            file.seek(self._offset)
            grown = file.read(_FOLLOWED_BYTES)
        # A line that never ends says nothing of a phase, and must not keep the lines after it from being read.
        end = grown.rfind(b"\n") + 1 or (len(grown) if len(grown) == _FOLLOWED_BYTES else 0)
        self._offset += end
        begun = self.phase_begun(grown[:end].decode("utf-8", "replace"))
        order = list(self.phases)
        if begun is None or order.index(begun) <= order.index(self.phase):
            return False
        entered[begun] = time.monotonic()
        self.phase = begun
        return True

    def _generate(self, timeout_s: float, start_timeout_s: float) -> None:
        self.phase = "ready"
        if timeout_s <= 0:
            raise self._timed_out(start_timeout_s, "no time was left for a first generation")
        body = {**_TRIAL, "model": self.model, "cache_salt": self.model}
        answer = ask(f"{self.base_url}/v1/completions", timeout_s, body, api_key=self.api_key)
        if tokens_of(answer) >= 1:
            return
        if answer.status == 0:  # a connection that broke off is how a death shows first
            self.child.wait(0.0 if answer.timed_out else _LAST_WORDS_S)
        self.ensure_alive()
        said = answer.problem or "it brought no token"
        found = diagnose(lines_of(self.log_text()))
        diagnosis = found or Diagnosis(code="no_generation", exception=f"the first generation failed: {said}", line=None)
        raise EngineFailedError(
            f"the {self.arm} engine answers but does not generate: {said}",
            self._failed(diagnosis),
            why=f"Its log names an exception: {found.exception}"
            if found
            else "The first generation is where a kernel hangs or fails that loading never called.",
            advice=self._where_to_look(diagnosis),
        )

    def _hung(self, why: str) -> EngineFailedError:
        found = diagnose(self._log_lines())
        diagnosis = Diagnosis(code="engine_hangs", exception=why, line=found.line if found else None)
        return EngineFailedError(
            f"the {self.arm} engine hung while it was measured, and was ended: {why}",
            self._failed(diagnosis),
            why=f"Its log names an exception: {found.exception}"
            if found
            else "A server that answers is no engine that generates; see the last lines of its log.",
            advice=self._where_to_look(diagnosis),
        )

    def _somebody_else(self, answer: Answer) -> EngineFailedError:
        if self.child.wait(_LAST_WORDS_S) is not None:
            # Our child lost the race for the port and ended: its own words tell it better, and a new port mends it.
            self.ensure_alive()
        names = ", ".join(repr(name)[:80] for name in model_names(answer)) or "no model"
        names = "what another API key opens" if answer.status == 401 else names
        diagnosis = Diagnosis(code="wrong_model", exception=f"{self.base_url} serves {names}, not {self.model!r}", line=None)
        return EngineFailedError(
            f"another server answers at {self.base_url}: it serves {names} and not {self.model!r}",
            self._failed(diagnosis),
            why="Something else took the port, or the engine ignores --served-model-name.",
            advice="Look for an older server with `ss -ltnp`, end it, and run again: each start takes a fresh port.",
        )

    def _timed_out(self, start_timeout_s: float, problem: str) -> EngineFailedError:
        doing = self.phases[self.phase]
        found = diagnose(lines_of(self.log_text()))
        said = f" ({problem})" if problem else ""
        exception = found.exception if found else f"not ready after {start_timeout_s:g} s, while {doing}{said}"
        diagnosis = found or Diagnosis(code="start_timeout", exception=exception, line=None)
        return EngineFailedError(
            f"the {self.arm} engine was not ready after {start_timeout_s:g} s; it was {doing}{said}",
            self._failed(diagnosis),
            why=f"Its log names an exception: {found.exception}" if found else "",
            advice=f"Raise engine.start_timeout_s if the log still moves. {self._where_to_look(diagnosis)}",
        )

    def _failed(self, diagnosis: Diagnosis) -> EngineFacts:
        facts = self.ready_facts or self.read_log(self.log_text(), self.base_facts)
        return facts.model_copy(update={"status": EngineStatus.FAILED, "diagnosis": diagnosis})

    def _where_to_look(self, diagnosis: Diagnosis) -> str:
        line = f", line {diagnosis.line}" if diagnosis.line else ""
        return f"Its log: {self.log_path}{line}. Run it by hand: {self.command}"


def _count(value: object) -> int | None:
    """Return what an engine states as a count; None for what is none."""
    return value if type(value) is int and 0 < value <= MOST else None


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that nobody listens on now; who takes it in between is caught by the model's name."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _durations(entered: Mapping[str, float], now: float) -> dict[str, float]:
    """Return the seconds of each phase that was seen, as the clock on the wall has it; they add up to the whole start."""
    times = [*entered.values(), now]
    return {phase: after - before for phase, before, after in zip(entered, times, times[1:], strict=False)}
