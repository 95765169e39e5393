"""The fake engine as an executable named `vllm`, for rehearsals without a GPU and for our own tests."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from servegate.errors import UsageError

FAULTS = {
    "die-at-start": "ends while it starts, as if somebody held the card's memory",
    "die-at-PHASE": "ends in a phase of the start: spawn, load, compile, warm_up, ready",
    "hang-at-PHASE": "hangs in a phase of the start; set engine.start_timeout_s to see the end soon",
    "never-ready": "starts and never answers",
    "wrong-model": "another server answers on the port",
    "ignore-sigterm-and-fork": "does not listen to SIGTERM and starts children that do not either",
    "flip-some-answers": "answers a quarter of the prompts differently",
    "forget-the-middle": "loses what stands in the middle third of a long prompt, as a faulty KV cache does",
    "break-when-sampled": "answers most requests wrongly that leave the temperature to the serving config",
    "stream-error-after-N": "after N completions, half an answer and then an error object inside HTTP 200",
    "stream-cut-after-N": "after N completions, half an answer and then a closed connection",
    "garbage-text": "answers every prompt with exclamation marks, HTTP 200",
    "die-after-N": "ends after N completions",
    "hang-after-N": "hangs after N completions while its port stays healthy; set engine.request_timeout_s",
    "hang-after-N-tokens": "hangs after N tokens",
    "sleep-after-N": "is put to sleep after N completions",
    "http-500-after-N": "answers every completion after N with HTTP 500",
    "garbage-after-N": "answers with bytes that are no JSON, HTTP 200",
}
"""What FAKE_VLLM_FAULT may say."""
VARIABLE = "FAKE_VLLM_FAULT"
_PROGRAM = Path(__file__).with_name("fake_vllm.py")


def command() -> tuple[str, ...]:
    """Return what runs the fake engine; it needs no package, so it starts in a fraction of a second."""
    return (sys.executable, "-I", "-S", str(_PROGRAM))


def install(directory: Path) -> Path:
    """Write an executable `vllm` that runs the fake engine, and return it for `engine.executable`.

    Raises:
        UsageError: there is a `vllm` already that is not ours, or the directory cannot be written.
    """
    path, first = directory / "vllm", "#!/bin/sh\n# servegate fake-engine\n"
    try:
        if path.exists() and not path.read_bytes().startswith(first.encode()):
            raise UsageError(f"{path} exists and is no fake engine", advice="Give another directory; nothing was changed.")
        directory.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{first}exec {shlex.join(command())} "$@"\n')
        path.chmod(0o755)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", advice="Give a directory of your own.") from None
    return path
