"""Turns two measurements into one comparison: the perplexity ratio with its interval, and what else moved."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from servegate.checks.contract import Evidence, measured, not_measured
from servegate.checks.logprobs.contrast import Contrast, Interval, contrast, own_traffic, per_window
from servegate.checks.logprobs.model_size import parameters_of
from servegate.checks.logprobs.pairing import Paired, pair, samples_of, windows_of, with_itself
from servegate.checks.logprobs.record import LogprobsInputs, LogprobsMeasurement
from servegate.checks.logprobs.settings import LogprobsSettings
from servegate.domain.evidence import ItemStatus, NotMeasured
from servegate.domain.judgement import Comparison, Estimate, Noise
from servegate.domain.records import Json, Record

MOST_ITEMS = 1000
PER_START = ("--host", "--port", "--served-model-name")
LARGEST_WEIGHT_BYTES = 4
_Count = Callable[[LogprobsMeasurement], int]


class Arms(Record):
    """What must be known of the arms before their difference means anything."""

    modes: tuple[str, str]
    parameters: int | None
    parameters_reason: str | None = None
    parameters_at_least: int | None = None
    """From the weights that the baseline's engine loaded, four bytes each: known where no config.json is."""
    failed: tuple[int, int] = (0, 0)
    """Windows that an arm did not score, baseline and candidate, over all rounds."""
    clamped: tuple[int, int] = (0, 0)
    missing: tuple[int, int] = (0, 0)
    serving_differs: bool | None = None
    copies: int = 0
    """Windows that mostly repeat the text of earlier ones, and so are no further windows."""
    zero_share: tuple[float, float] = (0.0, 0.0)
    """Share of the compared positions whose logprob is exactly 0, which means a probability of 1."""


class Between(Contrast):
    """The contrast between the arms, with what only the pair of arms has."""

    arms: Arms


def compare(
    evidence: Evidence[LogprobsMeasurement],
    settings: LogprobsSettings,  # noqa: ARG001 - the record says how it was scored; limits belong to `judge`
) -> Comparison | NotMeasured:
    """Pair both arms window by window. A perplexity ratio above 1 is a loss; probabilities are from 0 to 1."""
    missing = not_measured(evidence)
    if missing is not None:
        return missing
    baseline, candidate = measured(evidence)
    paired = pair(windows_of(baseline), windows_of(candidate))
    between = _between(paired, baseline, candidate, evidence)
    floors = {name: _noise(arm) for name, arm in (("baseline", baseline), ("candidate", candidate))}
    reason = "each arm scored the text only once, so there is no noise to show"
    return Comparison(
        candidate=between.to_json(),
        noise=Noise(**floors, reason=None if all(floors.values()) else "an arm scored the text only once")
        if any(floors.values())
        else None,
        noise_reason=None if any(floors.values()) else reason,
        n=between.distinct_positions,
        unpaired=paired.unpaired,
        estimates=_estimates(between),
        items=_items(paired, baseline, candidate),
    )


def _between(
    paired: Paired,
    baseline: LogprobsMeasurement,
    candidate: LogprobsMeasurement,
    evidence: Evidence[LogprobsMeasurement],
) -> Between:
    shared = contrast(paired, baseline.columns, candidate.columns)
    arms = (baseline, candidate)
    parameters = parameters_of(evidence.model)
    own, own_reason = None, shared.own_reason
    if baseline.samples:
        own = own_traffic(pair(samples_of(baseline), samples_of(candidate)), baseline.columns, candidate.columns)
        own_reason = None if own else "no drawn token was scored in both arms"
    values = {name: getattr(shared, name) for name in Contrast.model_fields if name not in ("own", "own_reason")}
    return Between(
        **values,
        own=own,
        own_reason=own_reason,
        arms=Arms(
            modes=(baseline.logprobs_mode, candidate.logprobs_mode),
            parameters=parameters,
            parameters_at_least=_at_least(evidence),
            parameters_reason=None if parameters is not None else "the model's config.json is not known to the plan",
            failed=_counts(arms, lambda arm: sum(one.status is not ItemStatus.OK for one in arm.windows)),
            clamped=_counts(arms, lambda arm: sum(one.clamped for one in arm.windows)),
            missing=_counts(arms, lambda arm: sum(one.missing for one in arm.windows)),
            serving_differs=_serving_differs(evidence),
            copies=evidence.inputs.copies if isinstance(evidence.inputs, LogprobsInputs) else 0,
            zero_share=(_zeros(baseline, paired.left), _zeros(candidate, paired.right)),
        ),
    )


