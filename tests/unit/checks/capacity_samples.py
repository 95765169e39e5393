"""Arms whose capacity is known: SmolLM2 on a CPU, Qwen3-8B on an H200, facts from the recorded logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from servegate.checks.contract import NO_MEASUREMENT, ArmEvidence, Evidence
from servegate.domain.evidence import EngineFacts, EngineStatus
from servegate.domain.manifest import Gpu, Manifest
from servegate.domain.plan import ModelSource, Plan
from servegate.engines.vllm_log import read_log
from tests.unit.samples import arm, engine_facts, manifest, plan
from tests.unit.sizing.configs import QWEN3_8B, SMOLLM2

RECORDED = Path(__file__).parents[2] / "recorded"
H200 = Gpu(name="NVIDIA H200", uuid="GPU-1", compute_capability="9.0", memory_gib=140.4, mig=False)


def on_cpu(role: str) -> EngineFacts:
    return engine_facts(role, device="cpu", weights_gib_reason="not logged on a CPU", kv_cache_gib=2.0, kv_cache_tokens=93_184)


def smollm2_plan() -> Plan:
    environment = {"VLLM_CPU_KVCACHE_SPACE": "2"}
    arms = {name: arm(name).model_copy(update={"environment": environment}) for name in ("baseline", "candidate")}
    return plan(arms=arms, model=ModelSource(source="m", revision=None, config=SMOLLM2))


def qwen3_plan(**candidate: object) -> Plan:
    """A plan whose candidate has these options (`_` for `-`)."""
    options = {key.replace("_", "-"): value for key, value in candidate.items()}
    length = {"max-model-len": 4096}
    arms = {"baseline": arm("baseline", **length), "candidate": arm("candidate", **length, **options)}
    return plan(arms=arms, model=ModelSource(source="m", revision=None, config=QWEN3_8B))


def recorded_facts(role: str, log: str) -> EngineFacts:
    base = EngineFacts(role=role, session=0, status=EngineStatus.READY, version=None)
    return read_log((RECORDED / log).read_text("utf-8"), base)


def on_h200(plan_: Plan, baseline: EngineFacts | None, candidate: EngineFacts | None, **changes: Any) -> Evidence[Any]:
    there: Manifest = manifest(**{"gpus": (H200,), "gpus_reason": None, **changes})
    sides = [ArmEvidence[Any](facts, there, NO_MEASUREMENT) for facts in (baseline, candidate)]
    return Evidence(sides[0], sides[1], None, plan_)
