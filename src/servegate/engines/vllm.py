"""vLLM as an engine: an executable that is started with canonical arguments, watched, asked and stopped."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from servegate.domain.arms import Arm, Fallback
from servegate.domain.evidence import EngineFacts, EngineStatus
from servegate.domain.workload import Endpoint
from servegate.engines.cache_keeping import in_use, keep_in_bounds
from servegate.engines.card_guard import CardGuard
from servegate.engines.checkpoint import checkpoint_facts
from servegate.engines.compile_cache import VARIABLE, cache_for, size_bytes
from servegate.engines.environment import API_KEY, engine_environment
from servegate.engines.fallbacks import applied, used
from servegate.engines.log_bound import bounded
from servegate.engines.preflight import offline
from servegate.engines.server import EngineFailedError, Server, free_port
from servegate.engines.sleeping import VARIABLE as VARIABLE_OF_SLEEP
from servegate.engines.sleeping import put_to_sleep, wake
from servegate.engines.starting import end_group, find_executable, log_file, set_aside
from servegate.engines.token_watch import LOOK_S, TokenWatch
from servegate.engines.vllm_log import read_log
from servegate.engines.vllm_phases import PHASES, phase_begun
from servegate.subprocesses import supervise

STOP_GRACE_S = 6.0
"""Time vLLM gets between SIGTERM and SIGKILL to end its workers and remove shared memory. Measured on 0.32.0 (CPU): 1 to
2.5 s when it serves; while it starts it does not listen to SIGTERM at all. A cancelled GitHub job has 7.5 s."""
PASSING = frozenset({"port_taken", "gpu_memory_held", "gpu_memory_released"})
"""Diagnoses of a moment's bad luck: the same start is tried once more, on another port and after waiting for the card."""


@dataclass(frozen=True)
class VllmSession:
    """An arm that vLLM serves."""

    server: Server
    endpoint: Endpoint
    facts: EngineFacts
    request_timeout_s: float = 120.0
    asleep: Callable[[bool], None] = lambda _asleep: None
    """Told when the engine falls asleep and when it is awake again."""

    def fall_asleep(self) -> None:
        """Give the card to another engine. Raises EngineError when it does not in time."""
        self.asleep(True)
        put_to_sleep(self.endpoint.base_url, self.server.arm)

    def wake_up(self) -> None:
        """Take the card again and generate a token. Raises EngineError when it does not in time."""
        wake(self.endpoint.base_url, self.server.arm)
        self.asleep(False)
        self.ensure_generating()

    def ensure_alive(self) -> None:
        """Do nothing while our child and its cards are well.

        Raises:
            EngineFailedError: it died or was found hung; with the first exception of its log.
            RunnerError: a card was lost, or the driver reported an error that no program causes.
        """
        self.server.ensure_alive()

    def ensure_generating(self) -> None:
        """Ask for one token; raises as `ensure_alive` does, and EngineFailedError when none comes in time."""
        self.server.ensure_generating(self.request_timeout_s)


