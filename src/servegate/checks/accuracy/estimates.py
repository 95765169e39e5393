"""Numbers with intervals from paired questions: the drop in its three readings, accuracies, and each task by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from servegate.checks.accuracy.contrast import Flips, Spread, TaskDrop
from servegate.checks.accuracy.pairing import Pair, PairedRound, Question
from servegate.checks.accuracy.readings import Reading
from servegate.domain.judgement import Estimate
from servegate.stats.intervals import Mean, mean_of, smallest_detectable
from servegate.stats.paired import tango_bounds
from servegate.text.degenerate import LOOP_CHARACTERS

PASS_ALPHA, FAIL_ALPHA = 0.05, 0.01
"""A PASS rests on the one-sided upper bound at 95 %, a FAIL on the one-sided lower bound at 99 %."""
NAMES = {
    Reading.LEFT_OUT: "drop",
    Reading.AGAINST: "drop_against_candidate",
    Reading.FOR: "drop_for_candidate",
}
"""Reading -> name of its estimate; `<name>_99` carries the bounds at 99 %."""
Readings = Mapping[Reading, Mapping[Question, float]]


def estimates(
    rounds: tuple[PairedRound, ...], judged: Mapping[str, str], readings: Readings, flips: tuple[Flips, ...]
) -> dict[str, Estimate]:
    """Return the estimates of a comparison, in points or percent; a positive drop is a loss."""
    found: dict[str, Estimate] = {}
    for reading, name in NAMES.items():
        if readings[reading]:
            mean = mean_of(list(readings[reading].values()))
            found[name] = _estimate(mean, PASS_ALPHA)
            found[f"{name}_99"] = _estimate(mean, FAIL_ALPHA)
    if readings[Reading.LEFT_OUT]:
        mean = mean_of(list(readings[Reading.LEFT_OUT].values()))
        planning = "a planning figure has no interval"
        found["drop_sd"] = _point(100 * mean.sd, mean.n, "spread of the drop over questions", "no interval was computed")
        found["smallest_detectable_drop"] = _point(
            100 * smallest_detectable(mean.sd, mean.n), mean.n, "one-sided 5 %, power 80 %", planning
        )
    for name, increases in _increases(rounds).items():
        if increases:
            found[name] = _estimate(mean_of(increases), PASS_ALPHA)
    for name, scores in _scores(rounds, judged).items():
        if scores:
            mean = mean_of(scores)
            low, high = max(mean.lower(0.025), 0.0), min(mean.upper(0.025), 1.0)
            found[f"accuracy_{name}"] = Estimate(
                value=100 * mean.value, low=100 * low, high=100 * high, unit="%", n=mean.n, method="mean over questions"
            )
    if len(flips) == 1 and flips[0].n:
        lost, won, n = flips[0].right_to_wrong, flips[0].wrong_to_right, flips[0].n
        low, high = tango_bounds(lost, won, n, PASS_ALPHA)
        found["drop_tango"] = Estimate(
            value=100 * (lost - won) / n, low=100 * low, high=100 * high, unit="points", n=n, level=0.9, method="Tango score"
        )
    return found


def task_drops(rounds: tuple[PairedRound, ...], judged: Mapping[str, str], readings: Readings) -> tuple[TaskDrop, ...]:
    """Return each task by itself, in alphabetical order."""
    found = []
    for name in sorted({pair.task for paired in rounds for pair in paired.pairs}):
        own = {reading: [value for (task, _), value in values.items() if task == name] for reading, values in readings.items()}
        scores = _scores(rounds, judged, task=name)
        found.append(
            TaskDrop(
                task=name,
                baseline=fmean(scores["baseline"]) if scores["baseline"] else None,
                baseline_low=max(mean_of(scores["baseline"]).lower(0.025), 0.0) if scores["baseline"] else None,
                candidate=fmean(scores["candidate"]) if scores["candidate"] else None,
                left_out=_spread(own[Reading.LEFT_OUT]),
                against=_spread(own[Reading.AGAINST]),
                held=_spread(own[Reading.FOR]),
                worse=sum(value > 0 for value in own[Reading.FOR]),
                better=sum(value < 0 for value in own[Reading.FOR]),
            )
        )
    return tuple(found)


def _increases(rounds: tuple[PairedRound, ...]) -> dict[str, list[float]]:
    """Per document: how much more often the candidate's answer was degenerate, was cut, never came, and came when asked again.

    They are kept apart, since an answer that was merely long in the baseline may be a loop in the candidate: both are cut.
    Only a document of which an arm writes enough for a loop to show says anything, and copies of one are one.
    """
    pairs: dict[tuple[str, str], list[Pair]] = {}
    for paired in rounds:
        for pair in paired.pairs:
            pairs.setdefault((pair.task, next(iter(pair.left.rows.values())).doc_hash), []).append(pair)
    told = [own for own in pairs.values() if any(map(_could_tell, own))]
    return {
        "degenerate_increase": [fmean(pair.right.degenerate - pair.left.degenerate for pair in own) for own in told],
        "cut_increase": [fmean(pair.right.cut - pair.left.cut for pair in own) for own in told],
        "lost_increase": [fmean(pair.right.lost - pair.left.lost for pair in own) for own in told],
        "late_increase": [fmean(pair.right.late - pair.left.late for pair in own) for own in pairs.values()],
    }


def _could_tell(pair: Pair) -> bool:
    return max(len(pair.left.text), len(pair.right.text)) >= LOOP_CHARACTERS or pair.right.degenerate or pair.right.lost


def _spread(values: list[float]) -> Spread | None:
    if not values:
        return None
    mean = mean_of(values)
    return Spread(value=mean.value, sd=mean.sd, n=mean.n)


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


def _scores(rounds: tuple[PairedRound, ...], judged: Mapping[str, str], task: str | None = None) -> dict[str, Sequence[float]]:
    """Per arm, each question's mean score over the pairs in which both answers came."""
    found: dict[str, dict[Question, list[float]]] = {"baseline": {}, "candidate": {}}
    for paired in rounds:
        for pair in paired.pairs:
            if pair.both_came and task in (None, pair.task):
                found["baseline"].setdefault(pair.question, []).append(pair.left.score(judged[pair.task]))
                found["candidate"].setdefault(pair.question, []).append(pair.right.score(judged[pair.task]))
    return {arm: [fmean(scores) for scores in questions.values()] for arm, questions in found.items()}