def _zeros(arm: LogprobsMeasurement, rows: npt.NDArray[np.int64]) -> float:
    return float((arm.columns["logprob"][rows] == 0).mean()) if len(rows) else 0.0


def _counts(arms: tuple[LogprobsMeasurement, LogprobsMeasurement], count: _Count) -> tuple[int, int]:
    return count(arms[0]), count(arms[1])


def _noise(arm: LogprobsMeasurement) -> dict[str, Json] | None:
    paired = with_itself(arm)
    if paired is None:
        return None
    own = contrast(paired, arm.columns, arm.columns)
    if arm.samples:
        again = pair(samples_of(arm, lambda n: n == 0), samples_of(arm, lambda n: n == 1, -1))
        traffic = own_traffic(again, arm.columns, arm.columns)
        own = own.model_copy(update={"own": traffic, "own_reason": None if traffic else "no sample was scored twice"})
    return own.to_json()


def _at_least(evidence: Evidence[LogprobsMeasurement]) -> int | None:
    engine = evidence.baseline.engine
    loaded = engine.weights_gib if engine is not None else None
    return None if loaded is None else int(loaded * 2**30 / LARGEST_WEIGHT_BYTES)


def _serving_differs(evidence: Evidence[LogprobsMeasurement]) -> bool | None:
    engines = (evidence.baseline.engine, evidence.candidate.engine)
    arguments = [[one for one in engine.argv if one.split("=", 1)[0] not in PER_START] for engine in engines if engine]
    return arguments[0] != arguments[1] if len(arguments) == 2 and all(arguments) else None


def _estimates(between: Between) -> dict[str, Estimate]:
    method = f"mean over positions, clustered by {between.cluster_unit} (C={between.clusters}), Student's t"
    found = {
        "ppl_ratio": (between.ppl_ratio, "ratio"),
        "same_top": (between.same_top, "share"),
        "rms_delta_p": (between.rms_delta_p, "probability"),
    }
    if between.bounds is not None:
        found["kl_at_least"] = (between.bounds.kl_at_least, "nats")
        found["total_variation_at_least"] = (between.bounds.tv_at_least, "probability")
        found["total_variation_at_most"] = (between.bounds.tv_at_most, "probability")
    estimates = {
        name: _estimate(interval, unit, between.positions, method) for name, (interval, unit) in found.items() if interval
    }
    if between.own is not None:
        method = f"k3 on {between.own.samples} baseline samples, clustered by sample"
        estimates["own_traffic_kl"] = _estimate(between.own.kl, "nats", between.own.tokens, method)
    return estimates


def _estimate(interval: Interval, unit: str, n: int, method: str) -> Estimate:
    return Estimate(
        value=interval.value, low=interval.low, high=interval.high, unit=unit, n=n, level=0.9, method=method,
        reason=interval.reason,
    )  # fmt: skip


def _items(paired: Paired, baseline: LogprobsMeasurement, candidate: LogprobsMeasurement) -> tuple[dict[str, Json], ...]:
    """One item a window, the worst first."""
    rows = per_window(paired, baseline.columns, candidate.columns)
    ordered = sorted(rows, key=lambda row: (-row[2], row[0]))[:MOST_ITEMS]
    return tuple({"id": key, "positions": count, "ppl_ratio": ratio, "rms_delta_p": rms} for key, count, ratio, rms in ordered)
