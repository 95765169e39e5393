"""Does what the engine logged agree with the prediction, and if not, which reservation explains the rest?

An explanation is a quantity that is known to be kept back and is large enough; nothing is explained by assuming that
the engine is right. What is left is "unexplained", and where the ratio gives away a likely cause, it is named as such.
"""

from __future__ import annotations

from servegate.checks.capacity.record import Reading
from servegate.domain.evidence import EngineFacts
from servegate.sizing import Prediction
from servegate.sizing.kv import GIB

TOLERANCE = 0.05
"""Largest relative gap that counts as agreement."""
LOG_STEP_GIB = 0.005
"""The log rounds weights to a hundredth of a GiB."""
CONTEXT_GIB = 1.2
"""CUDA context, libraries and graphs: what vLLM 0.25.1 reported as still in use on an H200 with everything else freed."""
_NOT_COUNTED = ("not counted",)


def weights(prediction: Prediction, facts: EngineFacts | None) -> Reading:
    """Return the reading of the weights of one card."""
    reading = _reading(prediction.weights_gib, None, facts, "weights_gib")
    if reading.engine is None or reading.gap is None:
        return reading
    more = reading.engine - prediction.weights_gib
    if abs(reading.gap) <= TOLERANCE or abs(more) <= LOG_STEP_GIB:
        return _state(reading, "agrees")
    if prediction.weights_gib < prediction.plain_gib and abs(reading.engine / prediction.plain_gib - 1) <= TOLERANCE:
        return _state(
            reading, "unexplained", f"the weights are as large as without quantization ({prediction.plain_gib:.2f} GiB)"
        )
    left_out = [note for note in prediction.notes if any(text in note for text in _NOT_COUNTED)]
    if more > 0 and left_out:
        return _state(reading, "explained", "; ".join(left_out))
    return _state(
        reading, "unexplained", f"{abs(more):.2f} GiB {'more' if more > 0 else 'less'} than the model's matrices take"
    )


def token_bytes(prediction: Prediction, facts: EngineFacts | None) -> Reading:
    """Return the reading of the cache's bytes for a token: what the engine's GiB and tokens imply."""
    if len(prediction.layers) > 1 or any(name not in ("full", "latent") for name in prediction.layers):
        reason = "layers keep different amounts, so the engine's line implies no number for a token"
        return Reading(predicted=prediction.token_bytes, engine=None, engine_reason=reason)
    if facts is None or facts.kv_cache_gib is None or not facts.kv_cache_tokens:
        reason = _why(facts, "kv_cache_gib") if facts is None or facts.kv_cache_gib is None else _why(facts, "kv_cache_tokens")
        return Reading(predicted=prediction.token_bytes, engine=None, engine_reason=reason)
    reading = _with_gap(
        Reading(predicted=prediction.token_bytes, engine=facts.kv_cache_gib * GIB / facts.kv_cache_tokens / 1.0)
    )
    if reading.gap is not None and abs(reading.gap) <= TOLERANCE:
        return _state(reading, "agrees")
    return _state(reading, "unexplained", _ratio_hint(reading))


def tokens(prediction: Prediction, facts: EngineFacts | None, weights_read: Reading) -> Reading:
    """Return the reading of the tokens that fit."""
    predicted = None if prediction.kv_tokens is None else float(prediction.kv_tokens)
    reading = _reading(predicted, prediction.kv_tokens_reason, facts, "kv_cache_tokens")
    if reading.engine is None or reading.gap is None or prediction.kv_gib is None:
        return reading
    if abs(reading.gap) <= TOLERANCE:
        return _state(reading, "agrees")
    # In GiB, since reservations are: what the engine kept back of the budget that was predicted.
    missing = -reading.gap * prediction.kv_gib
    heavier = 0.0 if weights_read.engine is None else weights_read.engine - prediction.weights_gib
    if abs(missing - heavier) <= TOLERANCE * prediction.kv_gib:
        return _state(reading, "explained", f"the weights take {heavier:+.2f} GiB against the prediction")
    reserve = prediction.reserve_gib
    slack = TOLERANCE * prediction.kv_gib
    if reserve is not None and 0 < missing - heavier <= reserve + CONTEXT_GIB + slack:
        return _state(
            reading,
            "explained",
            f"{missing - heavier:.2f} GiB are kept back; about {reserve:.2f} GiB of activations in the engine's profiling run "
            f"and up to {CONTEXT_GIB:.1f} GiB of CUDA context and graphs are to be expected",
        )
    return _state(reading, "unexplained", _ratio_hint(reading, inverse=True) or _left(missing))


def _left(missing: float) -> str:
    if missing < 0:
        return f"{-missing:.2f} GiB more than the weights leave of the memory that may be used"
    return f"{missing:.2f} GiB are kept back"


def _ratio_hint(reading: Reading, *, inverse: bool = False) -> str:
    ratio = (reading.gap or 0.0) + 1
    cost = 1 / ratio if inverse and ratio > 0 else ratio
    for factor, words in ((2.0, "twice the bytes"), (0.5, "half the bytes")):
        if abs(cost / factor - 1) <= TOLERANCE:
            return f"as if the cache kept {words} for a token: another kv-cache-dtype than was asked for?"
    return ""


def _reading(predicted: float | None, reason: str | None, facts: EngineFacts | None, name: str) -> Reading:
    value = None if facts is None else getattr(facts, name)
    return _with_gap(
        Reading(
            predicted=predicted,
            predicted_reason=reason,
            engine=None if value is None else float(value),
            engine_reason=_why(facts, name) if value is None else None,
        )
    )


def _why(facts: EngineFacts | None, name: str) -> str:
    if facts is None:
        return "the engine was not started"
    if facts.diagnosis is not None:
        return "the engine did not start"
    return getattr(facts, f"{name}_reason") or "the engine's log does not say"


def _with_gap(reading: Reading) -> Reading:
    if reading.predicted is None or reading.engine is None or reading.predicted <= 0:
        return reading
    return reading.model_copy(update={"gap": reading.engine / reading.predicted - 1})


def _state(reading: Reading, state: str, explanation: str = "") -> Reading:
    return reading.model_copy(update={"state": state, "explanation": explanation})
