"""What the check compares: for each arm a prediction, and beside each of three quantities what the engine said itself."""

from __future__ import annotations

from typing import Literal

from servegate.domain.records import Record
from servegate.sizing import Prediction


class Reading(Record):
    """One quantity: predicted, and as the engine logged it; `gap` is engine / predicted - 1."""

    predicted: float | None
    predicted_reason: str | None = None
    engine: float | None
    engine_reason: str | None = None
    gap: float | None = None
    state: Literal["agrees", "explained", "unexplained", "not compared"] = "not compared"
    explanation: str = ""


class ArmCapacity(Record):
    """One arm. `prediction` is None with a reason; `room` says where it was served."""

    room: str
    prediction: Prediction | None
    reason: str | None
    quantization: str
    kv_cache_dtype: str
    weights_gib: Reading
    token_bytes: Reading
    tokens: Reading

    @property
    def readings(self) -> tuple[tuple[str, Reading], ...]:
        """Return the quantities with their names."""
        return (
            ("weights (GiB)", self.weights_gib),
            ("KV cache (bytes per token)", self.token_bytes),
            ("KV cache (tokens)", self.tokens),
        )


class CapacityContrast(Record):
    """Both arms."""

    baseline: ArmCapacity
    candidate: ArmCapacity

    @property
    def arms(self) -> tuple[tuple[str, ArmCapacity], ...]:
        """Return the arms with their names."""
        return (("baseline", self.baseline), ("candidate", self.candidate))
