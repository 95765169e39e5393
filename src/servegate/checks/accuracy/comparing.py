"""Turns two measurements into one comparison: the drop with its interval, the flips, and each arm against itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from servegate.checks.accuracy.contrast import Flips, Validity, contrast, is_extraction_suspect, kind_of
from servegate.checks.accuracy.pairing import (
    PairedRound,
    Question,
    drops,
    pair_arms,
    pair_with_itself,
    total_unpaired,
)
from servegate.checks.accuracy.record import AccuracyMeasurement, TaskRecord
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.contract import ArmEvidence, Evidence, measured, not_measured
from servegate.domain.evidence import ItemStatus, NotMeasured
from servegate.domain.judgement import Comparison, Estimate, Noise
from servegate.domain.records import Json
from servegate.stats.intervals import Mean, mean_of, smallest_detectable
from servegate.stats.paired import tango_bounds

PASS_ALPHA, FAIL_ALPHA = 0.05, 0.01
"""A PASS rests on the one-sided upper bound at 95 %, a FAIL on the one-sided lower bound at 99 %."""
PER_START = ("--host", "--port", "--served-model-name")
"""Arguments that servegate picks afresh for each start."""
SHOWN_ANSWER = 200


def compare(
    evidence: Evidence[AccuracyMeasurement],
    settings: AccuracySettings,  # noqa: ARG001 - the record says how it was asked; limits belong to `judge`
) -> Comparison | NotMeasured:
    """Pair both arms question by question. Estimates are in percentage points; a positive drop is a loss."""
    missing = not_measured(evidence)
    if missing is not None:
        return missing
    baseline, candidate = measured(evidence)
    judged = {task.task: task.judged_filter for task in (*candidate.tasks, *baseline.tasks)}
    rounds = pair_arms(baseline, candidate)
    left_out, against = drops(rounds, judged), drops(rounds, judged, against_candidate=True)
    noise = {name: pair_with_itself(arm) for name, arm in (("baseline", baseline), ("candidate", candidate))}
    between = contrast(rounds, judged, _validity(evidence, rounds, judged, left_out))
    floors = {name: contrast(passes, judged).to_json() if passes else None for name, passes in noise.items()}
    reason = None if all(floors.values()) else "an arm was asked only once, so its own noise is unknown"
    return Comparison(
        candidate=between.to_json(),
        noise=Noise(**floors, reason=reason) if any(floors.values()) else None,
        noise_reason=None if any(floors.values()) else "each arm was asked only once, so there is no noise to show",
        n=len(left_out),
        unpaired=total_unpaired(rounds),
        estimates=_estimates(rounds, judged, left_out, against, between.rounds),
        items=_items(rounds, judged, noise["baseline"]),
    )


def _estimates(
    rounds: tuple[PairedRound, ...],
    judged: Mapping[str, str],
    left_out: Mapping[Question, float],
    against: Mapping[Question, float],
    flips: tuple[Flips, ...],
) -> dict[str, Estimate]:
    estimates: dict[str, Estimate] = {}
    for name, values in (("drop", left_out), ("drop_against_candidate", against)):
        if values:
            mean = mean_of(list(values.values()))
            estimates[name] = _estimate(mean, PASS_ALPHA)
            estimates[f"{name}_99"] = _estimate(mean, FAIL_ALPHA)
    if left_out:
        mean = mean_of(list(left_out.values()))
        planning = "a planning figure has no interval"
        estimates["drop_sd"] = _point(100 * mean.sd, mean.n, "spread of the drop over questions", "no interval was computed")
        estimates["smallest_detectable_drop"] = _point(
            100 * smallest_detectable(mean.sd, mean.n), mean.n, "one-sided 5 %, power 80 %", planning
        )
    for name, scores in _scores(rounds, judged).items():
        if scores:
            mean = mean_of(scores)
            low, high = max(mean.lower(0.025), 0.0), min(mean.upper(0.025), 1.0)
            estimates[f"accuracy_{name}"] = Estimate(
                value=100 * mean.value, low=100 * low, high=100 * high, unit="%", n=mean.n, method="mean over questions"
            )
    if len(flips) == 1 and flips[0].n:
        lost, won, n = flips[0].right_to_wrong, flips[0].wrong_to_right, flips[0].n
        low, high = tango_bounds(lost, won, n, PASS_ALPHA)
        estimates["drop_tango"] = Estimate(
            value=100 * (lost - won) / n, low=100 * low, high=100 * high, unit="points", n=n, level=0.9, method="Tango score"
        )
    return estimates


def _estimate(mean: Mean, alpha: float) -> Estimate:
    return Estimate(
        value=100 * mean.value,
        low=100 * mean.lower(alpha),
        high=100 * mean.upper(alpha),
        unit="points",
        n=mean.n,
        level=1 - 2 * alpha,
        method="mean of per-question differences, normal; never narrower than the exact bound at no difference",
    )


def _point(value: float, n: int, method: str, reason: str) -> Estimate:
    return Estimate(value=value, low=None, high=None, unit="points", n=n, method=method, reason=reason)


def _scores(rounds: tuple[PairedRound, ...], judged: Mapping[str, str]) -> dict[str, Sequence[float]]:
    """Per arm, each question's mean score over the pairs in which both answers came."""
    found: dict[str, dict[Question, list[float]]] = {"baseline": {}, "candidate": {}}
    for pair in (pair for paired in rounds for pair in paired.pairs if pair.both_came):
        found["baseline"].setdefault(pair.question, []).append(pair.left.score(judged[pair.task]))
        found["candidate"].setdefault(pair.question, []).append(pair.right.score(judged[pair.task]))
    return {arm: [fmean(scores) for scores in questions.values()] for arm, questions in found.items()}


