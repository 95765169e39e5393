"""What the benchmarks of judging put beside their made-up measurements: arms, an engine that was ready, a machine."""

from __future__ import annotations

from servegate import __version__
from servegate.artifacts import RunDirectory
from servegate.domain.arms import Arm, Role, ServingConfig
from servegate.domain.evidence import EngineFacts, EngineStatus
from servegate.domain.manifest import Manifest
from servegate.domain.plan import Plan


def arm(name: str) -> Arm:
    """Return an arm that serves a made-up model."""
    config = ServingConfig(path=f"{name}.yaml", sha256="0" * 64, text="model: m\n", options={"model": "m"})
    return Arm(
        name=name, role=Role(name), session=int(name != "baseline"), engine_kind="vllm", executable="vllm", config=config,
        argv=("vllm", "serve", "m"), environment={},
    )  # fmt: skip


def write_arm(run: RunDirectory, plan: Plan, name: str) -> None:
    """Write the start-up facts and the manifest of one arm."""
    facts = EngineFacts(role=name, session=int(name != "baseline"), status=EngineStatus.READY, version="0")
    manifest = Manifest(
        host="h", os="o", cpu="c", cpu_count=2, memory_gib=1.0, gpus=(), gpus_reason="none", driver=None,
        driver_reason="none", cuda=None, cuda_reason="none", packages={}, servegate=__version__, lm_eval=None,
        lm_eval_reason="none", engine={}, environment={},
    )  # fmt: skip
    run.write_engine(plan, name, facts)
    run.write_manifest(plan, name, manifest)
