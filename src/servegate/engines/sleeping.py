"""Puts an engine to sleep and wakes it, so that two of them can take turns on one card.

vLLM's `/sleep?level=1` moves the weights to the machine's memory and gives the KV cache back; `/wake_up` undoes it. Both exist
only with `--enable-sleep-mode` and VLLM_SERVER_DEV_MODE=1. The engine's API key does not protect them, so only servegate sets
that variable, only where blocks of load are interleaved, and every engine listens on 127.0.0.1 alone. An engine asleep
answers nothing; so every call here has a deadline, and the state is read back instead of believed.
"""

from __future__ import annotations

import time

from servegate.domain.arms import Arm
from servegate.engines.readiness import ask
from servegate.errors import EngineError, UsageError

OPTION, VARIABLE = "enable-sleep-mode", "VLLM_SERVER_DEV_MODE"
SLEEP_S = 120.0
"""Longest time for moving the weights of one card, either way; an 8B model takes about a second."""
LOOK_S = 0.2


def ensure_can_sleep(arm: Arm) -> None:
    """Raise UsageError when an arm is served without sleep mode; servegate adds no option of its own to what is served."""
    if arm.config.options.get(OPTION) is not True:
        raise UsageError(
            f"throughput.interleave needs `{OPTION}: true` in the serving config of the {arm.name} ({arm.config_path})",
            why="Two engines take turns on one card: one sleeps while the other is loaded.",
            advice=f"Add `{OPTION}: true` to both serving configs, or leave `interleave` out.",
        )


def put_to_sleep(base_url: str, arm: str, timeout_s: float = SLEEP_S) -> None:
    """Put an engine to sleep. Raises EngineError when it does not in time."""
    _switch(base_url, arm, "/sleep?level=1", asleep=True, timeout_s=timeout_s)


def wake(base_url: str, arm: str, timeout_s: float = SLEEP_S) -> None:
    """Wake an engine. Raises EngineError when it does not in time."""
    _switch(base_url, arm, "/wake_up", asleep=False, timeout_s=timeout_s)


def _switch(base_url: str, arm: str, path: str, *, asleep: bool, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    answer = ask(f"{base_url}{path}", timeout_s, {})
    problem = "" if answer.status == 200 else answer.problem or f"HTTP {answer.status}"
    while not problem and time.monotonic() < deadline:
        state = ask(f"{base_url}/is_sleeping", max(0.1, deadline - time.monotonic())).value
        if isinstance(state, dict) and state.get("is_sleeping") is asleep:
            return
        time.sleep(LOOK_S)
    what = "fall asleep" if asleep else "wake up"
    raise EngineError(
        f"the {arm} engine did not {what} within {timeout_s:g} s: {problem or 'it still says otherwise'}",
        why="Its sleep endpoints exist from vLLM 0.8 on, on GPUs only, and with enable-sleep-mode.",
        advice="Leave `throughput.interleave` out; without it the arms are measured one after the other.",
    )
