"""What was asked of one arm against what its own log shows: weights, KV cache, and what the gate config expects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from servegate.checks.contract import finding
from servegate.checks.engagement.reading import NOT_QUANTIZED, ArmReading
from servegate.checks.engagement.settings import EngagementSettings
from servegate.domain.judgement import Finding, Severity

CHECK_NAME = "engagement"
_SIXTEEN_BITS = {"auto", "bfloat16", "float16", "half", "float"}
_SAME_KV = {
    "fp8": {"fp8", "fp8_e4m3"}, "fp8_e4m3": {"fp8", "fp8_e4m3"},
    **dict.fromkeys(_SIXTEEN_BITS - {"auto"}, _SIXTEEN_BITS),
}  # fmt: skip
"""Type of KV cache that is asked for -> what the log may call it; of every other type, itself alone."""


def engaged(side: ArmReading, other: ArmReading) -> Iterator[Finding]:
    """What was asked of one arm's weights against what its log shows; what both arms share is only told."""
    asked, got = side.quantization_asked, side.quantization_resolved
    if asked is not None and got is None:
        message = f"the {side.arm} asks for quantization {asked!r}, but its log does not show that it was applied"
        yield told("quantization-not-seen", Severity.REVIEW, message)
    if asked is not None and got == NOT_QUANTIZED and asked.lower() != NOT_QUANTIZED:
        message = f"the {side.arm} asks for quantization {asked!r}, and its log says that nothing was quantized"
        yield told("not-engaged", Severity.REVIEW, message)
    elif side.quantization_option is not None and got is not None and _words(side.quantization_option).isdisjoint(_words(got)):
        message = f"the {side.arm} asks for quantization {side.quantization_option!r}, and its log names another one: {got!r}"
        yield told("other-quantization", Severity.REVIEW, message)
    yield from _kv_engaged(side)
    shared = Severity.INFO if side.effective_precision == other.effective_precision else Severity.REVIEW
    precision = side.effective_precision
    if side.quantized and precision is None:
        message = f"the {side.arm} is quantized ({got}), but its log names no kernel that tells in which precision it computes"
        yield told("precision-unknown", Severity.INFO if other.quantization_resolved == got else Severity.REVIEW, message)
    elif precision is not None and "A16 (" in precision and _is_8_bit(precision):
        message = (
            f"the {side.arm} was served as {precision}: 8-bit weights multiplied in 16 bits. Neither its speed nor its answers "
            "carry over to a card with native 8-bit arithmetic"
        )
        yield told("weights-only", shared, message)
    elif precision is not None and "torch fallback" in precision:
        message = (
            f"the {side.arm} was served as {precision}: its answers are those of 8-bit arithmetic, its speed is not that of "
            "an 8-bit kernel"
        )
        yield told("torch-fallback", Severity.INFO if side.device == "cpu" else shared, message)


def _kv_engaged(side: ArmReading) -> Iterator[Finding]:
    """The KV cache by the same rule as the weights: as asked, or said. `auto` asks for nothing."""
    asked, got = (side.kv_asked or "auto").lower(), side.kv_resolved
    if asked == "auto":
        return
    if got is None:
        message = f"the {side.arm} asks for a KV cache of {asked!r}, but its log does not show of which type it is"
        yield told("kv-cache-not-seen", Severity.REVIEW, message)
    elif got.lower() not in _SAME_KV.get(asked, {asked}):
        message = f"the {side.arm} asks for a KV cache of {asked!r}, and its log says {got!r}"
        yield told("kv-cache-not-engaged", Severity.REVIEW, message)


def _words(method: str) -> frozenset[str]:
    """`awq` and `awq_marlin` are one method on two kernels, `fp8` and `fp8_per_tensor` one family."""
    return frozenset(re.split(r"[_\-]", method.lower()))


def _is_8_bit(precision: str) -> bool:
    """4-bit formats are meant to be multiplied in 16 bits; 8-bit ones are not."""
    return precision.startswith("W8")


def expected(side: ArmReading, settings: EngagementSettings) -> Iterator[Finding]:
    """What the gate config expects of an arm against what its log shows."""
    expect = settings.expect
    for what, wanted, got in (
        ("quantization", expect.quantization, side.quantization_resolved),
        ("kv_cache_dtype", expect.kv_cache_dtype, side.kv_resolved),
    ):
        if wanted is None or (got is not None and got.lower() == wanted.lower()):
            continue
        if got is None:
            message = f"{what} {wanted!r} is expected of the {side.arm}, and its log does not say what it is"
            yield told("expectation-unknown", Severity.REVIEW, message)
        else:
            message = f"{what} {wanted!r} is expected of the {side.arm}, and its log says {got!r}"
            yield told("not-as-expected", Severity.NOT_COMPARABLE, message)


def told(code: str, severity: Severity, message: str, **rule: Any) -> Finding:
    """Return a finding of this check."""
    return finding(CHECK_NAME, code, severity, message, **rule)
