"""What a gate config may say about what must have been served."""

from __future__ import annotations

from pydantic import Field

from servegate.checks.laxness import MORE
from servegate.domain.records import Settings


class Expect(Settings):
    """What the candidate's log must show, in the engine's own words; null expects nothing in particular."""

    quantization: str | None = Field(default=None, min_length=1)
    """The quantization that the engine resolved, such as `fp8_per_channel`; `none` for an arm in 16 bits."""
    kv_cache_dtype: str | None = Field(default=None, min_length=1)
    """The type of the KV cache that the engine resolved: `auto`, `fp8`, `fp8_e4m3` ..."""


class Limits(Settings):
    """What may differ between the arms."""

    may_differ: tuple[str, ...] = ()
    """Knobs under test, as `servegate plan` names them. Empty: any single knob. A knob beyond the list makes the arms not
    comparable; several knobs that are not listed are a REVIEW."""
    kv_cache_tokens_share: float = Field(default=0.05, ge=0, le=1)
    """KV caches of equal type and weights that differ by more of their tokens batch differently."""
    weights_share: float = Field(default=0.95, gt=0, le=1)
    """Quantized weights that take more than this share of the 16-bit baseline's memory were perhaps not quantized."""


LAXER = {"limits.kv_cache_tokens_share": MORE, "limits.weights_share": MORE}
"""Limits that tolerate more when they are larger (`MORE`) or smaller (`LESS`); see `checks.laxness`."""


class EngagementSettings(Settings):
    """Reads the plan and both engines' logs; costs nothing."""

    expect: Expect = Expect()
    """What the candidate's log must show; a log that shows something else makes the arms not comparable."""
    limits: Limits = Limits()