class VllmEngine:
    """Serves arms with `vllm serve`, each on a fresh port under a name that nobody else can have."""

    def __init__(  # noqa: PLR0913 - an engine's whole surroundings
        self,
        *,
        gate: str,
        start_timeout_s: float = 900.0,
        request_timeout_s: float = 120.0,
        progress: Callable[[str], None] = lambda _line: None,
        environment: Mapping[str, str] | None = None,
        fallbacks: tuple[Fallback, ...] = (),
        guard: CardGuard | None = None,
        own_caches: bool = False,
        sleeps: bool = False,
    ) -> None:
        """Keep the settings; nothing starts.

        `start_timeout_s` runs from spawn to the first generated token, `request_timeout_s` is for one answer and for the
        longest silence of an engine, `progress` gets a line for each phase of a start, `environment` stands for the
        caller's own (os.environ), `guard` looks after the cards, `own_caches` gives each arm its compile cache, `sleeps` opens
        the endpoints by which engines take turns on a card (see `engines.sleeping`).
        """
        self._gate, self._progress, self._guard = gate, progress, guard
        self._start_timeout_s, self._request_timeout_s = start_timeout_s, request_timeout_s
        self._environment, self._fallbacks, self._own_caches = environment, fallbacks, own_caches
        self.watch_look_s = LOOK_S
        self._sleeps = sleeps
        self._asleep: set[str] = set()

    @contextmanager
    def session(self, arm: Arm, log_path: Path) -> Iterator[VllmSession]:
        """Serve the arm; its whole log goes to `log_path`; on leaving, nothing of it is left running.

        A start that fails by a moment's bad luck is tried once more, then each declared fallback; logs of starts that
        failed are kept beside the log as `server.failed-N.log`.

        Raises:
            UsageError: the executable is not there, or the arm's environment cannot be set.
            EngineFailedError: it did not become ready; `facts` of the last start are on the exception.
            RunnerError: the card is not free, or failed.
        """
        with ExitStack() as stack:
            if self._own_caches:
                keep_in_bounds(self._caller(), self._progress)
            yield self._started(stack, arm, log_path)

    def _caller(self) -> Mapping[str, str]:
        return os.environ if self._environment is None else self._environment

    def _started(self, stack: ExitStack, arm: Arm, log_path: Path) -> VllmSession:
        """Start as the config says, then with each fallback; the first that becomes ready is entered into `stack`."""
        failures: list[tuple[EngineFailedError, str]] = []
        tried: list[tuple[Arm, Fallback | None]] = [(arm, None), *((applied(arm, each), each) for each in self._fallbacks)]
        for served, fallback in tried:
            session = self._tried_twice(stack, served, log_path, failures)
            if session is None:
                error = failures[-1][0]
                if error.facts.diagnosis is not None and error.facts.diagnosis.blame == "runner":
                    raise error  # another kernel would not mend the machine
                continue
            if fallback is None:
                return session
            first, log = failures[0]
            assert first.facts.diagnosis is not None
            self._progress(f"{arm.name}: served with the fallback {fallback.name!r}; the verdict will name it")
            facts = session.facts.model_copy(update={"fallback": used(fallback, first.facts.diagnosis, log)})
            return replace(session, facts=facts)
        error = failures[0][0]
        if self._fallbacks:
            # What is told is the start as the config says; so its log is the arm's log.
            set_aside(log_path, [failures[-1][1]])
            with suppress(OSError):
                log_path.with_name(failures[0][1]).rename(log_path)
            error.why = f"{error.why} The fallbacks did not start either: {', '.join(f.name for f in self._fallbacks)}.".strip()
        raise error

    def _tried_twice(
        self, stack: ExitStack, arm: Arm, log_path: Path, failures: list[tuple[EngineFailedError, str]]
    ) -> VllmSession | None:
        for last in (False, True):
            set_aside(log_path, [log for _error, log in failures])
            if self._guard is not None and not self._asleep:  # what our own engine asleep still holds is no stranger's
                self._guard.before_start(arm)
            try:
                return stack.enter_context(self._served(arm, log_path))
            except EngineFailedError as error:
                failures.append((error, f"server.failed-{len(failures) + 1}.log"))
                code = error.facts.diagnosis.code if error.facts.diagnosis is not None else ""
                if last or code not in PASSING:
                    if self._fallbacks:
                        self._progress(f"{arm.name}: {error.what}")
                    return None
                self._progress(f"{arm.name}: {error.what}; trying once more")
        return None

    @contextmanager
    def _served(self, arm: Arm, log_path: Path) -> Iterator[VllmSession]:
        environment = engine_environment(self._caller(), arm.environment)
        executable = find_executable(arm.executable, environment.get("PATH"))
        cards = () if self._guard is None else self._guard.cards((arm,))
        cache = cache_for(arm, executable, environment, [card.name for card in cards]) if self._own_caches else {}
        ours = {**cache, **offline(arm, environment), **({VARIABLE_OF_SLEEP: "1"} if self._sleeps else {})}
        for name, value in ours.items():
            self._progress(f"{arm.name}: served with {name}={value}")
        nonce = secrets.token_hex(8)
        model, port = f"{self._gate}-{arm.name}-{nonce}", free_port()
        command = (executable, *arm.argv[1:], "--host=127.0.0.1", f"--port={port}", f"--served-model-name={model}")
        source = arm.config.options.get("tokenizer", arm.config.options.get("model"))
        # By environment, since a command line is everybody's to read; never in `ours`, which is told and recorded.
        secret = {API_KEY: secrets.token_urlsafe(32)}
        endpoint = Endpoint(base_url=f"http://127.0.0.1:{port}", model=model, tokenizer=str(source), api_key=secret[API_KEY])
        with ExitStack() as stack:
            sources = (str(arm.config.options[name]) for name in ("model", "tokenizer") if name in arm.config.options)
            stack.enter_context(in_use((executable, *sources, *cache.values()), environment))
            log = stack.enter_context(log_file(log_path))
            stack.enter_context(bounded(log_path))
            child = stack.enter_context(
                supervise(command, tag=nonce, stdout=log, environment={**environment, **ours, **secret}, grace_s=STOP_GRACE_S)
            )
            watch = TokenWatch(
                endpoint.base_url,
                model,
                endpoint.api_key,
                stall_s=self._request_timeout_s,
                probe_s=self._request_timeout_s / 2,
                end=lambda: end_group(child.pid),
                look_s=self.watch_look_s,
            )
            server = Server(
                arm=arm.name,
                child=child,
                base_url=endpoint.base_url,
                model=model,
                api_key=endpoint.api_key,
                log_path=log_path,
                environment=arm.environment,
                base_facts=EngineFacts(
                    role=arm.role.value,
                    session=arm.session,
                    status=EngineStatus.FAILED,
                    version=None,
                    argv=command,
                    pid=child.pid,
                    added_environment=ours,
                    **checkpoint_facts(str(arm.config.options.get("model", ""))),
                ),
                read_log=read_log,
                phase_begun=phase_begun,
                phases=PHASES,
                hung=lambda: watch.hung,
            )
            if self._guard is not None:
                server.look_after = stack.enter_context(self._guard.watching(arm)).ensure_well
            facts = server.wait_until_ready(self._start_timeout_s, self._request_timeout_s, self._progress)
            server.phase = "serving"
            if cache:
                path = Path(cache[VARIABLE])
                self._progress(f"{arm.name}: its compile cache holds {size_bytes(path) / 2**20:.0f} MiB")
            stack.enter_context(watch.watching())

            def turned(asleep: bool) -> None:
                watch.asleep = asleep
                (self._asleep.add if asleep else self._asleep.discard)(arm.name)

            stack.callback(self._asleep.discard, arm.name)
            yield VllmSession(server, endpoint, facts, self._request_timeout_s, turned)
