"""Both arms: predicted from the plan, the manifest and the model's config; read from what the engine logged."""

from __future__ import annotations

from typing import Any

from servegate.checks.capacity import explaining
from servegate.checks.capacity.record import ArmCapacity, CapacityContrast, Reading
from servegate.checks.capacity.settings import CapacitySettings
from servegate.checks.contract import ArmEvidence, Evidence
from servegate.domain.arms import Arm
from servegate.domain.evidence import EngineFacts, Measurement, NotMeasured, Reason
from servegate.domain.judgement import Comparison
from servegate.domain.manifest import Manifest
from servegate.domain.plan import Plan
from servegate.sizing import Prediction, Room, find_card, predicted

NO_NOISE = "arithmetic beside one start of each engine: there is no noise to measure"


def compare(evidence: Evidence[Any], settings: CapacitySettings) -> Comparison | NotMeasured:
    """Return predictions beside the engines' own lines; `n` counts the quantities of which both are known."""
    if evidence.plan is None:
        return NotMeasured(reason=Reason(code="no_plan", message="the plan is not known, so nothing can be predicted"))
    contrast = CapacityContrast(
        baseline=_arm(evidence.plan, "baseline", evidence.baseline, settings),
        candidate=_arm(evidence.plan, "candidate", evidence.candidate, settings),
    )
    known = [reading for _name, arm in contrast.arms for _what, reading in arm.readings if reading.state != "not compared"]
    return Comparison(candidate=contrast.to_json(), noise=None, noise_reason=NO_NOISE, n=len(known))


def _arm(plan: Plan, name: str, side: ArmEvidence[Measurement], settings: CapacitySettings) -> ArmCapacity:
    arm, facts = plan.arms[name], side.engine
    room = room_of(arm, facts, side.manifest)
    environment = {**arm.environment, **(side.manifest.environment if side.manifest else {})}
    found = predicted(plan.model_of(name).config, arm.config.options, environment, room, settings.context_tokens)
    prediction = found if isinstance(found, Prediction) else None
    reason = found if isinstance(found, str) else None
    if prediction is not None:
        weights = explaining.weights(prediction, facts)
        token_bytes = explaining.token_bytes(prediction, facts)
        tokens = explaining.tokens(prediction, facts, weights)
    else:
        weights, token_bytes, tokens = (_engine_alone(reason, facts, each) for each in ("weights_gib", "", "kv_cache_tokens"))
    return ArmCapacity(
        room=room.source,
        prediction=prediction,
        reason=reason,
        quantization=_named(facts, "quantization", arm, "quantization"),
        kv_cache_dtype=_named(facts, "kv_cache_dtype", arm, "kv-cache-dtype"),
        weights_gib=weights,
        token_bytes=token_bytes,
        tokens=tokens,
    )


def room_of(arm: Arm, facts: EngineFacts | None, manifest: Manifest | None) -> Room:
    """Return where an arm was served, as its engine and its manifest say."""
    if facts is not None and facts.device == "cpu":
        return Room(cpu=True, source="the CPU")
    if manifest is None or not manifest.gpus:
        reason = manifest.gpus_reason if manifest is not None else "the arm has no manifest"
        return Room(source=f"no card is known: {reason}")
    names = {gpu.name for gpu in manifest.gpus}
    if len(names) > 1:
        return Room(source=f"the cards differ, and which of them served {arm.name} is not recorded: {', '.join(sorted(names))}")
    gpu = manifest.gpus[0]
    if gpu.mig:
        return Room(source=f"{gpu.name} is divided (MIG), and the size of the part is not recorded")
    card = find_card(gpu.name)
    visible = card.visible_gib if card is not None else None
    memory = gpu.memory_gib if visible is None else min(visible, gpu.memory_gib)
    return Room(memory, card, source=f"{gpu.name}, {memory:g} GiB")


def _engine_alone(reason: str | None, facts: EngineFacts | None, name: str) -> Reading:
    value = getattr(facts, name) if facts is not None and name else None
    why = None if value is not None else "the engine was not started" if facts is None else "nothing to compare with"
    return Reading(predicted=None, predicted_reason=reason, engine=None if value is None else float(value), engine_reason=why)


def _named(facts: EngineFacts | None, fact: str, arm: Arm, option: str) -> str:
    """Return what the log shows, else what was asked for."""
    resolved = getattr(facts, fact).resolved if facts is not None else None
    return str(resolved or arm.config.options.get(option) or "auto")[:60]