def _validity(
    evidence: Evidence[AccuracyMeasurement],
    rounds: tuple[PairedRound, ...],
    judged: Mapping[str, str],
    left_out: Mapping[Question, float],
) -> Validity:
    baseline, candidate = measured(evidence)
    arms = (("baseline", baseline), ("candidate", candidate))
    scores = {
        score
        for paired in rounds
        for pair in paired.pairs
        if pair.both_came
        for score in (pair.left.score(judged[pair.task]), pair.right.score(judged[pair.task]))
    }
    uniform = scores.pop() if len(scores) == 1 else None
    hashes = {(pair.task, next(iter(pair.left.rows.values())).doc_hash) for paired in rounds for pair in paired.pairs
              if pair.question in left_out}  # fmt: skip
    lost = {name: sum(answer.status is not ItemStatus.OK for answer in arm.responses) for name, arm in arms}
    return Validity(
        arms_differ_in=_differences(baseline.tasks, candidate.tasks),
        judged_filter=dict(judged),
        distinct_questions=len(hashes),
        rounds=len(rounds),
        uniform_score=uniform if uniform in (0.0, 1.0) else None,
        serving_differs=_serving_differs(evidence.baseline, evidence.candidate),
        worse_questions=sum(drop > 0 for drop in left_out.values()),
        better_questions=sum(drop < 0 for drop in left_out.values()),
        answers_baseline=len(baseline.responses),
        answers_candidate=len(candidate.responses),
        no_answers_baseline=lost["baseline"],
        no_answers_candidate=lost["candidate"],
    )


def _differences(baseline: tuple[TaskRecord, ...], candidate: tuple[TaskRecord, ...]) -> tuple[str, ...]:
    """Name what was asked differently: `gsm8k.shots: 5 and 8`."""
    left, right = ({task.task: task for task in tasks} for tasks in (baseline, candidate))
    found = [f"{name}: asked of one arm only" for name in sorted(left.keys() ^ right.keys())]
    for name in sorted(left.keys() & right.keys()):
        mine, theirs = left[name].to_json(), right[name].to_json()
        found += [f"{name}.{key}: {mine[key]} and {theirs[key]}" for key in sorted(mine) if mine[key] != theirs[key]]
    return tuple(found)


def _serving_differs(baseline: ArmEvidence[AccuracyMeasurement], candidate: ArmEvidence[AccuracyMeasurement]) -> bool | None:
    arguments = [_arguments(arm) for arm in (baseline, candidate)]
    return None if None in arguments else arguments[0] != arguments[1]


def _arguments(arm: ArmEvidence[AccuracyMeasurement]) -> list[str] | None:
    if arm.engine is None or not arm.engine.argv:
        return None
    return [argument for argument in arm.engine.argv if argument.split("=", 1)[0] not in PER_START]


def _items(
    rounds: tuple[PairedRound, ...], judged: Mapping[str, str], own: tuple[PairedRound, ...]
) -> tuple[dict[str, Json], ...]:
    """Every pair that differs, right-to-wrong first; `baseline_flips_itself` marks questions that are noise anyway."""
    noisy = {
        pair.question
        for paired in own
        for pair in paired.pairs
        if kind_of(pair, judged[pair.task]) in ("right_to_wrong", "wrong_to_right")
    }
    order = ("right_to_wrong", "wrong_to_right", "both_wrong_different")
    found: list[dict[str, Json]] = []
    for paired in rounds:
        for pair in paired.pairs:
            name = judged[pair.task]
            kind = kind_of(pair, name)
            if kind is not None:
                found.append(
                    {
                        "id": pair.id,
                        "task": pair.task,
                        "doc_id": pair.doc_id,
                        "round": paired.left_round,
                        "filter": name,
                        "kind": kind,
                        "extraction_suspect": is_extraction_suspect(pair, name),
                        "baseline_flips_itself": pair.question in noisy,
                        "baseline_extracted": pair.left.rows[name].extracted[:SHOWN_ANSWER],
                        "candidate_extracted": pair.right.rows[name].extracted[:SHOWN_ANSWER],
                    }
                )
    return tuple(sorted(found, key=lambda item: (order.index(item["kind"]), item["task"], item["doc_id"], item["round"])))
