"""What an arm ran on and from: machine, cards, driver, packages, and the model's files beside its weights.

Answers and speed belong to all of it. A verdict is scoped to it, and two arms that differ in it are not compared.
"""

from __future__ import annotations

from servegate.domain.records import Amount, Count, Json, Record


class Gpu(Record):
    """One accelerator as NVML names it."""

    name: str
    uuid: str
    compute_capability: str
    memory_gib: Amount
    mig: bool


class ServedFiles(Record):
    """What one arm serves beside its weights, each part reduced to what it means; `reasons` says why one is missing."""

    source: str
    commit: str | None = None
    """The hub's commit, resolved once the engine was ready; None for a directory, or when it is not known."""
    weights_sha256: str | None = None
    """Of the names and sizes of the weight files."""
    vocabulary_sha256: str | None = None
    """Of what every token id means."""
    tokenizer_sha256: str | None = None
    """Of how text becomes token ids: added tokens, normalizer, processors."""
    chat_template_sha256: str | None = None
    sampling_defaults: dict[str, Json] = {}
    """Sampling parameters that a request gets when it states none, values without effect left out."""
    stop_ids: tuple[int, ...] = ()
    """Token ids that end every answer."""
    reasons: dict[str, str] = {}


class Manifest(Record):
    """The environment of one arm. `environment` holds allow-listed variables only, never secrets."""

    host: str
    os: str
    cpu: str
    cpu_count: Count
    memory_gib: Amount
    gpus: tuple[Gpu, ...]
    gpus_reason: str | None = None
    driver: str | None
    driver_reason: str | None = None
    cuda: str | None
    cuda_reason: str | None = None
    packages: dict[str, str]
    servegate: str
    lm_eval: str | None
    lm_eval_reason: str | None = None
    engine: dict[str, Json]
    environment: dict[str, str]
    model: ServedFiles | None = None
    """None in records that were written before it was collected."""
    card_guard: str | None = None
    """Which cards were locked and watched for this arm, and what they held before the first start."""
    card_guard_reason: str | None = None
