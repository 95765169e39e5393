"""The one table of what a person has to decide on: a closed list of quantities, and a value or a reason for each arm.

A row is never left out and never guessed. A check hands over what it measured (`Check.figures`); the rows that no check gave
say why. What is expected, or is the most that a card can do, stands beside a measurement (`bound`) and never in its place.
"""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from servegate.domain.records import Record


class Quantity(Record):
    """A row: its key, title, unit, the digits of a printed value, and the check that measures it."""

    key: str
    title: str
    unit: str
    digits: int
    check: str
    points: bool = False
    """Differences are in the unit's points (79.1 % -> 78.6 %: -0.5), not relative."""


QUANTITIES = (
    Quantity(key="weights", title="Weights, on one card", unit="GiB", digits=2, check="capacity"),
    Quantity(key="kv_bytes", title="KV cache of a token, on one card", unit="bytes", digits=0, check="capacity"),
    Quantity(key="kv_tokens", title="KV cache, whole", unit="tokens", digits=0, check="capacity"),
    Quantity(key="requests", title="Requests that fit at once", unit="requests", digits=1, check="capacity"),
    Quantity(key="throughput", title="Throughput", unit="output tok/s", digits=1, check="throughput"),
    Quantity(key="ttft", title="Time to the first token, p50", unit="ms", digits=1, check="throughput"),
    Quantity(key="tpot", title="Time of a further token, p50", unit="ms", digits=2, check="throughput"),
    Quantity(key="throughput_one", title="Throughput, batch 1", unit="output tok/s", digits=1, check="throughput"),
    Quantity(key="ttft_one", title="Time to the first token, p50, batch 1", unit="ms", digits=1, check="throughput"),
    Quantity(key="tpot_one", title="Time of a further token, p50, batch 1", unit="ms", digits=2, check="throughput"),
    Quantity(key="energy", title="Energy for 1,000 output tokens", unit="J", digits=1, check="throughput"),
    Quantity(key="cost", title="Cost of a million output tokens", unit="USD", digits=4, check="throughput"),
    Quantity(key="accuracy", title="Accuracy", unit="%", digits=2, check="accuracy", points=True),
    Quantity(key="changed", title="Answers that changed", unit="%", digits=1, check="prompts", points=True),
)
"""Every row, in the order in which they are shown: what it holds, how fast, for how much, how right."""


class ArmValue(Record):
    """One arm's value with its noise, or why there is none. `said`: how to print it where the number says too little."""

    value: float | None
    reason: str | None = None
    noise: str = ""
    said: str = ""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.value is None) == (not self.reason):
            raise ValueError("a value has no reason, and no value needs one")
        if self.value is not None and not self.noise:
            raise ValueError("a measured value says its noise, or why there is none")
        return self


class Figures(Record):
    """One row. `about`: under which load or length; `difference`: with its interval, where the check has one."""

    key: str
    about: str = ""
    baseline: ArmValue
    candidate: ArmValue
    difference: str = ""
    bound: str = ""
    """What was predicted, or the ceiling; or why neither is known."""


def measured_or(value: float | None, reason: str | None, noise: str, said: str = "") -> ArmValue:
    """Return the value with its noise; without a value its reason."""
    if value is None:
        return ArmValue(value=None, reason=reason or "the record does not say why")
    return ArmValue(value=value, noise=noise, said=said)
