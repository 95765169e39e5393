"""Contracts under the serving config's own sampling: how often they are kept, and whether the candidate keeps fewer.

Greedy answers show one path; users get draws. Draws differ from each other in the same arm, so no single one is judged,
only the share that keeps its contract. Samples of one prompt are not independent (a hard prompt fails in all of them),
so the prompt is the cluster of the interval, and no bound is closer than that many prompts can know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np

from servegate.checks.answers import UNANSWERED
from servegate.checks.contract import ArmEvidence, Evidence
from servegate.checks.prompts.classes import Reading, read
from servegate.checks.prompts.findings import bounded, found
from servegate.checks.prompts.records import Answer, Prompt, PromptsMeasurement
from servegate.checks.prompts.settings import Limits
from servegate.checks.prompts.tally import Counts
from servegate.domain.blocks import Block, Column, Table
from servegate.domain.judgement import Comparison, Estimate, Finding, Severity
from servegate.domain.records import Json
from servegate.stats.clusters import clustered_mean
from servegate.stats.intervals import never_seen_bound

ALPHA = 0.05
ESTIMATE, OPEN_ESTIMATE = "sampled_drop", "sampled_open_increase"

Key = tuple[str, int]
T = TypeVar("T")


def compared(
    baseline: PromptsMeasurement, candidate: PromptsMeasurement, prompts: Mapping[str, Prompt]
) -> tuple[dict[str, Json], dict[str, Estimate]]:
    """Return {"sampled": counts} and the estimate of the loss; nothing when neither arm was sampled."""
    sides = [{(one.prompt_id, one.round): one for one in side.sampled} for side in (baseline, candidate)]
    if not any(sides):
        return {}, {}
    keys = sorted({*sides[0], *sides[1]})
    paired = [key for key in keys if _asked_the_same(sides[0].get(key), sides[1].get(key), prompts.get(key[0]))]
    kept = {key: tuple(_kept(read(side[key], prompts[key[0]])) for side in sides) for key in paired}
    known = {key: (left, right) for key, (left, right) in kept.items() if left is not None and right is not None}
    counts = [Counts(*(sum(two[side] is state for two in kept.values()) for state in (True, False, None))) for side in (0, 1)]
    counted: dict[str, Json] = {
        "prompts": len({key[0] for key in known}),
        "samples": 1 + max(key[1] for key in keys),
        "pairs": len(known),
        "unpaired": len(keys) - len(paired),
        "failed": {arm: sum(one.status in UNANSWERED for one in side.values()) for arm, side in _named(sides)},
        **{arm: count.to_json() for arm, count in _named(counts)},
    }
    lost = {key: float(left) - float(right) for key, (left, right) in known.items()}
    opened = {key: float(right is None) - float(left is None) for key, (left, right) in kept.items()}
    values = {ESTIMATE: lost, OPEN_ESTIMATE: opened}
    return {"sampled": counted}, {name: _clustered(own) for name, own in values.items() if own}


def lost_evidence(comparison: Comparison, _limits: Limits) -> Finding | None:
    """Sampled answers that failed or could not be paired: nobody knows what users get from that sampling."""
    counted = comparison.candidate.get("sampled")
    failed = sum(counted["failed"].values()) if counted else 0
    if not counted or not failed + counted["unpaired"]:
        return None
    message = f"of the answers that were sampled, {failed} failed and {counted['unpaired']} could not be paired"
    return found("sampled-not-answered", Severity.REVIEW, message)


def worse(comparison: Comparison, limits: Limits) -> Finding | None:
    """The candidate keeps fewer contracts under sampling, beyond what so few prompts do by chance."""
    estimate = comparison.estimates.get(ESTIMATE)
    if estimate is None or estimate.low is None or estimate.low <= limits.sampled_drop_points:
        return None
    counted = comparison.candidate["sampled"]
    message = (
        f"sampled as the serving config samples, the candidate keeps {estimate.value:.1f} points fewer contracts "
        f"({_of(counted['baseline'])} -> {_of(counted['candidate'])}, {estimate.n} prompts)"
    )
    rule = "lower 95 % of the loss under sampling"
    return bounded("sampled-worse", Severity.REVIEW, message, (), rule, estimate.low, ">", limits.sampled_drop_points)


def not_judged(comparison: Comparison, limits: Limits) -> Finding | None:
    """Answers that were cut, or are thoughts alone, keep no contract and break none: with more of them less is known."""
    estimate = comparison.estimates.get(OPEN_ESTIMATE)
    if estimate is None or estimate.low is None or estimate.low <= limits.sampled_drop_points:
        return None
    counted = comparison.candidate["sampled"]
    message = (
        f"sampled as the serving config samples, {counted['candidate']['open']} answers of the candidate are no evidence (cut, "
        f"or thoughts without an answer), and {counted['baseline']['open']} of the baseline"
    )
    rule = "lower 95 % of the increase of sampled answers that are no evidence"
    return bounded("sampled-not-judged", Severity.REVIEW, message, (), rule, estimate.low, ">", limits.sampled_drop_points)


def blocks(comparison: Comparison, evidence: Evidence[PromptsMeasurement]) -> list[Block]:
    """Return the table of kept contracts under sampling; nothing when nothing was sampled."""
    counted, estimate = comparison.candidate.get("sampled"), comparison.estimates.get(ESTIMATE)
    if not counted:
        return []
    arms = (("baseline", evidence.baseline), ("candidate", evidence.candidate))
    rows = [(arm, _of(counted[arm]), counted[arm]["open"], counted["failed"][arm], _defaults(side)) for arm, side in arms]
    said = "too few prompts for an interval"
    if estimate is not None and estimate.low is not None and estimate.high is not None:
        said = f"{estimate.value:+.1f} points, 90 % interval {estimate.low:+.1f} to {estimate.high:+.1f}"
    return [
        Table(
            name="prompt-sampled",
            title="Contracts under the config's own sampling",
            columns=(
                Column(title="arm"), Column(title="kept"), Column(title="not judged"), Column(title="of these failed"),
                Column(title="sampling defaults in the log"),
            ),
            rows=tuple(rows),
            note=f"{counted['prompts']} prompts x {counted['samples']} samples. Kept by the baseline less the candidate: "
            f"{said} (samples of one prompt count as one cluster).",
        )
    ]  # fmt: skip


def _kept(reading: Reading) -> bool | None:
    """Whether a sample keeps its contract; a loop that happens to keep it is nothing that a user could read."""
    return False if reading.kept() and reading.degeneration is not None else reading.kept()


def _clustered(values: Mapping[Key, float]) -> Estimate:
    """Return the mean over samples in points, with one-sided 95 % bounds; one prompt alone has no closer bound than its n."""
    clusters = {name: number for number, name in enumerate(dict.fromkeys(key[0] for key in values))}
    mean = clustered_mean(np.array(list(values.values())), np.array([clusters[key[0]] for key in values]))
    reach = never_seen_bound(mean.clusters, ALPHA)
    low, high = mean.bounds(ALPHA) or (mean.value, mean.value)
    return Estimate(
        value=100 * mean.value,
        low=max(-100.0, 100 * min(low, mean.value - reach)),
        high=min(100.0, 100 * max(high, mean.value + reach)),
        unit="points",
        n=mean.clusters,
        level=1 - 2 * ALPHA,
        method="mean over samples, clustered by prompt (t), never closer than 1 - alpha^(1/prompts)",
    )


def _asked_the_same(left: Answer | None, right: Answer | None, prompt: Prompt | None) -> bool:
    if left is None or right is None or prompt is None:
        return False
    hashes = [(side.prompt_sha256, side.token_ids_sha256, side.sampling_sha256) for side in (left, right)]
    return hashes[0] == hashes[1] and left.prompt_sha256 == prompt.prompt_sha256


def _named(sides: list[T]) -> tuple[tuple[str, T], ...]:
    return ("baseline", sides[0]), ("candidate", sides[1])


def _of(counted: dict[str, int]) -> str:
    return f"{counted['kept']} of {counted['kept'] + counted['broken']}"


def _defaults(side: ArmEvidence[PromptsMeasurement]) -> str:
    """Return what the engine said that it fills in."""
    stated = side.engine.sampling_defaults if side.engine is not None else None
    if not isinstance(stated, dict):
        return "none is named"
    return ", ".join(f"{name}={value}" for name, value in sorted(stated.items())) or "the engine's own"
