"""vLLM as an engine: an executable that is started with canonical arguments, watched, asked and stopped."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from servegate.domain.arms import Arm
from servegate.domain.evidence import EngineFacts, EngineStatus
from servegate.domain.workload import Endpoint
from servegate.engines.environment import engine_environment
from servegate.engines.model_files import local_config
from servegate.engines.server import Server, free_port
from servegate.engines.vllm_log import PHASES, phase_begun, read_log
from servegate.errors import EngineError, UsageError
from servegate.subprocesses import supervise

STOP_GRACE_S = 6.0
"""Time vLLM gets between SIGTERM and SIGKILL to end its workers and remove shared memory. Measured on 0.32.0 (CPU): 1 to
2.5 s when it serves; while it starts it does not listen to SIGTERM at all. A cancelled GitHub job has 7.5 s."""


@dataclass(frozen=True)
class VllmSession:
    """An arm that vLLM serves."""

    server: Server
    endpoint: Endpoint
    facts: EngineFacts

    def ensure_alive(self) -> None:
        """Raise EngineError with the first exception of its log when our child is gone."""
        self.server.ensure_alive()


class VllmEngine:
    """Serves arms with `vllm serve`, each on a fresh port under a name that nobody else can have."""

    def __init__(
        self,
        *,
        gate: str,
        start_timeout_s: float = 900.0,
        request_timeout_s: float = 120.0,
        progress: Callable[[str], None] = lambda _line: None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Keep the settings; nothing starts.

        `start_timeout_s` runs from spawn to the first generated token, `request_timeout_s` is for one answer, `progress`
        gets a line for each phase of a start, `environment` stands for the caller's own (os.environ).
        """
        self._gate, self._progress = gate, progress
        self._start_timeout_s, self._request_timeout_s = start_timeout_s, request_timeout_s
        self._environment = environment

    @contextmanager
    def session(self, arm: Arm, log_path: Path) -> Iterator[VllmSession]:
        """Serve the arm; its whole log goes to `log_path`; on leaving, nothing of it is left running.

        Raises:
            UsageError: the executable is not there, or the arm's environment cannot be set.
            EngineFailedError: it did not become ready; `facts` is on the exception.
        """
        environment = engine_environment(os.environ if self._environment is None else self._environment, arm.environment)
        executable = find_executable(arm.executable, environment.get("PATH"))
        nonce = secrets.token_hex(8)
        model, port = f"{self._gate}-{arm.name}-{nonce}", free_port()
        command = (executable, *arm.argv[1:], "--host=127.0.0.1", f"--port={port}", f"--served-model-name={model}")
        source = arm.config.options.get("tokenizer", arm.config.options.get("model"))
        endpoint = Endpoint(base_url=f"http://127.0.0.1:{port}", model=model, tokenizer=str(source))
        with (
            _log_file(log_path) as log,
            supervise(command, tag=nonce, stdout=log, environment=environment, grace_s=STOP_GRACE_S) as child,
        ):
            server = Server(
                arm=arm.name,
                child=child,
                base_url=endpoint.base_url,
                model=model,
                log_path=log_path,
                environment=arm.environment,
                base_facts=EngineFacts(
                    role=arm.role.value,
                    session=arm.session,
                    status=EngineStatus.FAILED,
                    version=None,
                    argv=command,
                    pid=child.pid,
                    **_checkpoint(str(arm.config.options.get("model", ""))),
                ),
                read_log=read_log,
                phase_begun=phase_begun,
                phases=PHASES,
            )
            facts = server.wait_until_ready(self._start_timeout_s, self._request_timeout_s, self._progress)
            server.phase = "serving"
            yield VllmSession(server=server, endpoint=endpoint, facts=facts)


def _checkpoint(model: str) -> dict[str, Any]:
    """Return the checkpoint's own quantization config, or why it is not known."""
    try:
        config = local_config(model)
    except UsageError as error:
        return {"checkpoint_quantization_reason": error.what}
    if config is None:
        return {"checkpoint_quantization_reason": "the model is not a directory on this machine"}
    own = config.get("quantization_config")
    if own is None:
        return {"checkpoint_quantization_reason": "the checkpoint's config.json names no quantization"}
    return {"checkpoint_quantization": own}


def find_executable(name: str, path: str | None) -> str:
    """Return the engine's executable as a path.

    Raises:
        UsageError: it is not there; says what was looked for and how to name another.
    """
    found = shutil.which(name, path=path)
    if found is None:
        where = f"the file {name!r}" if os.sep in name else f"{name!r} in the directories of PATH"
        raise UsageError(
            f"engine not found: looked for {where}",
            why="There is no such file, or it is not executable.",
            advice="Install vLLM, or set `engine.executable` in the gate config (or --engine) to the path of `vllm`.",
        )
    return found


def _log_file(path: Path) -> IO[bytes]:
    """Open the log for appending, so that the engine's processes never overwrite each other's lines."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        return path.open("ab")
    except OSError as error:
        raise EngineError(f"{path}: the engine's log cannot be written: {error.strerror}") from None
