"""Both arms as the plan asks for them and as their logs show them.

`asked` comes from the serving config, else from the engine's echo of its arguments; `resolved` only from the log. A log
that lacks a line gives None, which is "unknown" and never "as asked".
"""

from __future__ import annotations

from typing import Any

from servegate.checks.contract import ArmEvidence, Evidence
from servegate.checks.engagement.settings import EngagementSettings
from servegate.checks.engagement.variables import meant
from servegate.domain.arms import Arm, Role
from servegate.domain.evidence import EngineFacts, EngineStatus, Kernel, LogWarning
from servegate.domain.judgement import Comparison
from servegate.domain.plan import Knob
from servegate.domain.records import Json, Record

MAX_RECIPE = 600
NOT_QUANTIZED = "none"
"""What the log's `quantization=None` is read as: known to be off, unlike None here, which is unknown."""


class ArmReading(Record):
    """One arm: what was asked for, and what its log shows."""

    arm: str
    served: bool
    version: str | None = None
    device: str | None = None
    quantization_asked: str | None = None
    quantization_option: str | None = None
    """As the serving config itself asks; what a checkpoint brings may go by another name in the log."""
    quantization_resolved: str | None = None
    effective_precision: str | None = None
    kv_asked: str | None = None
    kv_resolved: str | None = None
    kernels: tuple[Kernel, ...] = ()
    quantized_layers: int | None = None
    attention_backend: str | None = None
    max_model_len: int | None = None
    logprobs_mode: str | None = None
    """As the serving config asks; the engine does not log it."""
    weights_gib: float | None = None
    kv_cache_tokens: int | None = None
    warnings: dict[str, LogWarning] = {}
    dead_variables: dict[str, str | None] = {}
    """Environment variables that steer nothing -> the name that was perhaps meant."""
    activation_scales: str | None = None
    """`static` or `dynamic`, where the checkpoint says."""
    scale_strategy: str | None = None
    """`tensor`, `channel`, `block`, `group` or `token`: what one scale of the weights covers, where log or checkpoint say."""
    recipe: str | None = None
    """The checkpoint's calibration recipe, shortened to a line."""

    @property
    def quantized(self) -> bool | None:
        """Whether the log shows that weights were quantized; None is unknown."""
        return None if self.quantization_resolved is None else self.quantization_resolved != NOT_QUANTIZED

    def count(self, warning: str) -> int:
        """Return how often the engine gave a warning."""
        return self.warnings[warning].count if warning in self.warnings else 0


class Reading(Record):
    """Both arms, and the knobs in which the plan lets them differ."""

    baseline: ArmReading
    candidate: ArmReading
    knobs: tuple[Knob, ...] = ()


def compare(evidence: Evidence[Any], _settings: EngagementSettings) -> Comparison:
    """Return what was asked and what was served, also for an engine that never started; n counts facts known of both."""
    arms = evidence.plan.arms if evidence.plan is not None else {}
    reading = Reading(
        baseline=_read(evidence.baseline, arms.get(Role.BASELINE), Role.BASELINE),
        candidate=_read(evidence.candidate, arms.get(Role.CANDIDATE), Role.CANDIDATE),
        knobs=evidence.plan.knobs if evidence.plan is not None else (),
    )
    return Comparison(
        candidate=reading.to_json(),
        noise=None,
        noise_reason="what an engine says of itself has no spread; unequal starts of one arm would show as unequal rounds",
        n=_known(reading),
    )


_FACTS = (
    "version", "quantization_resolved", "effective_precision", "kv_resolved", "kernels", "attention_backend",
    "max_model_len", "weights_gib", "kv_cache_tokens", "quantized_layers",
)  # fmt: skip


def _known(reading: Reading) -> int:
    """Count the facts that both logs give."""
    return sum(all(getattr(side, name) not in (None, ()) for side in (reading.baseline, reading.candidate)) for name in _FACTS)


def _read(side: ArmEvidence[Any], arm: Arm | None, role: Role) -> ArmReading:
    facts = side.engine
    options = arm.config.options if arm is not None else {}
    variables = arm.environment if arm is not None else {}
    dead: dict[str, str | None] = {name: better for name in variables if (better := meant(name)) is not None}
    asked = {
        "quantization_asked": _text(options.get("quantization")),
        "quantization_option": _text(options.get("quantization")),
        "kv_asked": _text(options.get("kv-cache-dtype")),
        "logprobs_mode": _text(options.get("logprobs-mode")),
    }
    if facts is None:
        return ArmReading(arm=role.value, served=False, dead_variables=dead, **asked)
    # What the arm itself sets and the engine does not know; what the host sets reaches both arms alike.
    dead.update({name: dead.get(name) for name in facts.unknown_variables if name in variables})
    asked["quantization_asked"] = asked["quantization_asked"] or facts.quantization.requested or _method(facts)
    asked["kv_asked"] = asked["kv_asked"] or facts.kv_cache_dtype.requested
    scales = scale_strategies(facts)
    return ArmReading(
        arm=role.value,
        served=facts.status is not EngineStatus.FAILED,
        version=facts.version,
        device=facts.device,
        quantization_resolved=facts.quantization.resolved,
        effective_precision=facts.quantization.effective_precision,
        kv_resolved=facts.kv_cache_dtype.resolved,
        kernels=facts.kernels,
        quantized_layers=facts.quantized_layers,
        attention_backend=facts.attention_backend,
        max_model_len=facts.max_model_len,
        weights_gib=facts.weights_gib,
        kv_cache_tokens=facts.kv_cache_tokens,
        warnings={warning.code: warning for warning in facts.warnings},
        dead_variables=dead,
        activation_scales=_activation_scales(facts.checkpoint_quantization),
        scale_strategy=next(iter(scales)) if len(scales) == 1 else None,
        recipe=None if facts.checkpoint_recipe is None else " ".join(facts.checkpoint_recipe.split())[:MAX_RECIPE],
        **asked,
    )


def _text(value: Json) -> str | None:
    return None if value is None else str(value)


def _method(facts: EngineFacts) -> str | None:
    """A checkpoint that brings its own quantization asks for it without any option."""
    own = facts.checkpoint_quantization
    return _text(own.get("quant_method")) if isinstance(own, dict) else None


def scale_strategies(facts: EngineFacts) -> frozenset[str]:
    """Return what one scale of the weights covers: from the method's name in the log, else from the checkpoint's groups."""
    resolved = facts.quantization.resolved or ""
    for word in ("tensor", "channel", "block"):
        if f"per_{word}" in resolved:
            return frozenset({word})
    own = facts.checkpoint_quantization
    groups = own.get("config_groups") if isinstance(own, dict) else None
    found = set()
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        if isinstance(weights, dict) and isinstance(weights.get("strategy"), str):
            found.add(weights["strategy"][:20])
    return frozenset(found)


def _activation_scales(own: Json) -> str | None:
    """Return whether activations are scaled by constants from a calibration (`static`) or per request (`dynamic`).

    Two spellings: `activation_scheme` of the fp8 method, `input_activations.dynamic` of compressed-tensors groups.
    """
    if not isinstance(own, dict):
        return None
    if own.get("activation_scheme") in ("static", "dynamic"):
        return str(own["activation_scheme"])
    groups = own.get("config_groups")
    found = set()
    for group in groups.values() if isinstance(groups, dict) else ():
        inputs = group.get("input_activations") if isinstance(group, dict) else None
        if isinstance(inputs, dict) and isinstance(inputs.get("dynamic"), bool):
            found.add("dynamic" if inputs["dynamic"] else "static")
    return "static" if "static" in found else found.pop() if found else None
