"""Makes the real objects: engines, probes, tools, the environment. Everything else gets them as arguments."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from servegate import nvml
from servegate.artifacts import RunDirectory
from servegate.checks import discovered
from servegate.cli.tasks import check_tasks
from servegate.config import Resolved
from servegate.domain.arms import Arm, Role
from servegate.domain.evidence import EngineFacts
from servegate.domain.manifest import Manifest
from servegate.engines.card_guard import CardGuard
from servegate.engines.environment import engine_environment
from servegate.engines.free_space import check_free_space, needs
from servegate.engines.preflight import check_hub_cache, check_shared_memory, shared_memory_bytes
from servegate.engines.served_files import served_files
from servegate.engines.starting import find_executable
from servegate.engines.vllm import VllmEngine
from servegate.errors import RunnerError
from servegate.manifest import allowed, collect
from servegate.pipeline import Measuring
from servegate.ports import Probes, Progress, Session
from servegate.probes.completions import HttpCompletions
from servegate.probes.embeddings import HttpEmbeddings
from servegate.probes.evaluator import LmEval
from servegate.probes.load_generator import VllmBench
from servegate.probes.prompt_logprobs import HttpPromptLogprobs
from servegate.probes.telemetry import Watch
from servegate.probes.tools import API_KEY
from servegate.subprocesses import Completed, run

TOOL_TIMEOUT_S = 4 * 3600.0
"""Longest pass of lm-eval or of the load generator; a hung engine is noticed much earlier, by its requests."""


def card_guard(found: Resolved, say: Callable[[str], None]) -> CardGuard:
    """Return what keeps the cards of a run to itself.

    Raises:
        RunnerError: there is a driver, and it fails.
    """
    return CardGuard(
        nvml=nvml.opened(),
        inherited=dict(os.environ),
        who=f"servegate, gate {found.plan.gate}",
        wait_s=found.engine.wait_minutes * 60,
        say=say,
    )


def measuring(found: Resolved, progress: Progress, guard: CardGuard) -> Callable[[RunDirectory], Measuring]:
    """Return what measures a resolved gate into a run directory.

    Raises:
        UsageError: an engine executable is not there, the machine lacks what its start needs, or a task cannot be loaded;
            looked for before any directory is made.
    """
    for arm in found.plan.arms.values():
        find_executable(arm.executable, os.environ.get("PATH"))
        check_shared_memory(arm, shared_memory_bytes())
        check_hub_cache(arm, engine_environment(os.environ, arm.environment))
    arms = tuple(found.plan.arms.values())
    check_free_space(needs(found.run_root, arms, [engine_environment(os.environ, arm.environment) for arm in arms]))
    check_tasks(found, lm_eval_executable(), _run_tool, progress)

    def make(directory: RunDirectory) -> Measuring:
        engine = VllmEngine(
            gate=found.plan.gate,
            start_timeout_s=found.engine.start_timeout_s,
            request_timeout_s=found.engine.request_timeout_s,
            progress=progress.say,
            fallbacks=found.fallbacks,
            guard=guard,
            own_caches=True,
            sleeps=any(discovered()[name].interleaved(settings) for name, settings in found.settings.items()),
        )
        probes = _ProbeMaker(directory, found.engine.request_timeout_s, found.plan.arms[Role.BASELINE.value], guard)
        return Measuring(found, directory, engine, probes, lambda arm, facts: _manifest(arm, facts, guard), progress)

    return make


def lm_eval_executable() -> str:
    """Return the lm-eval that was installed beside servegate, else the one on the PATH, else its bare name."""
    beside = Path(sys.executable).parent / "lm_eval"
    return str(beside) if beside.is_file() else shutil.which("lm_eval") or "lm_eval"


@dataclass(frozen=True)
class _ProbeMaker:
    directory: RunDirectory
    request_timeout_s: float
    baseline: Arm
    """Its own `vllm bench serve` loads both arms: a tool that changes with the engine would be measured with it."""
    guard: CardGuard

    def __call__(self, session: Session, arm: Arm, check: str) -> Probes:
        raw = self.directory.raw_directory(arm.name, check)
        executable = find_executable(self.baseline.executable, os.environ.get("PATH"))
        return Probes(
            completions=HttpCompletions(
                session.endpoint, request_timeout_s=self.request_timeout_s, ensure_alive=session.ensure_alive
            ),
            load_generator=VllmBench(
                session.endpoint,
                executable,
                raw,
                TOOL_TIMEOUT_S,
                _run_tool,
                self.baseline.environment,
                watch=_watch(self.guard, arm),
            ),
            evaluator=LmEval(
                session.endpoint,
                lm_eval_executable(),
                raw,
                TOOL_TIMEOUT_S,
                _run_tool,
                request_timeout_s=self.request_timeout_s,
            ),
            prompt_logprobs=HttpPromptLogprobs(
                session.endpoint, request_timeout_s=self.request_timeout_s, ensure_alive=session.ensure_alive
            ),
            embeddings=HttpEmbeddings(),
        )


def _watch(guard: CardGuard, arm: Arm) -> Watch:
    """Return what is looked at while an arm is loaded: its cards, or why none can be asked."""
    try:
        return Watch(guard.nvml, tuple(card.uuid for card in guard.cards((arm,))))
    except RunnerError as error:
        return Watch(nvml.Absent(error.what), ())


def _run_tool(command: Sequence[str], *, timeout_s: float, environment: Mapping[str, str] | None, check: bool) -> Completed:
    """Run a tool without servegate's secrets: lm-eval and the load generator need none but the engine's key, and write logs."""
    given = environment or {}
    kept = {API_KEY: given[API_KEY]} if API_KEY in given else {}
    return run(command, timeout_s=timeout_s, environment=engine_environment(given, kept), check=check)


def _manifest(arm: Arm, facts: EngineFacts, guard: CardGuard) -> Manifest:
    held, reason = guard.said(arm)
    fallback = {} if facts.fallback is None else facts.fallback.environment
    manifest = collect(arm, facts, os.environ)
    environment = {**manifest.environment, **allowed({**facts.added_environment, **fallback})}
    served = served_files(arm, engine_environment(os.environ, arm.environment))
    fields = {"card_guard": held, "card_guard_reason": reason, "environment": environment, "model": served}
    used = _used(arm, guard)
    cards = tuple(card for card in manifest.gpus if card.uuid in used)
    return manifest.model_copy(update={**fields, "gpus": cards or manifest.gpus})


def _used(arm: Arm, guard: CardGuard) -> frozenset[str]:
    """Return the uuids of the cards that an arm is served on: a verdict holds for those, not for all of the machine's."""
    try:
        return frozenset(card.uuid for card in guard.cards((arm,)))
    except RunnerError:
        return frozenset()
