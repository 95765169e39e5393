"""Turns two measurements into one comparison: the drop with its interval, the flips, and each arm against itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from servegate.checks.accuracy.contrast import Validity, contrast
from servegate.checks.accuracy.estimates import Readings, estimates, task_drops
from servegate.checks.accuracy.kinds import BOTH_WRONG, FLIPS, cut_kind, is_extraction_suspect, kind_as_scored, kind_of
from servegate.checks.accuracy.pairing import PairedRound, judgeable, pair_arms, pair_with_itself, rounds_of, total_unpaired
from servegate.checks.accuracy.readings import Reading, drops
from servegate.checks.accuracy.record import AccuracyMeasurement
from servegate.checks.accuracy.settings import AccuracySettings
from servegate.checks.contract import ArmEvidence, Evidence, measured, not_measured
from servegate.domain.evidence import ItemStatus, NotMeasured
from servegate.domain.judgement import Comparison, Noise
from servegate.domain.records import Json

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
    passes = {"baseline": rounds_of(baseline), "candidate": rounds_of(candidate)}
    rounds = judgeable(pair_arms(passes["baseline"], passes["candidate"]), judged)
    readings = {reading: drops(rounds, judged, reading) for reading in Reading}
    left_out = readings[Reading.LEFT_OUT]
    noise = {name: judgeable(pair_with_itself(one), judged) for name, one in passes.items()}
    between = contrast(rounds, judged, _validity(evidence, rounds, judged, readings), task_drops(rounds, judged, readings))
    floors = {name: contrast(own, judged).to_json() if own else None for name, own in noise.items()}
    reason = None if all(floors.values()) else "an arm was asked only once, so its own noise is unknown"
    return Comparison(
        candidate=between.to_json(),
        noise=Noise(**floors, reason=reason) if any(floors.values()) else None,
        noise_reason=None if any(floors.values()) else "each arm was asked only once, so there is no noise to show",
        n=len(left_out),
        unpaired=total_unpaired(rounds),
        estimates=estimates(rounds, judged, readings, between.rounds),
        items=_items(rounds, judged, noise["baseline"]),
    )


def _validity(
    evidence: Evidence[AccuracyMeasurement],
    rounds: tuple[PairedRound, ...],
    judged: Mapping[str, str],
    readings: Readings,
) -> Validity:
    baseline, candidate = measured(evidence)
    left_out, held = readings[Reading.LEFT_OUT], readings[Reading.FOR]
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
    whole, cut = ItemStatus.OK, ItemStatus.TRUNCATED
    statuses = [Counter(answer.status for answer in arm.responses) for arm in (baseline, candidate)]
    lates = [sum(one.asked > 1 and one.status is whole for one in arm.responses) for arm in (baseline, candidate)]
    return Validity(
        arms_differ_in=_differences(baseline, candidate),
        first_tokens_differ=_first_tokens(baseline, candidate),
        first_tokens_unknown=_unknown_first_tokens(baseline, candidate),
        judged_filter=dict(judged),
        distinct_questions=len(hashes),
        rounds=len(rounds),
        uniform_score=uniform if uniform in (0.0, 1.0) else None,
        serving_differs=_serving_differs(evidence.baseline, evidence.candidate),
        worse_questions=sum(drop > 0 for drop in held.values()),
        better_questions=sum(drop < 0 for drop in held.values()),
        answers_baseline=len(baseline.responses),
        answers_candidate=len(candidate.responses),
        no_answers_baseline=statuses[0].total() - statuses[0][whole] - statuses[0][cut],
        no_answers_candidate=statuses[1].total() - statuses[1][whole] - statuses[1][cut],
        cut_baseline=statuses[0][cut],
        cut_candidate=statuses[1][cut],
        late_baseline=lates[0],
        late_candidate=lates[1],
        repeated_baseline=sum(one.repeated for one in baseline.passes),
        repeated_candidate=sum(one.repeated for one in candidate.passes),
        lower_is_better=tuple(
            sorted({task.task for arm in (baseline, candidate) for task in arm.tasks if task.higher_is_better is False})
        ),
        scores_outside=sum(not 0 <= row.score <= 1 for arm in (baseline, candidate) for row in arm.rows
                           if row.filter == judged.get(row.task)),
    )  # fmt: skip


def _differences(baseline: AccuracyMeasurement, candidate: AccuracyMeasurement) -> tuple[str, ...]:
    """Name what was asked differently: `gsm8k.shots: 5 and 8`.

    An arm that was measured in part may not have come to a task: its questions are missing then, not asked differently.
    """
    left, right = ({task.task: task for task in arm.tasks} for arm in (baseline, candidate))
    unreached = left.keys() - right.keys() if candidate.partial else set()
    unreached |= right.keys() - left.keys() if baseline.partial else set()
    found = [f"{name}: asked of one arm only" for name in sorted((left.keys() ^ right.keys()) - unreached)]
    for name in sorted(left.keys() & right.keys()):
        mine, theirs = left[name].to_json(), right[name].to_json()
        found += [f"{name}.{key}: {mine[key]} and {theirs[key]}" for key in sorted(mine) if mine[key] != theirs[key]]
    return tuple(found)


def _first_tokens(baseline: AccuracyMeasurement, candidate: AccuracyMeasurement) -> tuple[str, ...]:
    """Name the tasks whose first prompt the engines begin with other tokens."""
    found = []
    for task in sorted({one.task for one in baseline.passes}):
        left, right = (
            {one.first_token_ids for one in arm.passes if one.task == task and one.first_token_ids is not None}
            for arm in (baseline, candidate)
        )
        if left and right and left != right:
            found.append(f"{task}: {_ids(left)} and {_ids(right)}")
    return tuple(found)


def _unknown_first_tokens(baseline: AccuracyMeasurement, candidate: AccuracyMeasurement) -> tuple[str, ...]:
    """Name the tasks of which one arm alone says how its first prompt begins, with the arm that does not."""
    known = {
        name: {one.task for one in arm.passes if one.first_token_ids is not None}
        for name, arm in (("candidate", candidate), ("baseline", baseline))
    }
    silent = dict.fromkeys(known["baseline"] - known["candidate"], "candidate")
    silent |= dict.fromkeys(known["candidate"] - known["baseline"], "baseline")
    return tuple(f"{task}: {arm}" for task, arm in sorted(silent.items()))


def _ids(begins: set[tuple[int, ...]]) -> str:
    return " or ".join(" ".join(map(str, ids)) for ids in sorted(begins))


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
    noisy = {pair.question for paired in own for pair in paired.pairs if kind_of(pair, judged[pair.task]) in FLIPS}
    order = (*FLIPS, *(cut_kind(kind) for kind in FLIPS), BOTH_WRONG)
    found: list[dict[str, Json]] = []
    for paired in rounds:
        for pair in paired.pairs:
            name = judged[pair.task]
            kind = kind_as_scored(pair, name)
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
