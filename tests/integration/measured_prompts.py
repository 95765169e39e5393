"""A measured run with the check `prompts` alone, written from hand-made evidence: no engine is needed for it."""

from __future__ import annotations

from servegate.artifacts import RunDirectory
from servegate.checks.contract import Evidence
from servegate.checks.prompts.records import PromptsMeasurement
from servegate.domain.evidence import Measurement
from servegate.domain.plan import Plan
from tests.unit.samples import engine_facts, manifest


def write_measured(run: RunDirectory, made: Plan, found: Evidence[PromptsMeasurement], started_at: str) -> None:
    """Fill a run directory with plan, inputs and both arms; `started_at`: ISO 8601, of the first measurement."""
    run.write_plan(made)
    stages = [{"stage": "measure", "arm": "baseline", "started_at": started_at, "seconds": 1.0}]
    run.write_run("complete", {"stages": stages}, gate=made.gate, plan=made.fingerprint())
    assert found.inputs is not None
    run.write_inputs(made, "prompts", found.inputs)
    for arm, side in (("baseline", found.baseline), ("candidate", found.candidate)):
        run.write_engine(made, arm, engine_facts(arm))
        run.write_manifest(made, arm, manifest())
        assert isinstance(side.measurement, Measurement)
        run.write_measurement(made, arm, "prompts", side.measurement, 1.0)
