"""The `standard` policy for engagement: PASS needs arms that are comparable and engaged.

What was *not* asked of the arms makes them not comparable: a knob beyond `may_differ`, an expectation that the log
contradicts, one word that two engine versions read differently. What was asked and not done is a REVIEW: the numbers
are true for the config as it is deployed, but they are not about the change that its author had in mind. Whatever the
log does not say is a REVIEW too when it decides what was compared. What both arms share is only told.

`asked` holds one arm against its own log; here the arms are held against each other.
"""

from __future__ import annotations

from collections.abc import Iterator

from servegate.checks.engagement.asked import engaged, expected, told
from servegate.checks.engagement.reading import Reading
from servegate.checks.engagement.settings import EngagementSettings, Limits
from servegate.domain.arms import EXECUTABLE_KNOB, IMAGE_KNOB
from servegate.domain.judgement import Comparison, Finding, Severity

KV_KNOB, WEIGHTS_KNOB = "kv-cache-dtype", "quantization"
_ROOM_KNOBS = {
    "gpu-memory-utilization", "kv-cache-memory-bytes", "max-model-len", "max-num-seqs", "max-num-batched-tokens",
    "num-gpu-blocks-override", "block-size", "tensor-parallel-size", "pipeline-parallel-size", "cpu-offload-gb",
    "enforce-eager", "compilation-config", "speculative-config", "enable-lora", "model", EXECUTABLE_KNOB, IMAGE_KNOB,
    "environment.VLLM_CPU_KVCACHE_SPACE",
}  # fmt: skip
"""Knobs that change how much room is left for the KV cache; a difference beside them is no surprise."""


def judge(comparison: Comparison, settings: EngagementSettings) -> tuple[Finding, ...]:
    """Return what was not served as asked, what changed along, and what nobody can know."""
    reading = Reading.model_validate(comparison.candidate)
    found = [*_knobs(reading, settings.limits), *_variables(reading)]
    unserved = [side.arm for side in (reading.baseline, reading.candidate) if not side.served]
    if unserved:
        message = f"what the {' and the '.join(unserved)} would have engaged is not known: it was not served"
        return (*found, told("not-served", Severity.REVIEW, message))
    for side, other in ((reading.baseline, reading.candidate), (reading.candidate, reading.baseline)):
        found += engaged(side, other)
    found += [*expected(reading.candidate, settings), *_axes(reading, settings.limits), *_versions(reading)]
    found += [*_loading(reading), *_sizes(reading, settings.limits), *_shape(reading)]
    return tuple(found)


def _knobs(reading: Reading, limits: Limits) -> Iterator[Finding]:
    names = [knob.name for knob in reading.knobs]
    allowed = {_name(each) for each in limits.may_differ}
    beyond = [name for name in names if _name(name) not in allowed]
    if allowed and beyond:
        message = f"the arms also differ in {', '.join(beyond)}, and only {', '.join(limits.may_differ)} may"
        yield told(
            "beyond-may-differ", Severity.NOT_COMPARABLE, message,
            rule="knobs beyond may_differ", value=float(len(beyond)), operator=">", limit=0.0,
        )  # fmt: skip
    elif not allowed and len(names) > 1:
        message = (
            f"{len(names)} differences between the arms: {', '.join(names)}; an effect can not be attributed to one of them. "
            "Where they belong together, name them in checks.engagement.limits.may_differ"
        )
        yield told(
            "several-knobs", Severity.REVIEW, message,
            rule="knobs that differ", value=float(len(names)), operator=">", limit=1.0,
        )  # fmt: skip


def _variables(reading: Reading) -> Iterator[Finding]:
    for side in (reading.baseline, reading.candidate):
        for name, better in side.dead_variables.items():
            hint = f", did you mean {better}?" if better else ""
            message = f"the {side.arm} sets the environment variable {name}, which vLLM does not know{hint}"
            yield told("unknown-variable", Severity.REVIEW, message)


def _axes(reading: Reading, limits: Limits) -> Iterator[Finding]:
    """Weights and KV cache are two changes with two effects, whether or not anybody asked for both."""
    before, after = reading.baseline, reading.candidate
    knobs = {_name(knob.name) for knob in reading.knobs}
    weights = _differ(before.quantization_resolved, after.quantization_resolved) or WEIGHTS_KNOB in knobs
    kv = _differ(before.kv_resolved, after.kv_resolved)
    if weights and (kv or KV_KNOB in knobs):
        meant = {WEIGHTS_KNOB, KV_KNOB} <= {_name(each) for each in limits.may_differ}
        message = (
            f"2 changed axes: weights {_word(before.quantization_resolved)} -> {_word(after.quantization_resolved)} and KV "
            f"cache {_word(before.kv_resolved)} -> {_word(after.kv_resolved)}; a difference cannot be attributed to either"
        )
        yield told("cannot-attribute", Severity.INFO if meant else Severity.REVIEW, message)
    elif kv and KV_KNOB not in knobs:
        message = f"the KV cache changed along, without being asked to: {before.kv_resolved} -> {after.kv_resolved}"
        yield told("kv-cache-changed-along", Severity.REVIEW, message)


