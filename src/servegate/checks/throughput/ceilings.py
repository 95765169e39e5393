"""The roofline beside what was measured: what the card's bandwidth and arithmetic allow at most."""

from __future__ import annotations

from dataclasses import dataclass

from servegate.checks.capacity.comparing import room_of
from servegate.checks.contract import ArmEvidence, Evidence
from servegate.checks.throughput.record import ThroughputMeasurement
from servegate.checks.throughput.settings import SINGLE, ThroughputSettings
from servegate.domain.plan import Plan
from servegate.sizing import Prediction, predicted

SPECULATIVE = ("speculative-config", "spec-model")


@dataclass(frozen=True)
class Ceiling:
    """What an arm's card allows at most under a load, each a number or why it is not known."""

    decode: float | str
    """Output tokens per second of all requests in flight."""
    token_ms: float | str
    """Least milliseconds of a further token."""
    first_token_ms: float | str
    """Least milliseconds of a prompt's arithmetic, alone on the card and nothing of it cached."""


def ceilings(
    evidence: Evidence[ThroughputMeasurement], settings: ThroughputSettings, load: tuple[str, int]
) -> tuple[Ceiling, Ceiling]:
    """Return both arms' ceilings of a load, (kind, requests in flight)."""
    one = settings.single if load[0] == SINGLE and settings.single is not None else settings
    return (
        _of(evidence.plan, "baseline", evidence.baseline, one.input_tokens, one.output_tokens, load[1]),
        _of(evidence.plan, "candidate", evidence.candidate, one.input_tokens, one.output_tokens, load[1]),
    )


@dataclass(frozen=True)
class Allowance:
    """Output tokens per second that both arms' cards allow (baseline, candidate), and why one is not known."""

    arms: tuple[float | None, float | None]
    reason: str | None


def allowance(evidence: Evidence[ThroughputMeasurement], settings: ThroughputSettings, load: tuple[str, int]) -> Allowance:
    """Return what both arms' cards allow under a load, (kind, requests in flight); or why that is not known."""
    found = [each.decode for each in ceilings(evidence, settings, load)]
    baseline, candidate = (each if isinstance(each, float) else None for each in found)
    return Allowance((baseline, candidate), next((each for each in found if isinstance(each, str)), None))


def _of(
    plan: Plan | None, name: str, side: ArmEvidence[ThroughputMeasurement], prompt: int, answer: int, in_flight: int
) -> Ceiling:
    if plan is None:
        return Ceiling(*["the plan is not known"] * 3)
    found = _predicted(plan, name, side, prompt + answer // 2, in_flight)
    if isinstance(found, str):
        return Ceiling(found, found, found)
    decode: float | str | None = found.decode_one if in_flight == 1 else found.decode_full
    decode = decode or found.decode_reason or "not predicted"
    # A step serves every request that is in flight, so a request's token takes the time in which all get one.
    requests = 1 if in_flight == 1 else found.requests_in_flight or in_flight
    prefill = found.prefill or found.prefill_reason or "not predicted"
    return Ceiling(
        decode=decode,
        token_ms=decode if isinstance(decode, str) else 1000 * requests / decode,
        first_token_ms=prefill if isinstance(prefill, str) else 1000 * prompt / prefill,
    )


def _predicted(
    plan: Plan, name: str, side: ArmEvidence[ThroughputMeasurement], context: int, in_flight: int
) -> Prediction | str:
    """Return the prediction for so many requests of a length in flight: more than the load sends never are."""
    arm = plan.arms[name]
    options = arm.config.options
    if any(options.get(option) for option in SPECULATIVE):
        return "a speculative step brings several tokens, which is not modelled"
    declared = options.get("max-num-seqs")
    most = min(declared, in_flight) if isinstance(declared, int) and declared > 0 else in_flight
    room = room_of(arm, side.engine, side.manifest)
    environment = {**arm.environment, **(side.manifest.environment if side.manifest else {})}
    return predicted(plan.model_of(name).config, {**options, "max-num-seqs": most}, environment, room, context)
