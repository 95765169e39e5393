"""measure: executes a plan's schedule into a run directory.

Whatever happens, the directory stays readable and says what it holds: every step is written as soon as it is there,
as `partial` until the last one of its check, so that a run that was cancelled, killed or lost its engine can be judged
for what it is and never for what it would have been.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from servegate.artifacts import RunDirectory, boot_id
from servegate.config import Resolved, checks_of
from servegate.domain.arms import Arm, Role
from servegate.domain.evidence import EngineFacts, EngineStatus, NotMeasured, Reason
from servegate.domain.manifest import Manifest
from servegate.domain.plan import Origin, Step
from servegate.domain.records import Json
from servegate.errors import Cancelled, MeasurementError, ServegateError, UsageError
from servegate.pipeline.arm_run import ArmRun
from servegate.pipeline.interleaving import measure_interleaved
from servegate.ports import Engine, Probes, Progress, Session

MakeProbes = Callable[[Session, Arm, str], Probes]
"""Makes the probes of one check on one session: (session, arm, check)."""
NOTHING = "no check that measures got anything from the baseline, so there is nothing to compare this arm with"
Collect = Callable[[Arm, EngineFacts], Manifest]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _revisions(origin: Origin | None) -> dict[str, Json]:
    if origin is None:
        return {"git": None, "git_reason": "the revisions of both configs are recorded when the gate runs on a pull request"}
    return {"git": {"base": origin.merge_base, "head": origin.head, "dirty": False}}


class Measuring:
    """One run of a plan: serves its arms one after the other and measures each."""

    def __init__(
        self,
        resolved: Resolved,
        run: RunDirectory,
        engine: Engine,
        make_probes: MakeProbes,
        collect: Collect,
        progress: Progress,
    ) -> None:
        """Keep the collaborators; nothing starts yet."""
        self.resolved, self.plan, self.run = resolved, resolved.plan, run
        self.engine, self.make_probes, self.collect, self.progress = engine, make_probes, collect, progress
        self.checks = {name: check for name, check in checks_of(resolved.plan).items() if check.measure is not None}
        """The checks that measure; the others have nothing to do here."""
        self.stages: list[dict[str, Json]] = []
        if (run.root / "run.json").is_file():
            # The other arm was measured before, by another process; its stages stay on record.
            self.stages += run.read_run().data.get("stages", [])
        self.record = {
            "pid": os.getpid(),
            "host_boot_id": boot_id(),
            "argv": [os.path.basename(sys.argv[0]), *sys.argv[1:]],  # noqa: PTH119 - not a path of ours
            **_revisions(resolved.plan.origin),
            "merged_from": [],
        }

    def measure(self, arms: tuple[str, ...]) -> None:
        """Measure the arms in the plan's order.

        A failed engine or check is recorded and the rest goes on; wrong input and signals end the run.
        """
        if self.blocks() and set(arms) != set(self.plan.arms):
            raise UsageError(
                "interleaved blocks need both arms in one run",
                advice="Measure without --arm (`isolate-arms: false` in the action), or leave `throughput.interleave` out.",
            )
        self.write("running")
        self.run.write_plan(self.plan)
        self.run.forget_products()
        for name in arms:
            self.run.forget_arm(name)
        status = "failed"
        try:
            failed = self._failed_before(arms)
            blocks = self.blocks()
            if blocks:
                runs = [ArmRun(self, arm) for arm in sorted(self.plan.arms.values(), key=lambda item: item.session)]
                measure_interleaved(runs, blocks)
                arms = ()
            sealed: dict[str, str] = {}
            for name in sorted(arms, key=lambda item: self.plan.arms[item].session):
                measured = ArmRun(self, self.plan.arms[name])
                if failed is not None:
                    self.skip(measured, failed)
                elif not measured.execute():
                    failed = Reason(code="engine_failed", message=f"not started, since the {name} engine failed")
                elif self.checks and not measured.done and measured.arm.role is Role.BASELINE:
                    failed = Reason(code="nothing_to_compare", message=f"not started, since {NOTHING}")
                self._ensure_sealed(sealed)
                sealed |= self._digests_of(name)
            status = "complete"
        except (KeyboardInterrupt, Cancelled):
            status = "cancelled"
            raise
        finally:
            self.write(status)
            self.run.write_checksums()

    def _digests_of(self, arm: str) -> dict[str, str]:
        """Return what an arm's evidence is when nothing of its engine is left."""
        return {path: digest for path, digest in self.run.evidence_digests().items() if path.startswith(f"arms/{arm}/")}

    def _ensure_sealed(self, sealed: dict[str, str]) -> None:
        """Raise MeasurementError when the evidence of an earlier arm changed while a later one was served.

        One process that measures both arms can not keep an engine from it, as the action's two containers do; it can notice.
        """
        now = self.run.evidence_digests() if sealed else {}
        changed = sorted(path for path, digest in sealed.items() if now.get(path) != digest)
        if changed:
            raise MeasurementError(
                f"{changed[0]} was changed after its arm was measured ({len(changed)} files of evidence in all)",
                why="Something wrote into the run directory meanwhile; a later arm's engine can, as both run as one user.",
                advice="Nothing of this run proves anything. Find out what wrote, or measure each arm where it can not write "
                "the other's evidence, as the action does.",
            )

    def _failed_before(self, arms: tuple[str, ...]) -> Reason | None:
        """Return why no arm needs a start: of one that another process measured before, the engine failed, or nothing came."""
        first = min(self.plan.arms[name].session for name in arms)
        for name, arm in self.plan.arms.items():
            facts = self.run.read_engine(name) if arm.session < first else None
            if facts is not None and facts.status is EngineStatus.FAILED:
                return Reason(code="engine_failed", message=f"not started, since the {name} engine failed")
            if facts is not None and arm.role is Role.BASELINE and self.checks and not self._measured(name):
                return Reason(code="nothing_to_compare", message=f"not started, since {NOTHING}")
        return None

    def _measured(self, arm: str) -> bool:
        """Whether an arm that was measured before holds anything, of any check."""
        kinds = {name: check.measurement for name, check in self.checks.items() if check.measurement is not None}
        found = (self.run.read_measurement(arm, name, kind) for name, kind in kinds.items())
        return not all(isinstance(one, NotMeasured) for one in found)

    def skip(self, measured: ArmRun, reason: Reason) -> None:
        """Record an arm that is not started: what it would be compared with is not there, and a start costs minutes."""
        self.progress.say(f"{measured.arm.name}: {reason.message}")
        names = {"stage": "start", "arm": measured.arm.name, "check": None, "step": None}
        self.stages.append({**names, "started_at": _now(), "seconds": 0.0, "outcome": "not started"})
        measured.give_up(reason)

    def blocks(self) -> tuple[Step, ...]:
        """Return the steps that alternate between the arms, in the plan's order."""
        settings = self.resolved.settings
        in_turn = {name for name, check in self.checks.items() if check.interleaved(settings[name])}
        return tuple(step for step in self.plan.schedule if step.check in in_turn)

    def write(self, status: str) -> None:
        """Write run.json with the stages so far."""
        data = {**self.record, "stages": list(self.stages)}
        self.run.write_run(status, data, gate=self.plan.gate, plan=self.plan.fingerprint())

    @contextmanager
    def stage(self, stage: str, arm: str, check: str | None = None, step: int | None = None) -> Iterator[None]:
        """Time one stage on the monotonic clock and enter it into run.json, whatever happens inside."""
        started, started_at = time.monotonic(), _now()
        outcome = "broken off"
        try:
            yield
            outcome = "done"
        except ServegateError:
            outcome = "failed"
            raise
        finally:
            seconds = round(time.monotonic() - started, 3)
            names = {"stage": stage, "arm": arm, "check": check, "step": step}
            self.stages.append({**names, "started_at": started_at, "seconds": seconds, "outcome": outcome})
            self.write("running")
