"""One arm while it is served and measured: its steps, what they brought so far, and what is lost when something fails.

`measuring` decides which arms run and in which order; everything that is about a single arm is here.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from servegate.checks.contract import AnyCheck, Inputs, MeasureContext, step_name
from servegate.domain.arms import Arm, Role
from servegate.domain.evidence import Diagnosis, EngineFacts, EngineStatus, Measurement, NotMeasured, Reason
from servegate.domain.judgement import Finding
from servegate.domain.plan import Step
from servegate.errors import EngineError, MeasurementError, RunnerError
from servegate.pipeline.judging import arms_of, evidence_of
from servegate.ports import Probes, Session

if TYPE_CHECKING:
    from servegate.pipeline.measuring import Measuring


class ArmRun:
    """One arm from start to stop, with what was measured of it so far."""

    def __init__(self, measuring: Measuring, arm: Arm) -> None:
        """Take the arm's steps from the plan's schedule."""
        self.gate, self.arm = measuring, arm
        steps, blocks = (tuple(s for s in each if s.arm == arm.name) for each in (measuring.plan.schedule, measuring.blocks()))
        self.steps = tuple(step for step in steps if step not in blocks)
        """What is measured on the arm alone; the rest is measured in turn with the other arm."""
        self.done: dict[str, Measurement] = {}
        self.seconds: dict[str, float] = {}
        self.left = {name: sum(step.check == name for step in steps) for name in measuring.checks}
        """Steps still to do by check; a check that is finished or lost is not in here."""
        self.facts: EngineFacts | None = None

    def execute(self) -> bool:
        """Serve and measure; False when the engine failed."""
        started = time.monotonic()
        say = self.gate.progress.say
        try:
            with self.served() as session:
                self.begin(session, session.facts)
                self.measure_steps(session)
        except EngineError as error:
            self.fail(error)
            return False
        except BaseException as error:
            self.give_up(Reason(code="broken_off", message=f"the run was broken off: {str(error) or type(error).__name__}"))
            raise
        say(f"{self.arm.name}: measured in {time.monotonic() - started:.0f} s")
        return True

    def begin(self, session: Session, facts: EngineFacts) -> None:
        """Write down what serves the arm."""
        self.facts = facts
        self.gate.run.write_engine(self.gate.plan, self.arm.name, facts)
        self.gate.run.write_manifest(self.gate.plan, self.arm.name, self.gate.collect(self.arm, session.facts))

    def fail(self, error: EngineError) -> None:
        """Write down that the engine failed, and what is lost with it."""
        for line in (f"{self.arm.name}: {error.what}", error.why, error.advice):
            if line:
                self.gate.progress.say(line)
        self.gate.run.write_engine(self.gate.plan, self.arm.name, self.failed_facts(error))
        self.give_up(Reason(code="engine_failed", message=error.what))

    @contextmanager
    def served(self) -> Iterator[Session]:
        """Serve the arm; its start and its stop are stages of their own."""
        name = self.arm.name
        with ExitStack() as stack:
            with self.gate.progress.stage("start the engine", name, None), self.gate.stage("start", name):
                session = stack.enter_context(self.gate.engine.session(self.arm, self.gate.run.server_log(name)))
            try:
                yield session
            finally:
                with self.gate.stage("stop", name):
                    stack.close()

    def measure_steps(self, session: Session) -> None:
        """Measure step by step, until all are done or a check says that more evidence would change nothing."""
        pending = deque(self.steps)
        while pending:
            step = pending.popleft()
            if step.check not in self.left:
                continue
            try:
                pending.extendleft(reversed(self.measure_step(session, step)))
            except MeasurementError as error:
                session.ensure_generating()  # where the engine is gone, that is the cause and the tool's failure its echo
                self.gate.progress.say(f"{self.arm.name}, {step.check}: {error.what}")
                last = error.why.strip().rsplit("\n", 1)[-1].strip()[:300]
                message = f"{error.what}: {last}" if last and error.reason_code == "measurement_failed" else error.what
                self.close(step.check, Reason(code=error.reason_code, message=message))
                continue
            early = None if self.arm.role is Role.BASELINE else self.early_failure(step.check)
            if early is not None:
                self.gate.progress.say(f"{self.arm.name}: stopped early: {early.message}")
                self.give_up(Reason(code="stopped_early", message=f"stopped early, since {early.code} was decided"))
                return
            if self.left.get(step.check) == 0:
                self.finish(session, step)

    def measure_step(self, session: Session, step: Step) -> tuple[Step, ...]:
        """Measure one step and write the check's measurement so far; return the steps that now come beyond the plan."""
        check, settings = self.gate.checks[step.check], self.gate.resolved.settings[step.check]
        assert check.measure is not None, "a check without a measurement has no step"
        probes = self.gate.make_probes(session, self.arm, step.check)
        started = time.monotonic()
        with self.gate.stage("measure", self.arm.name, step.check, step.step):
            whole, rounds = self.inputs(check, probes, session.facts), self.gate.plan.rounds
            inputs = None if whole is None else check.part(settings, whole, step.step, rounds)
            title = f"{step.check}, {step_name(check, settings, whole, step.step, rounds)}"
            with self.gate.progress.stage(title, self.arm.name, check.items(settings, inputs)) as advance:
                context = MeasureContext(self.arm.name, step.step, session.facts, inputs, self.baseline(check), advance)
                measurement = check.measure(probes, settings, context)
            name = step.check
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - started
            earlier = self.done.get(name)
            # Kept before the engine is looked at: what a dead engine had answered is evidence, recorded as a part.
            self.done[name] = measurement if earlier is None else earlier.joined(measurement)
            session.ensure_generating()
        added = self.more(step)
        if added:
            self.gate.progress.say(f"{self.arm.name}, {name}: the baseline is noisy, so {len(added)} more rounds in each arm")
        self.left[name] += len(added) - 1
        if self.left[name]:
            self.write(name, Reason(code="unfinished", message=f"{self.left[name]} more rounds were planned"))
        elif check.finish is not None:
            self.write(name, Reason(code="unfinished", message="what did not come whole was to be asked again"))
        else:
            self.close(name, None)
        return added

    def finish(self, session: Session, step: Step) -> None:
        """Have a check complete what it measured, after its last `step`, and write its measurement."""
        name, check = step.check, self.gate.checks[step.check]
        assert check.finish is not None, "only a check with something left to ask is finished"
        settings, probes = self.gate.resolved.settings[name], self.gate.make_probes(session, self.arm, name)
        started = time.monotonic()
        reason = None
        title = f"{name}, what did not come whole"
        with self.gate.stage("finish", self.arm.name, name), self.gate.progress.stage(title, self.arm.name, None) as advance:
            try:
                inputs, baseline = self.inputs(check, probes, session.facts), self.baseline(check)
                context = MeasureContext(self.arm.name, step.step, session.facts, inputs, baseline, advance)
                self.done[name] = check.finish(probes, settings, context, self.done[name])
            except MeasurementError as error:
                reason = Reason(code=error.reason_code, message=error.what)
            session.ensure_generating()
        self.seconds[name] += time.monotonic() - started
        self.close(name, reason)

    def more(self, step: Step) -> tuple[Step, ...]:
        """Return the steps that a check adds after the last one planned; the baseline alone decides, for both arms."""
        planned = sum(each.check == step.check for each in self.steps)
        check = self.gate.checks[step.check]
        baseline = self.done[check.name] if self.arm.role is Role.BASELINE else self.baseline(check)
        if step.step != planned - 1 or baseline is None:
            return ()
        count = check.more(baseline, self.gate.resolved.settings[check.name], planned)
        return tuple(step.model_copy(update={"step": planned + index}) for index in range(count))

    def inputs(self, check: AnyCheck, probes: Probes, facts: EngineFacts) -> Inputs | None:
        """Return the check's inputs as rendered; the baseline renders them once, on its own tokenizer."""
        if check.inputs is None:
            return None
        rendered = self.gate.run.read_inputs(check.name, check.inputs)
        if rendered is not None:
            return rendered
        loaded = self.gate.resolved.inputs[check.name]
        if check.prepare is not None:
            if self.arm.role is not Role.BASELINE:
                raise MeasurementError(
                    f"{check.name}: the baseline did not render the inputs, so this arm can not be given them"
                )
            loaded = check.prepare(probes, self.gate.resolved.settings[check.name], loaded, facts)
        self.gate.run.write_inputs(self.gate.plan, check.name, loaded)
        return loaded

    def baseline(self, check: AnyCheck) -> Measurement | None:
        """Return what the baseline measured of a check, if it did and this is another arm."""
        if self.arm.role is Role.BASELINE or check.measurement is None:
            return None
        found = self.gate.run.read_measurement(Role.BASELINE.value, check.name, check.measurement)
        return None if isinstance(found, NotMeasured) else found

    def early_failure(self, name: str) -> Finding | None:
        """Return the finding that ends the run before its time: a failure so clear that more evidence changes nothing."""
        check = self.gate.checks[name]
        if check.stop is None:
            return None
        evidence = evidence_of(self.gate.run, self.gate.plan, check, arms_of(self.gate.run, self.gate.plan))
        return check.stop(evidence, self.gate.resolved.settings[name])

    def give_up(self, reason: Reason) -> None:
        """Record every check that did not finish, keeping what it had measured."""
        for name in tuple(self.left):
            self.close(name, reason)

    def close(self, name: str, reason: Reason | None) -> None:
        """Record a check that is over: whole, or with a reason not measured, or measured in part when rounds are there."""
        del self.left[name]
        self.write(name, reason)

    def write(self, name: str, reason: Reason | None) -> None:
        """Write a check's measurement as it stands; `reason` says why it is not whole."""
        result: Measurement | NotMeasured
        if name in self.done:
            result = self.done[name].model_copy(update={"partial": reason or self.done[name].partial})
        else:
            result = NotMeasured(reason=reason or Reason(code="unknown", message="nothing was measured"))
        self.gate.run.write_measurement(self.gate.plan, self.arm.name, name, result, self.seconds.get(name, 0.0))

    def failed_facts(self, error: EngineError) -> EngineFacts:
        """Return the facts of an engine that failed: its own, or what it had said before, with the error as diagnosis."""
        own: EngineFacts | None = getattr(error, "facts", None)
        if own is not None:
            return own
        diagnosis = Diagnosis(code="engine-failed", exception=error.what, line=None)
        if isinstance(error, RunnerError):
            diagnosis = Diagnosis(code=error.diagnosis_code, exception=error.what, line=None, blame="runner")
        if self.facts is not None:
            return self.facts.model_copy(update={"status": EngineStatus.FAILED, "diagnosis": diagnosis})
        return EngineFacts(
            role=self.arm.role.value,
            session=self.arm.session,
            status=EngineStatus.FAILED,
            version=None,
            version_reason="the engine did not start",
            argv=self.arm.argv,
            diagnosis=diagnosis,
        )