def _versions(reading: Reading) -> Iterator[Finding]:
    before, after = reading.baseline, reading.candidate
    if not _differ(before.version, after.version):
        return
    versions = f"{before.version} and {after.version}"
    if before.quantization_asked == after.quantization_asked == "fp8":
        methods = [sorted({kernel.layers for kernel in side.kernels}) for side in (before, after)]
        if methods[0] and methods[0] == methods[1]:
            message = f"both arms ask for 'fp8' of two engine versions, {versions}; both logs name {', '.join(methods[0])}"
            yield told("fp8-across-versions", Severity.INFO, message)
        else:
            message = (
                f"both arms ask for 'fp8', which engine versions {versions} may read differently, and their logs do not show "
                "the same method"
            )
            yield told("fp8-across-versions", Severity.NOT_COMPARABLE, message)
    if not {EXECUTABLE_KNOB, IMAGE_KNOB} & {knob.name for knob in reading.knobs}:
        message = f"one executable served two engine versions, {versions}: it was exchanged between the arms"
        yield told("engine-exchanged", Severity.NOT_COMPARABLE, message)


_LOADING = {
    "scales_skipped": ("scales-skipped", "parameters of the checkpoint were skipped while loading"),
    "weights_not_initialized": ("weights-not-initialized", "weights were not in the checkpoint"),
}
_TOLD = {
    "kv_scale_one": ("kv-scale-one", "the KV cache is scaled by 1.0, since the checkpoint brings no scale"),
    "attention_scales_missing": ("attention-scales-missing", "FP8 attention runs with uncalibrated scales"),
}


def _loading(reading: Reading) -> Iterator[Finding]:
    before, after = reading.baseline, reading.candidate
    for warning, (code, what) in {**_LOADING, **_TOLD}.items():
        counts = before.count(warning), after.count(warning)
        if counts == (0, 0):
            continue
        blocking = warning in _LOADING and counts[0] != counts[1]
        message = f"{what}: {counts[0]} log lines in the baseline, {counts[1]} in the candidate"
        yield told(code, Severity.REVIEW if blocking else Severity.INFO, message)
    for side in (before, after):
        if side.activation_scales == "static":
            known = f"its recipe.yaml: {side.recipe}" if side.recipe else "on which data is unknown: it holds no recipe"
            message = f"the {side.arm}'s checkpoint scales activations by constants of a calibration; {known}"
            yield told("static-activation-scales", Severity.INFO, message)


def _sizes(reading: Reading, limits: Limits) -> Iterator[Finding]:
    before, after = reading.baseline, reading.candidate
    if after.quantized and before.quantized is False and before.weights_gib and after.weights_gib:
        share = after.weights_gib / before.weights_gib
        if share > limits.weights_share:
            message = (
                f"the candidate's weights take {after.weights_gib:g} GiB and the baseline's {before.weights_gib:g} GiB: "
                "were they quantized?"
            )
            yield told(
                "weights-not-smaller", Severity.REVIEW, message, rule="candidate's weights over the 16-bit baseline's",
                value=share, operator=">", limit=limits.weights_share,
            )  # fmt: skip
    same = (before.quantization_resolved, before.kv_resolved) == (after.quantization_resolved, after.kv_resolved)
    expected = _ROOM_KNOBS & {knob.name for knob in reading.knobs}
    if same and not expected and before.kv_cache_tokens and after.kv_cache_tokens:
        gap = abs(after.kv_cache_tokens - before.kv_cache_tokens) / max(after.kv_cache_tokens, before.kv_cache_tokens)
        if gap > limits.kv_cache_tokens_share:
            message = (
                f"the KV caches hold {before.kv_cache_tokens:,} and {after.kv_cache_tokens:,} tokens although weights and KV "
                "cache are of the same types: the arms batch differently, which no knob explains"
            )
            yield told(
                "kv-cache-size-differs", Severity.REVIEW, message, rule="share of KV-cache tokens that one arm lacks",
                value=gap, operator=">", limit=limits.kv_cache_tokens_share,
            )  # fmt: skip


def _shape(reading: Reading) -> Iterator[Finding]:
    """What else must be equal, unless it is the knob under test."""
    before, after = reading.baseline, reading.candidate
    knobs = {_name(knob.name) for knob in reading.knobs}
    if _differ(before.max_model_len, after.max_model_len) and "max-model-len" not in knobs:
        message = f"the longest contexts differ, and no knob says so: {before.max_model_len} and {after.max_model_len} tokens"
        yield told("max-model-len-differs", Severity.REVIEW, message)
    if _differ(before.attention_backend, after.attention_backend) and "attention-backend" not in knobs:
        # Another type of KV cache may need another backend: then it is a part of what was changed.
        severity = Severity.INFO if _differ(before.kv_resolved, after.kv_resolved) else Severity.REVIEW
        message = f"the attention backends differ: {before.attention_backend} and {after.attention_backend}"
        yield told("attention-backend-differs", severity, message)
    if before.logprobs_mode != after.logprobs_mode:
        message = f"log-probabilities are of two kinds: {_default(before.logprobs_mode)} and {_default(after.logprobs_mode)}"
        yield told("logprobs-mode-differs", Severity.REVIEW, message)


def _differ(before: object, after: object) -> bool:
    """Whether two facts are both known and unequal."""
    return before is not None and after is not None and before != after


def _word(value: str | None) -> str:
    return "unknown" if value is None else value


def _default(value: str | None) -> str:
    return "the engine's default" if value is None else value


def _name(knob: str) -> str:
    """Knobs are options: `kv_cache_dtype` is `kv-cache-dtype`; variables and `engine.executable` keep their names."""
    return knob if knob.startswith(("environment.", "engine.")) else knob.replace("_", "-")
