"""Blocks of load that alternate between two living engines: A B B A, one asleep while the other is loaded.

Everything else was measured before, on each arm's own. What a slow drift of the machine does to one arm it then does to
the other as well. Two things are not as in a solo start, and are said: the second engine started beside one asleep, so
its KV cache says nothing about capacity; and each arm still has a single start, whose luck no number of blocks averages out.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

from servegate.domain.evidence import EngineFacts, Reason
from servegate.domain.plan import Step
from servegate.errors import EngineError, MeasurementError
from servegate.ports import SleepingSession

if TYPE_CHECKING:
    from servegate.pipeline.arm_run import ArmRun

NOT_SOLO = "the engine started while another one slept on the card, which is no solo start"


def measure_interleaved(runs: Sequence[ArmRun], blocks: Sequence[Step]) -> None:
    """Serve all arms at once, measure each on its own, then the blocks in turn. Failures are recorded in the arms' runs."""
    sessions: dict[str, SleepingSession] = {}
    by_name = {run.arm.name: run for run in runs}
    current = runs[0]
    try:
        with ExitStack() as stack:
            for current in runs:
                session = stack.enter_context(current.served())
                if not isinstance(session, SleepingSession):
                    raise EngineError(f"the {current.arm.name} engine cannot sleep, so no blocks can be interleaved")
                current.begin(session, session.facts if not sessions else beside_another(session.facts))
                current.measure_steps(session)
                session.fall_asleep()
                sessions[current.arm.name] = session
            awake: str | None = None
            for step in blocks:
                current = by_name[step.arm]
                if step.check not in current.left:
                    continue
                if awake not in (None, step.arm):
                    sessions[str(awake)].fall_asleep()
                if awake != step.arm:
                    sessions[step.arm].wake_up()
                    awake = step.arm
                try:
                    current.measure_step(sessions[step.arm], step)
                except MeasurementError as error:
                    sessions[step.arm].ensure_generating()
                    for run in runs:  # a block without its partner proves nothing
                        if step.check in run.left:
                            run.close(step.check, Reason(code=error.reason_code, message=f"{step.arm}: {error.what}"))
    except EngineError as error:
        current.fail(error)
        for run in runs:
            if run is not current:
                run.give_up(Reason(code="engine_failed", message=f"broken off, since the {current.arm.name} engine failed"))
    except BaseException as error:
        for run in runs:
            run.give_up(Reason(code="broken_off", message=f"the run was broken off: {str(error) or type(error).__name__}"))
        raise


def beside_another(facts: EngineFacts) -> EngineFacts:
    """Return facts without a capacity that only a solo start could show."""
    unknown = {
        "kv_cache_tokens": None,
        "kv_cache_tokens_reason": NOT_SOLO,
        "kv_cache_gib": None,
        "kv_cache_gib_reason": NOT_SOLO,
    }
    return facts.model_copy(update=unknown)
