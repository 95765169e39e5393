"""Small valid records that tests start from; a test changes the one field it is about."""

from __future__ import annotations

from servegate.domain.arms import Arm, Role, ServingConfig
from servegate.domain.evidence import EngineFacts, EngineStatus, Quantization
from servegate.domain.manifest import Manifest
from servegate.domain.plan import Fingerprints, Knob, ModelSource, Plan, Step


def arm(name: str = "baseline", **options: object) -> Arm:
    config = ServingConfig(path=f"{name}.yaml", sha256="0" * 64, text="model: m\n", options={"model": "m", **options})
    return Arm(
        name=name,
        role=Role(name.split(".", maxsplit=1)[0]),
        session=0 if name == "baseline" else 1,
        engine_kind="vllm",
        executable="vllm",
        config=config,
        argv=("vllm", "serve", "m"),
        environment={},
    )


TWO_ROUNDS = tuple(
    Step(session=session, arm=arm, check="prompts", step=step)
    for session, arm in enumerate(("baseline", "candidate"))
    for step in (0, 1)
)
"""A schedule of both rounds of prompts, for plans of which no row may be more than was planned."""


def plan(**changes: object) -> Plan:
    values: dict[str, object] = {
        "gate": "demo",
        "policy": "quick",
        "arms": {"baseline": arm("baseline"), "candidate": arm("candidate", quantization="fp8")},
        "knobs": (Knob(name="quantization", baseline=None, candidate="fp8", source="serving config"),),
        "settings": {},
        "checks": {},
        "inputs": {},
        "schedule": (Step(session=0, arm="baseline", check="prompts", step=0),),
        "model": ModelSource(source="m", revision=None, revision_reason="local"),
        "fingerprints": Fingerprints(workload="1" * 64, policy="2" * 64, arms={"baseline": "3" * 64, "candidate": "4" * 64}),
        "rounds": 2,
    }
    return Plan.model_validate({**values, **changes})


def engine_facts(role: str = "baseline", **changes: object) -> EngineFacts:
    values: dict[str, object] = {
        "role": role,
        "session": 0 if role == "baseline" else 1,
        "status": EngineStatus.READY,
        "version": "0.32.0",
        "argv": ("vllm", "serve", "m"),
        "max_model_len": 2048,
        "quantization": Quantization(),
        "phases_s": {"ready": 30.0},
    }
    return EngineFacts.model_validate({**values, **changes})


def manifest(**changes: object) -> Manifest:
    values: dict[str, object] = {
        "host": "h",
        "os": "Linux",
        "cpu": "cpu",
        "cpu_count": 2,
        "memory_gib": 8.0,
        "gpus": (),
        "gpus_reason": "no driver",
        "driver": None,
        "driver_reason": "no driver",
        "cuda": None,
        "cuda_reason": "no driver",
        "packages": {},
        "servegate": "0.1.0",
        "lm_eval": None,
        "lm_eval_reason": "not installed",
        "engine": {},
        "environment": {},
    }
    return Manifest.model_validate({**values, **changes})
